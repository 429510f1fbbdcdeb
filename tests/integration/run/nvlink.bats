#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# On a machine whose devices are joined by NVLink: fabric memory, and memory of one device that another one uses.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --gpus 2 --memory 24G --nvlink
        peers=$plain/tests/gpu/gpu-peers
}

teardown() {
        machine_end
}

# peak DEVICE: of the report, in MiB
peak() { echo $(($(grep -o '"peak_bytes":[0-9]*' "$report" | sed -n "$(($1 + 1))s/.*://p") / MIB)); }

@test "large allocations, which get fabric memory, end at the quota and all come back" {
        local said
        said=$(tenant --gpu 0 --mem 3G -- "$families" alloc 512)
        echo "$said"
        [ "$(value last "$said")" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$(value got_mib "$said")" -ge $((3072 - 512 - 600)) ]
        [[ $said == *after=ok* ]]
        books_are_empty
}

@test "so they do while another device reaches them, and there nothing is charged for it" {
        local said
        for family in alloc vmm async; do
                said=$(FAMILIES_PEERS=1 tenant --mem 3G -- "$families" "$family" 512)
                echo "$said" && cat "$report"
                [ "$(value last "$said")" = CUDA_ERROR_OUT_OF_MEMORY ]
                [[ $said == *after=ok* ]]
                [ "$(peak 0)" -gt 2400 ]
                [ "$(peak 1)" -lt 1000 ] # a context
                books_are_empty
        done
}

@test "memory of one device is used on the other, in one process and in two" {
        local mode
        for mode in plain async managed vmm vmm-fd ipc; do
                [[ $(tenant --mem 8G -- "$peers" "$mode" 64 2) == *result=ok* ]]
                books_are_empty
        done
}

@test "without NVLink there are no peers, and no fabric memory" {
        machine_end
        machine_start --gpus 2 --memory 24G
        run tenant --mem 8G -- "$peers" plain 64 1
        [[ $output == *lacks=peers* ]]
        [[ $(tenant --gpu 0 --mem 8G -- "$families" alloc 512 512) == *after=ok* ]]
}

# What a step needs alone is 2 ms of arithmetic and 1 ms of the all-reduce: 60 steps are 0.18 s. Bounds are wide: what
# is claimed is that the devices wait for each other, and that nobody waits for ever.
@test "an all-reduce ends when all its devices have come to it, in one process and in two" {
        local ranks=$plain/tests/gpu/gpu-ranks alone
        alone=$(on timeout 60 "$ranks" -k 2000 -m 1000 -s 60)
        echo "$alone"
        [ "$(value seconds "$alone" | tr -d .)" -ge 180 ]
        on timeout 60 "$ranks" -j 7 -d 0 -n 1 -w 2 -s 60 > "$BATS_TEST_TMPDIR/first" 3>&- &
        on timeout 60 "$ranks" -j 7 -d 1 -n 1 -w 2 -s 60
        wait $!
        [[ $(< "$BATS_TEST_TMPDIR/first") == *steps=60* ]]
}

@test "half of a job waits for ever" {
        run on timeout 1 "$plain/tests/gpu/gpu-ranks" -j 8 -d 0 -n 1 -w 2 -s 1
        [ "$status" -eq 124 ]
}

@test "two jobs on the same devices both come to their end" {
        local ranks=$plain/tests/gpu/gpu-ranks
        on timeout 60 "$ranks" -j 1 -s 60 > "$BATS_TEST_TMPDIR/first" 3>&- &
        on timeout 60 "$ranks" -j 2 -s 60
        wait $!
        cat "$BATS_TEST_TMPDIR/first"
        [[ $(< "$BATS_TEST_TMPDIR/first") == *steps=60* ]]
}
