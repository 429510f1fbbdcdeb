#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A shim is its tenant's gate: if the daemon dies, the tenant does not notice, and no channel stays disabled.
# A fake daemon (tests/fakes/lessor.py) sets the control block directly; the last tests use the real daemon.
# shellcheck disable=SC2046 # the words of work
bats_require_minimum_version 1.5.0
load ../machine
load ../lessor

load_=$plain/tests/gpu/gpu-load

setup() {
        machine_start
        node=$machine/node
        mkdir -p "$node"
        export SUBLET_DIR=$node
}

teardown() {
        local process
        exec 7>&- 8<&-
        for process in ${lessor:-} ${daemon:-} ${runner:-}; do
                kill -9 "$process" 2> /dev/null || true
        done
        machine_end
}

# Work that says every 0.1 s that it goes on: launches so far
ticking() {
        printf '%s' "$load_ -k 1000 -t 30 -o $BATS_TEST_TMPDIR/log sync"
}

# work KIND [OPTION...]: a load that is set up, with its channels and its memory, and does its work after `go`
work() { printf '%s' "$load_ -b $machine -t 0.2 ${*:2} $1"; }
go() { touch "$machine/go"; }
is_set_up() { [ -e "$machine/load.ready" ]; }

command_of() { # the child of sublet run
        pgrep -P "$1" | head -1
}

# ---- the way there --------------------------------------------------------------------------------

@test "a tenant of the daemon is run as one without: exit code, account, an empty ledger" {
        lessor_start
        run tenant --name chat-1 -- "$families" meminfo
        [ "$status" -eq 0 ]
        [[ $output == *total_mib=8192* ]]
        [ "$(field quota_bytes)" = 8589934592 ]
        grep -q '"tenant":"chat-1"' "$report"
        books_are_empty
        run tenant -- sh -c 'exit 3'
        [ "$status" -eq 3 ]
        run tenant -- sh -c 'kill -9 $$'
        [ "$status" -eq 137 ]
        run -127 tenant -- /nonexistent/program
}

@test "--share without a daemon is one line that names it, and --no-daemon does not go with it" {
        run --separate-stderr tenant --share 30 -- true
        [ "$status" -eq 125 ]
        [[ $stderr == *"sublet daemon"* ]]
        lessor_start
        run --separate-stderr tenant --no-daemon --class=latency -- true
        [ "$status" -eq 2 ]
        run tenant --no-daemon -- true
        [ "$status" -eq 0 ]
}

@test "a daemon that is dead and left its socket is not run past" {
        lessor_start
        kill -9 "$lessor"
        wait "$lessor" 2> /dev/null || true
        run --separate-stderr tenant -- touch "$BATS_TEST_TMPDIR/ran"
        [ "$status" -eq 125 ]
        [[ $stderr == *"--no-daemon"* ]]
        [ ! -e "$BATS_TEST_TMPDIR/ran" ]
}

@test "a daemon that is being replaced is waited for" {
        lessor_start
        kill -9 "$lessor"
        wait "$lessor" 2> /dev/null || true
        mv "$node/tenant.sock" "$node/dead.sock"
        lessor_start
        # However long it took to start: run finds the dead one's door, and half a second later the new one's.
        mv "$node/tenant.sock" "$node/new.sock"
        mv "$node/dead.sock" "$node/tenant.sock"
        runner_start -- true
        sleep 0.5
        kill -0 "$runner"
        mv "$node/new.sock" "$node/tenant.sock"
        wait "$runner"
}

@test "a descriptor that is no listener is refused: no shim waits for ever" {
        lessor_start
        run /usr/bin/python3 - "$node" << 'END'
import array, json, os, socket, sys
run = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
run.connect(sys.argv[1] + '/tenant.sock')
run.send(json.dumps({'v': 1, 'type': 'lease', 'tenant': 'x', 'command': 'x', 'share': 0, 'cap': 1000,
                     'class': 'normal', 'audit_ms': 0}).encode())
assert json.loads(run.recv(65536))['type'] == 'granted'
run.sendmsg([json.dumps({'v': 1, 'type': 'listener'}).encode()],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [os.pipe()[0]]))])
run.settimeout(10)
print(json.loads(run.recv(65536)))
assert run.recv(65536) == b''
END
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *failed*listener* ]]
}

# ---- the control block ------------------------------------------------------------------------------------

@test "the control block has the tenant's accounts and channels, and is empty again after it" {
        lessor_start
        runner_start -- $(work sync)
        wait_for block_has n_compute 8
        [ "$(number held)" -gt 1000000 ]
        wait_for block_has n_processes 1
        go
        wait "$runner"
        books_are_empty
}

@test "a quota is cut while the tenant holds more: it keeps that, gets no more, and there is an event; raised, it goes on" {
        lessor_start
        runner_start -- sh -c "$(work sync) & while [ ! -e $machine/cut ]; do sleep 0.02; done; $families meminfo; wait"
        wait_for has_channels
        tell 'set {"serial": 1, "mem": {"0": 1048576}}'
        wait_for block_has quota 1048576
        wait_for heard '*QUOTA_SHRANK*'
        wait_for heard '*"serial": 1, "ok": true*'
        touch "$machine/cut"
        go
        wait "$runner" || true
        grep -q QUOTA_SHRANK "$said"
        [ "$(field refusals)" -ge 1 ]
        books_are_empty
}

@test "signs of work: launches are seen, also while the tenant is disabled, and idle is seen" {
        lessor_start
        runner_start -- $(work deep -k 5000)
        wait_for has_channels
        tell watch 1000000
        wait_for block_has can_watch 1
        tell off
        go
        wait_for block_has n_pending 1
        tell on
        wait "$runner"
        rm "$machine/go"
        runner_start -- $(work idle)
        wait_for has_channels
        tell watch 1000000
        wait_for block_has can_watch 1
        wait_for block_has n_pending 0
        go
        wait "$runner"
}

@test "a slice is set on the tenant's descriptor, and the driver's own comes back" {
        lessor_start
        runner_start -- $(work sync -k 1000)
        wait_for has_channels
        tell slice 50000
        wait_for block_has slice_set 50000
        [ "$(number n_slice_failed)" -eq 0 ]
        tell slice 0
        wait_for block_has slice_set 0
        go
        wait "$runner"
}

# ---- nobody stays off -----------------------------------------------------------------------------

# goes_on: the load has done more than a moment ago
pieces() { stat -c %s "$BATS_TEST_TMPDIR/log" 2> /dev/null || echo 0; }

@test "a tenant that starts while disabled does not run; enabled, it does" {
        lessor_start --off
        runner_start -- "$load_" -k 1000 -t 1 deep
        wait_for has_channels
        sleep 2
        kill -0 "$runner"       # its work waits
        tell off                # a daemon makes the call for channels that it sees; the shim did for new ones
        kill -9 "$lessor"
        wait_for eval '! kill -0 $runner'
        wait "$runner"
}

@test "a silent daemon keeps nobody disabled, and its desired state holds when it is back" {
        lessor_start --off
        runner_start -- $(work sync -k 1000)
        wait_for has_channels
        wait_for block_has is_reenabled 0
        kill -STOP "$lessor"
        sleep 1.2
        kill -CONT "$lessor"
        sleep 0.02
        tell block
        wait_for block_has is_reenabled 0
        wait_for block_has is_disabled 1
        tell on
        go
        kill -9 "$lessor"
        wait "$runner"
}

@test "the next daemon gets the control block, the lease and what the tenant holds" {
        local held
        lessor_start
        runner_start --name chat-1 --share 30 -- $(work sync)
        wait_for is_set_up
        tell block
        held=$(number held)
        kill -9 "$lessor"
        wait "$lessor" 2> /dev/null || true
        sleep 0.3
        lessor_start
        wait_for block_has held "$held"
        wait_for heard '*"type": "hello", "tenant": "chat-1"*"share": 300*'
        go
        wait "$runner"
        wait_for heard '*ended*'
        books_are_empty
}

@test "a tenant that ends while there is no daemon is reported to the next one" {
        lessor_start
        runner_start --name short -- $(work sync)
        wait_for has_channels
        kill -9 "$lessor"
        wait "$lessor" 2> /dev/null || true
        go
        wait "$runner"
        books_are_empty
        lessor_start
        wait_for heard '*short*ended*'
}

# ---- ends -----------------------------------------------------------------------------------------

@test "'end' ends the tenant, also processes that made no driver call" {
        lessor_start
        runner_start -- sh -c "$load_ -t 30 sync & sleep 300"
        wait_for has_channels
        tell end
        wait "$runner" && false || [ $? -eq 137 ]
        books_are_empty
}

@test "sublet run killed: its tenant ends with it, and the device has its memory back" {
        local shim child
        lessor_start
        runner_start -- "$load_" -t 30 sync
        wait_for has_channels
        shim=$(number keeper)
        child=$(command_of "$runner")
        kill -9 "$runner"
        wait_for eval "! kill -0 $child"
        wait_for eval "! kill -0 $shim"
        [ "$(free_mib)" -gt 140000 ]
}

@test "stopping a service does not end a shim" {
        local shim signal
        lessor_start
        runner_start -- $(work sync)
        wait_for has_channels
        shim=$(number keeper)
        for signal in TERM INT HUP QUIT PIPE USR1; do
                kill -"$signal" "$shim"
        done
        go
        wait "$runner"
        books_are_empty
}

@test "a shim killed: its tenant's driver calls fail, with an event; another tenant does not notice" {
        local shim other code=0
        lessor_start
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" run -q -- $(work sync) < /dev/null > /dev/null 2>&1 3>&- 7>&- 8>&- &
        other=$!
        wait_for has_channels
        shim=$(number keeper)
        runner_start -- "$race" --seconds 30
        wait_for eval "tell block && [ \"\$(number keeper)\" != $shim ]"
        wait_for eval "tell block && [ \"\$(number held)\" -gt 0 ]"
        kill -9 "$(number keeper)"
        wait "$runner" || code=$?
        grep -q KEEPER_DIED "$said"
        go
        wait "$other"
}

# ---- the real daemon ------------------------------------------------------------------------------

daemon_start() {
        SUBLET_SIM=$machine_dir "$sublet" daemon --dir "$node" > "$machine/daemon.said" 2>&1 3>&- &
        daemon=$!
        wait_for test -S "$node/tenant.sock"
}

# SUBLET_KILLS=200 for a long run
@test "the daemon is killed again and again under load: no tenant has an error, all ledgers are empty" {
        local kills=${SUBLET_KILLS:-12} i pids=() code
        daemon_start
        for i in 1 2 3; do
                SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                        "$sublet" run -q --json --report "$report.$i" --name "deep-$i" --mem 20G --share 30 -- \
                        sh -c "while [ ! -e $machine/stop ]; do $load_ -k 500 -t 0.3 deep && $families meminfo || exit 9; done" \
                        < /dev/null > "$machine/load.$i" 2>&1 3>&- &
                pids+=($!)
        done
        for i in 1 2 3; do
                wait_for grep -q total_mib "$machine/load.$i" || {
                        tail -n 3 -- "$machine"/load.* "$machine/daemon.said"
                        SUBLET_SIM=$machine_dir "$sublet" ps
                        return 1
                }
        done
        for ((i = 0; i < kills; i++)); do
                sleep "0.$((RANDOM % 6))$((RANDOM % 10))"
                kill -9 "$daemon"
                wait "$daemon" 2> /dev/null || true
                [ $((RANDOM % 3)) -ne 0 ] || sleep 0.4
                daemon_start
        done
        touch "$machine/stop"
        for i in 0 1 2; do
                code=0
                wait "${pids[i]}" || code=$?
                [ "$code" -eq 0 ] || { echo "tenant $i: $code"; cat "$machine/load.$((i + 1))"; return 1; }
                [ "$(grep -o '"held_bytes":[0-9]*' "$report.$((i + 1))" | sort -u)" = '"held_bytes":0' ]
                run grep -iE 'error|fail' "$machine/load.$((i + 1))"
                [ "$status" -ne 0 ]
        done
}
