#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Where a tenant's quota is kept, and that the daemon knows it: at a gate, or inside its programs.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        daemon_start
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer; daemon and shims are
        interposed=$plain/tests/gpu/gpu-interposed
        tmpfs=$(mktemp -d /dev/shm/sublet-enforcement-XXXXXX)
}

teardown() {
        node_end
        machine_end
        rm -rf "$tmpfs"
}

# holds NAME MIB: by the daemon's word
holds() { [ "$(of "$1" held_bytes)" = $(($2 * MIB)) ]; }
# the library beside the daemon goes into the directory of a lease: a daemon of the plain build
plain_daemon() { daemon_end KILL; daemon_start; }
is_gone() { [ -z "$("$sublet" ps -q | grep -x "$1")" ]; }

@test "the daemon leases to a tenant with the library inside, lists it and counts what it holds" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        lodger batch --mem 1G -- "$interposed" hold 256 "$machine/held-2"
        [ "$(of chat plane)" = preload ]
        [ "$(of batch plane)" = gate ]
        [ "$(of chat quota_bytes)" = $((2048 * MIB)) ]
        wait_for holds chat 512
        [ "$(of chat processes)" -eq 1 ]
        "$sublet" ps | grep -q "^chat .* preload "
        run on "$sublet" run --preload --mem 22G -- true # what is leased is leased
        [ "$status" -ne 0 ] && [[ $output == *"do not fit"* ]]
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
        run "$sublet" ps -a --json
        [ "$(jq -r '.[] | select(.tenant == "chat") | .state + " " + .plane + " " + (.devices[0].peak_bytes | tostring)' <<< "$output")" = "ended preload $((512 * MIB))" ]
}

@test "its quota is the daemon's, and its programs keep it" {
        run on "$sublet" run -q --preload --attach=never --mem 1G -- "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "its page cannot be changed, so 'set' says what to do; 'end' ends it" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        run "$sublet" set chat mem=4G
        [ "$status" -ne 0 ] && [[ $output == *"plane preload"* ]]
        "$sublet" end chat
        wait_for is_gone chat
}

@test "shares of time need a gate, and so do modes" {
        run on "$sublet" run --preload --attach=auto --share 30 -- true
        [ "$status" -eq 2 ] && [[ $output == *"--attach=required"* ]]
        run on "$sublet" run --preload --mode mig -- true
        [ "$status" -eq 2 ] && [[ $output == *"leave --preload out"* ]]
}

@test "a daemon that is killed and replaced knows it again, and what it holds" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        local id
        id=$(of chat id)
        daemon_end KILL
        daemon_start
        wait_for holds chat 512
        [ "$(of chat id)" = "$id" ]
        [ "$(of chat state)" = running ]
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

# Each daemon is killed at another moment of its life: when it has just opened its sockets, takes tenants back, or has
# them.
@test "daemons are killed one after the other: the last one knows the tenant again" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        local id i
        id=$(of chat id)
        for i in 0 0 0.01 0.02 0.05 0.1 0.3 0; do
                daemon_end KILL
                daemon_start
                sleep "$i"
        done
        wait_for holds chat 512
        [ "$(of chat id)" = "$id" ]
        [ "$("$sublet" events chat | grep -c TENANT_ENDED)" -eq 0 ]
        daemon_end KILL # what took it back at leisure goes, too
        daemon_start
        wait_for holds chat 512
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

@test "run repeats that it is back until a daemon answers" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        daemon_end KILL
        rm "$SUBLET_DIR/tenant.sock"
        /usr/bin/python3 - "$SUBLET_DIR/tenant.sock" > "$machine/mute" 2>&1 <<'END' 3>&- &
import json, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind(sys.argv[1])
door.listen()
kept = []
while True:
    kept.append(door.accept()[0])
    print(json.loads(kept[-1].recv(65536))["type"], flush=True)
END
        local mute=$!
        supervisors+=("$mute")
        wait_for eval '[ "$(grep -cx return "$machine/mute")" -ge 2 ]'
        kill "$mute"
        daemon_start
        wait_for holds chat 512
        [ "$(of chat state)" = running ]
}

@test "run comes back after its lease was given up: one line, and the exit code is the command's" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        local code=0
        held_in "$machine/held"
        kill -STOP "$supervisor"
        daemon_end KILL
        daemon_start
        wait_for is_gone chat # after 10 s of waiting for run
        kill -CONT "$supervisor"
        wait_for grep -q "^sublet: chat: .*has meanwhile given up this lease" "$machine/chat"
        sleep 0.5
        [ "$(wc -l < "$machine/chat")" -eq 1 ]
        kill "$(cat "$machine/held")"
        wait "$supervisor" || code=$?
        [ "$code" -eq 143 ]
}

@test "run is killed: the command goes on within its quota, and the lease lasts as long" {
        lodger chat --preload --attach=never --mem 2G -- "$interposed" hold 512 "$machine/held"
        wait_for holds chat 512 # the command has begun
        kill -9 "$supervisor"
        sleep 1.5
        holds chat 512
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

@test "a lease as a directory is the daemon's as long as the directory" {
        plain_daemon
        on "$sublet" lease --mem 3G --name web "$tmpfs/web" > "$machine/mounts"
        grep -q "$tmpfs/web:/run/sublet/lease:ro" "$machine/mounts"
        [ "$(of web plane) $(of web quota_bytes)" = "preload $((3072 * MIB))" ]
        daemon_end KILL
        daemon_start
        [ "$(of web state)" = running ]
        "$sublet" lease --end "$tmpfs/web"
        wait_for is_gone web
        on "$sublet" lease --mem 3G --name web "$tmpfs/web"
        rm -r "$tmpfs/web"
        wait_for is_gone web
        on "$sublet" lease --mem 3G --name web "$tmpfs/web"
        "$sublet" end web
        wait_for is_gone web
        [ ! -e "$tmpfs/web" ]
}

@test "what a tenant writes into its region is shown, and breaks nothing" {
        plain_daemon
        on "$sublet" lease --mem 3G --name web "$tmpfs/web" > /dev/null
        tr '\0' '\377' < /dev/zero | dd of="$tmpfs/web/region" bs=4096 seek=1 count=50 conv=notrunc status=none
        sleep 1
        [ "$(of web held_bytes)" -eq 0 ]
        truncate -s 100 "$tmpfs/web/region" # the daemon maps nothing of it
        sleep 1
        [ "$(of web state)" = running ]
        rm -r "$tmpfs/web"
        wait_for is_gone web
}
