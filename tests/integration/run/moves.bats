#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The simulator's copy engines, given their work by rings in memory as the real ones are, and memory that is moved away
# and back: tests/gpu/movefacts.c, which asks the same of a device.
# variants: plain, because the simulator and its libraries always are
bats_require_minimum_version 1.5.0
load ../machine

movefacts=$plain/tests/gpu/gpu-movefacts

setup() {
        machine_start
}

teardown() {
        machine_end || true
}

@test "every copy engine copies in and out what a ring in memory asks for" {
        run on "$movefacts" copy 1
        [ "$status" -eq 0 ]
        [ "$(grep -c 'engine .* done=1 right=1 ' <<< "$output")" -eq 10 ]
        ! grep -q 'done=0' <<< "$output"
}

@test "memory that was copied out, freed, made again and mapped where it was has its contents" {
        run on "$movefacts" own 4 2
        echo "$output"
        [ "$status" -eq 0 ]
        grep -q 'look after words_wrong=0 samples_wrong=0' <<< "$output"
        before=$(value before "$(grep device_free_mib <<< "$output")")
        after=$(value after "$(grep device_free_mib <<< "$output")")
        [ "$after" -ge $((before + 8)) ]
}

@test "a copy that faults stops its channel, writes nothing, and is an Xid; other channels go on" {
        machine_end || true
        machine_start --fault copy-fault-at=1
        run on "$movefacts" copy 1
        echo "$output"
        [ "$(grep -c 'engine .* done=0 right=0 .* count=0' <<< "$output")" -eq 1 ]
        [ "$(grep -c 'engine .* done=1 right=1 ' <<< "$output")" -eq 9 ]
        grep -q 'Xid .*: 31, .* a copy was to fault' "$machine_dir/kmsg" "$machine"/* 2> /dev/null
}
