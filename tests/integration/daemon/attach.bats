#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs with the library inside hand themselves over to the daemon's gate before their own code begins.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        daemon_start
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer; daemon and shims are
        interposed=$plain/tests/gpu/gpu-interposed
}

teardown() {
        node_end
        machine_end
}

# attached [OPTION...] -- COMMAND...: a tenant that must attach; its books go into $report
attached() { on "$sublet" run --preload --attach=required --json --report "$report" "$@"; }
is_gone() { [ -z "$("$sublet" ps -q | grep -x "$1")" ]; }
holds() { [ "$(of "$1" held_bytes)" = $(($2 * MIB)) ]; }

@test "a tenant with the library inside attaches by itself, and 'ps' says so" {
        lodger chat --preload --mem 2G -- "$interposed" hold 512 "$machine/held"
        wait_for holds chat 512
        [ "$(of chat plane)" = attached ]
        [ "$(of chat keeper)" -gt 0 ]
        "$sublet" events chat | grep -q TENANT_ATTACHED
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

@test "--attach=never stays inside" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        wait_for holds chat 512 # before its program has begun, any tenant is inside
        [ "$(of chat plane)" = preload ]
}

@test "an attached tenant keeps its quota, with the answers of a gate" {
        run attached --mem 1G -- "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
        cat "$report"
        [ "$(field peak_bytes)" -eq $((1024 * MIB)) ]
        [ "$(field held_bytes)" -eq 0 ]
        [ "$(field calls)" -gt 10 ] # of the gate
}

@test "a program that makes its system calls itself is stopped below one that attached" {
        hostile=$plain/tests/gpu/gpu-hostile # past libc, and past the library: it would be free to, without a gate
        run on "$sublet" run -q --preload --attach=never --mem 1G -- sh -c '"$0" --steps 64 --max 4096; exit' "$hostile"
        echo "$output"
        [[ $output != *"got_mib=1024"* ]] # nobody answers system calls on the simulator, but a gate
        run attached --mem 1G -- sh -c '"$0" --steps 64 --max 4096; exit' "$hostile"
        echo "$output"
        [[ $output == *"got_mib=1024"*"status=0x51"* ]]
        [ "$(field refusals)" -ge 1 ]
}

@test "a cleared environment, and programs without the library, stay below the gate" {
        run attached --mem 1G -- env -i SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "children find that they are below the gate, and do not attach twice" {
        run attached --mem 1G -- sh -c 'for i in 1 2 3; do "$0" threads 2; done' "$interposed"
        echo "$output"
        [ "$output" = $'got_mib=1024\ngot_mib=1024\ngot_mib=1024' ]
        [ "$("$sublet" events --json | jq -s '[.[] | (arrays // [.])[] | select(.name == "TENANT_ATTACHED")] | length')" -eq 1 ]
}

@test "an attached tenant does not notice that the daemon is killed and replaced" {
        lodger chat --preload --mem 2G -- "$interposed" hold 512 "$machine/held"
        wait_for holds chat 512 # attached by now
        daemon_end KILL
        daemon_start
        wait_for holds chat 512
        [ "$(of chat plane)" = attached ]
}

@test "an attached tenant has a share of time, and 'set' changes its lease" {
        lodger chat --preload --attach=required --share 30 --mem 2G -- "$interposed" hold 512 "$machine/held"
        wait_for holds chat 512
        [ "$(of chat share_permille)" -eq 300 ]
        "$sublet" set chat mem=4G
        [ "$(of chat quota_bytes)" -eq $((4096 * MIB)) ]
}

@test "a program that cannot attach stays inside, with the reason on record, or makes no driver call" {
        # a gate of one's own stands in between: the kernel allows one listener
        run on "$sublet" run -q --no-daemon -- "$sublet" run -q --preload --attach=auto --mem 1G -- "$interposed" threads 2
        echo "$output"
        [[ $output == *"got_mib=1024"* ]]
        "$sublet" events | grep -q "NOT_ATTACHED.*busy"
        run on "$sublet" run -q --no-daemon -- "$sublet" run -q --preload --attach=required --mem 1G -- "$interposed" fork
        echo "$output"
        [ "$status" -ne 0 ]
        [[ $output == *"no driver call is made"*"could not be attached"* ]]
}

@test "a process that is not below the gate makes no driver call beside it" {
        lodger chat --preload --mem 2G -- sh -c 'exec "$0" hold 512 "$1"' "$interposed" "$machine/held"
        local fds
        fds=/proc/$(held_in "$machine/held")/fd
        run on env LD_PRELOAD="$plain/src/preload/libsublet.so:$machine_preload" PAGE="$fds/1000" REGION="$fds/1001" GUEST="$interposed" \
                bash -c 'exec 1000< "$PAGE" 1001<> "$REGION"; exec "$GUEST" fork'
        echo "$output"
        [[ $output == *"no driver call is made: its tenant is under a gate"* ]]
        holds chat 512
}

@test "a library that is loaded late puts the threads that are there under the gate, too" {
        command -v busybox > /dev/null || skip "no static busybox here"
        # a static program takes the library out of the environment before anything has loaded it
        run attached --mem 1G -- busybox env -u LD_PRELOAD "$interposed" late "$plain/src/preload/libsublet.so"
        echo "$output"
        [ "$output" = "threads=2 below=2" ]
}

@test "silent connections keep nobody out: attach.sock is mounted into containers, whose root has no privilege there" {
        chmod 755 "$machine" "$SUBLET_DIR"
        /usr/bin/python3 - "$SUBLET_DIR" > "$machine/full" <<'END' 3>&- &
import os, socket, sys, time
def come(name, n):
    held = []
    for _ in range(n):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(sys.argv[1] + "/" + name)
        held.append(s)
    return held
held = come("attach.sock", 600)
if os.fork() == 0: # and goes on
    while True:
        held = (held + come("attach.sock", 1))[-200:]
        time.sleep(0.001)
for uid in range(2000, 2010):
    if os.fork() == 0:
        os.setuid(uid)
        held = come("tenant.sock", 70)
        os.write(1, b"full\n") # at once: print may write the end of the line by itself, and ten write here
        time.sleep(30)
        os._exit(0)
time.sleep(30)
END
        crowd=$!
        wait_for eval '[ "$(grep -c full "$machine/full")" = 10 ]'
        on timeout 10 "$sublet" run -q --mem 1G -- true
        attached --mem 1G -- "$interposed" threads 2 # of the same number of user as those at attach.sock
        pkill -P "$crowd"
        kill "$crowd"
}
