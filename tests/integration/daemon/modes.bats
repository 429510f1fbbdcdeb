#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tenants side by side (--mode spatial). A fake replaces NVIDIA's MPS; on a real device tests/gpu/time.sh uses the real
# one.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G
        old_path=$PATH
        export PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH
}

teardown() {
        local control
        node_end
        # A control daemon outlives ours, and one that was just started stands in no file yet.
        # shellcheck disable=SC2013  # words are wanted
        for control in $(grep -lz "^CUDA_MPS_PIPE_DIRECTORY=$machine/" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3); do
                kill -9 "$control" 2> /dev/null || true
        done
        export PATH=$old_path
        machine_end
}

spatial() { # NAME [OPTION...] -- COMMAND...
        on "$sublet" run -q --name "$@"
}

# lives NAME: its shim is there, so it outlives the daemon
lives() { [ "$(of "$1" state)" = running ]; }
control() { cut -d' ' -f1 "$SUBLET_DIR/mps/0/control"; }
in_space() { [ "$("$sublet" ps --json | jq -r '.[0].mode')" = spatial ]; }

@test "a tenant of mode spatial has its pipe and its part of the device before it starts" {
        daemon_start
        run -0 spatial a --mode spatial --mem 1G --share 30 -- sh -c 'ls "$CUDA_MPS_PIPE_DIRECTORY/control" && echo "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'
        [ "${lines[0]}" = "$SUBLET_DIR/mps/0/pipe/control" ]
        [ "${lines[1]}" = 30.0 ]
        run -0 spatial a --mode spatial --mem 1G -- sh -c 'echo "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'
        [ "$output" = 100.0 ]
}

@test "an MPS client gets what its server lends, and nothing of another process" {
        daemon_start
        lodger other --mode spatial --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/other"
        neighbour=$(value client "$(cat "$machine/other")")
        run -0 --separate-stderr spatial a --mode spatial --mem 1G -- nvidia-cuda-mps-control client "$neighbour" 0x5c000041
        echo "$output"
        [ "$(value group "$output")" = 0x0 ]
        [ "$(value mailbox "$output")" = 0x0 ]
        [ "$(value other "$output")" != 0x0 ]
        [ "$(value outsider "$output")" != 0x0 ]
        wait_for eval '"$sublet" events a | grep -q FOREIGN_OBJECT'
}

@test "a tenant of mode time gets nothing of an MPS server" {
        daemon_start
        mkdir "$machine/pipe"
        on env CUDA_MPS_PIPE_DIRECTORY="$machine/pipe" nvidia-cuda-mps-control -f 3>&- & peer=$!
        wait_for [ -S "$machine/pipe/control" ]
        run -0 --separate-stderr on env CUDA_MPS_PIPE_DIRECTORY="$machine/pipe" "$sublet" run -q --name a --mem 1G -- nvidia-cuda-mps-control client
        on env CUDA_MPS_PIPE_DIRECTORY="$machine/pipe" nvidia-cuda-mps-control <<< quit
        wait "$peer"
        [ "$(value group "$output")" != 0x0 ]
        [ "$(value mailbox "$output")" != 0x0 ]
}

@test "a device is shared in time or in space, and the other is refused with the next step" {
        daemon_start
        lodger a --mode spatial --mem 1G -- sleep 60
        wait_for lives a
        in_space
        run spatial b --mem 1G -- true
        [ "$status" -ne 0 ]
        [[ $output == *"device 0 is shared by tenants of --mode spatial now"* ]]
        run "$sublet" set a share=20
        [[ $output == *"set when it starts"* ]]
        "$sublet" set a mem=2G
        "$sublet" end a
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        run -0 spatial b --mem 1G -- true
}

@test "the control daemon outlives the daemon, and ends with its last tenant under the next" {
        daemon_start
        lodger a --mode spatial --mem 1G -- sleep 60
        wait_for lives a
        first=$(control)
        daemon_end KILL
        kill -0 "$first"
        daemon_start
        wait_for in_space
        lodger b --mode spatial --mem 1G -- sleep 60
        wait_for lives b
        [ "$(control)" = "$first" ]
        "$sublet" end a b
        wait_for eval '! kill -0 "$first"'
        wait_for eval '[ ! -e "$SUBLET_DIR/mps/0/control" ]'
}

@test "a control daemon that dies is started again, and its tenants get an event" {
        daemon_start
        lodger a --mode spatial --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/a"
        first=$(control)
        kill -9 "$first"
        wait_for eval '"$sublet" events --json | jq -e "select(.name == \"MPS_FAULT\" and .tenant == \"a\")"'
        wait_for eval '[ -e "$SUBLET_DIR/mps/0/control" ] && [ "$(control)" != "$first" ]'
        wait_for eval 'kill -0 "$(control)"'
}

@test "a server that dies takes its clients with it, and each is named" {
        daemon_start
        lodger a --mode spatial --mem 1G -- nvidia-cuda-mps-control client wait
        lodger b --mode spatial --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/b"
        sleep 3 # it is looked for once a second, and more seldom where daemon and machine share two busy processors
        pkill -9 -P "$(control)"
        wait_for eval '[ "$("$sublet" events --json | jq -r "select(.name == \"MPS_FAULT\").tenant" | sort -u | grep -c "^[ab]$")" = 2 ]'
}

@test "tenants of mode spatial are billed for what they had, and none is taken off the device" {
        daemon_start
        lodger a --mode spatial --mem 1G --share 70 -- "$load_program" -t 300 deep
        lodger b --mode spatial --mem 1G -- "$load_program" -t 300 deep
        lodger c --mode spatial --mem 1G -- sleep 60
        wait_for eval '[ "$(of a used_ns)" -gt 200000000 ] && [ "$(of b used_ns)" -gt 200000000 ]'
        for _ in $(seq 20); do
                run ! grep -q true <("$sublet" ps --json | jq '.[].devices[0].is_off')
        done
        [ "$(of c used_ns)" -lt 50000000 ]
}

@test "without the program a request of mode spatial is refused in one line" {
        export PATH=$old_path
        ! command -v nvidia-cuda-mps-control || skip "this machine has it"
        daemon_start
        run spatial a --mode spatial --mem 1G -- true
        [ "$status" -ne 0 ]
        [[ $output == *"nvidia-cuda-mps-control is nowhere in the PATH: it comes with the driver"* ]]
        [ "${#lines[@]}" -eq 1 ]
        [ -z "$("$sublet" ps -q)" ]
}

# ---- MIG: on a machine whose device 0 has instances. The simulator's NVML reports them; no real device in MIG mode was
# available.

mig_machine() {
        machine_end
        machine_start --memory 64G --gpus 2 --mig 20G,10G,10G
        daemon_start
}

# What a client of the driver's gets that subscribes to instances (GPU, COMPUTE)...: the driver's answers, in words
subscriber=$BATS_TEST_DIRNAME/../../fakes/mig/subscribe

@test "a lease on MIG gets the smallest free instance that holds it, and its memory" {
        mig_machine
        lodger a --mode mig -- sleep 60
        [ "$(of a quota_bytes)" -eq $((10 * 1024 * MIB)) ]
        [ "$(of a mode)" = mig ]
        [ "$(of a index)" = 0 ]
        lodger b --mode mig --mem 12G -- sleep 60
        [ "$(of b quota_bytes)" -eq $((12 * 1024 * MIB)) ]
        lodger c --mode mig --mem 1G -- sleep 60
        [ "$("$sublet" ps --json | jq -r '.[].devices[0].instance' | grep '^MIG-' | sort -u | wc -l)" -eq 3 ]
        "$sublet" ps | grep -q "0 $(of c instance)"
}

@test "the command on an instance sees that one, and no more memory than its lease" {
        mig_machine
        run -0 spatial a --mode mig --mem 2G -- sh -c 'echo "$CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES"'
        [[ $output =~ ^(MIG-[0-9a-f-]{36})\ (MIG-[0-9a-f-]{36})$ ]]
        [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
        run -0 spatial a --mode mig --mem 2G -- "$families" meminfo
        [ "$(value total_mib "$output")" -eq 2048 ]
}

@test "what no free instance holds is refused in one line that says what is free" {
        mig_machine
        lodger a --mode mig --mem 12G -- sleep 60
        run spatial b --mode mig --mem 12G -- true
        [ "$status" -ne 0 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == *"free are: 10 GiB on device 0, 10 GiB on device 0;"* ]]
        run spatial b --mode mig --gpu 1 -- true
        [[ $output == *"no MIG instance is there"* ]]
        run spatial b --mode mig --share 30 -- true
        [[ $output == *"has its own: leave them out"* ]]
}

@test "mode time or spatial gets no device in MIG mode: refused if it is named, left out if none is" {
        mig_machine
        for mode in time spatial; do
                run spatial b --mode $mode --mem 1G --gpu 0 -- true
                [ "$status" -ne 0 ]
                [ "${#lines[@]}" -eq 1 ]
                [[ $output == *"device 0 is in MIG mode"*"ask for --mode mig"* ]]
        done
        run spatial b --mem 0=1G -- true
        [[ $output == *"device 0 is in MIG mode"* ]]
        run -0 spatial b --mem 1G -- "$families" meminfo
        [[ $output == *total_mib=1024* ]]
        lodger c --mem 1G -- sleep 60
        [ "$("$sublet" ps --json | jq -c '[.[] | select(.tenant == "c") | .devices[].index]')" = '[1]' ]
        lodger d -- sleep 60 # what nobody has leased, of those that are left
        [ "$(of d quota_bytes)" -eq $((63 * 1024 * MIB)) ]
}

@test "an instance is taken under the next daemon, and free when its tenant has ended" {
        mig_machine
        lodger a --mode mig --mem 12G -- sleep 60
        wait_for lives a
        was=$(of a instance)
        daemon_end KILL
        daemon_start
        wait_for lives a
        [ "$(of a instance)" = "$was" ]
        run spatial b --mode mig --mem 12G -- true
        [ "$status" -ne 0 ]
        "$sublet" end a
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        run -0 spatial b --mode mig --mem 12G -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
        [ "$output" = "$was" ]
}

@test "memory of a tenant on MIG is set up to its instance's, and nothing else of it" {
        mig_machine
        lodger a --mode mig --mem 1G -- sleep 60
        wait_for lives a
        "$sublet" set a mem=10G
        [ "$(of a quota_bytes)" -eq $((10 * 1024 * MIB)) ]
        run "$sublet" set a mem=11G
        [ "$status" -ne 0 ]
        [[ $output == *"more than the tenant's MIG instance has (10 GiB)"* ]]
        run "$sublet" set a share=30
        [[ $output == *"has multiprocessors of its own"* ]]
}

@test "a tenant subscribes to the instance of its lease, and to no other" {
        mig_machine
        lodger a --mode mig --mem 12G -- sleep 60 # the instance 1
        run -0 --separate-stderr spatial b --mode mig --mem 1G -- "$subscriber"
        echo "$output"
        [ "$(value gpu1 "$output")" = 0x1b ] # INSUFFICIENT_PERMISSIONS
        [ "$(value gpu2 "$output")" = 0x0 ]
        [ "$(value compute0 "$output")" = 0x0 ]
        [ "$(value compute1 "$output")" = 0x1b ]
        [ "$(value gpu3 "$output")" = 0x1b ]
        [ "$(value config "$output")" = 0x1b ]
        wait_for eval '"$sublet" events b | grep -q FOREIGN_OBJECT'
        run ! grep -q DENIED <("$sublet" events b) # the layout: every CUDA start asks for it
}

@test "a tenant without a lease on MIG cannot subscribe" {
        mig_machine
        run -0 --separate-stderr on "$sublet" run --no-daemon -q --mem 1G --gpu 0 -- "$subscriber"
        echo "$output"
        [ "$(value gpu1 "$output")" = 0x1b ]
        [ "$(value gpu2 "$output")" = 0x1b ]
        [ "$(value gpu3 "$output")" = 0x1b ]
}

@test "tenants on MIG take no turns" {
        mig_machine
        for name in a b; do
                lodger $name --mode mig --mem 1G -- "$load_program" -t 300 deep
        done
        lodger time --gpu 1 --mem 1G -- "$load_program" -t 300 deep # as a measure: the daemon knows its load
        wait_for eval '[ "$(of time granted_permille)" -gt 900 ]'
        for name in a b; do
                [ "$(of $name granted_permille)" = 0 ]
                [ "$(of $name is_off)" != true ]
                [ "$(of $name slice_ns)" = 0 ]
        done
}
