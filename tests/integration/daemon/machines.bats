#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Simulated machines beside each other: a directory is one machine's at a time, and a daemon leases to callers on its
# own only.
# variants: plain address, because quota.bats and daemon.bats have the same threads
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --gpus 2 --memory 16G
}

teardown() {
        node_end
        machine_end
}


@test "a second machine in the directory of a running one is refused, and the first keeps its tenants to their quota" {
        daemon_start
        lodger chat --mem 1G -- sleep 60
        run -1 --separate-stderr "$plain/src/sublet" sim --dir "$machine" --gpus 1 -- touch "$machine/came"
        echo "$stderr"
        [[ $stderr == "sublet sim: a machine runs in $machine: 'sublet sim --join $machine -- COMMAND'"* ]]
        [ ! -e "$machine/came" ]
        kill -0 "$machine_process"
        run -0 on "$sublet" run --mem 1G -- "$families" alloc 64
        echo "$output"
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$("$sublet" ps -q)" = chat ]
}

@test "what is no directory is refused with the next step, by a machine and by a plain user's daemon" {
        touch "$BATS_TEST_TMPDIR/plain"
        run -1 "$plain/src/sublet" sim --dir "$BATS_TEST_TMPDIR/plain" -- true
        [ "$output" = "sublet sim: $BATS_TEST_TMPDIR/plain is no directory: choose another --dir" ]
        [ "$(id -u)" = 0 ] || skip 'a plain user is made by root'
        mkdir -m 755 "$BATS_TEST_TMPDIR/roots"
        chmod 755 "$machine"
        run -1 on setpriv --reuid 65534 --regid 65534 --clear-groups "$sublet" daemon --dir "$BATS_TEST_TMPDIR/roots/x"
        echo "$output"
        [[ $output == "sublet daemon: making "*"/roots/x: Permission denied: "*"name a directory of yours by --dir or"* ]]
}

@test "a directory whose machine has ended is taken again, and nothing of the old machine is left" {
        kill -KILL "$(cat "$machine/pid")"
        run -2 --separate-stderr "$plain/src/sublet" sim --join "$machine" -- true
        run -0 "$plain/src/sublet" sim --dir "$machine" --gpus 1 -- "$plain/src/sublet" doctor
        echo "$output"
        [ ! -e "$machine/dev/nvidia1" ]
        [ "$(ls "$machine/proc/driver/nvidia/gpus")" = 0000:01:00.0 ]
}

@test "--join runs a command on the machine that runs there, and its exit code is the command's" {
        run -7 "$plain/src/sublet" sim --join "$machine" -- sh -c '[ "$SUBLET_SIM" = "$1" ] && exit 7' - "$machine_dir"
        kill -0 "$machine_process"
        run -0 "$plain/src/sublet" sim --join "$machine" -- "$sublet" run --no-daemon --mem 1G -- "$families" alloc 64
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        run -2 --separate-stderr "$plain/src/sublet" sim --join "$machine/none" -- true
        [ "$stderr" = "sublet sim: no machine runs in $machine/none: start one with 'sublet sim --dir $machine/none -- COMMAND'" ]
        run -2 --separate-stderr "$plain/src/sublet" sim --join "$machine"
        [[ $stderr == "sublet sim: no command to run"* ]]
}

@test "a caller on another machine is granted nothing, and nothing is started" {
        daemon_start
        for way in --mem=1G --preload; do
                run -125 "$plain/src/sublet" sim -- "$plain/src/sublet" run "$way" -- touch "$machine/came"
                echo "$output"
                [[ $output == *"the caller is on another simulated machine, this daemon on a simulated one"* ]]
        done
        run -125 env -u SUBLET_SIM "$plain/src/sublet" run --preload -- touch "$machine/came"
        [[ $output == *"the caller is on the machine itself, this daemon on a simulated one"* ]]
        [ ! -e "$machine/came" ]
        [ -z "$("$sublet" ps -q)" ]
        run -0 "$plain/src/sublet" sim --join "$machine" -- "$sublet" run --mem 1G -- true
}
