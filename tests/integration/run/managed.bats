#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Managed memory: charged at its length, refused, or left alone, as the operator says.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
}

teardown() {
        machine_end
}

@test "managed memory is charged at its length by default, before it is touched" {
        local said
        said=$(tenant --mem 1G -- "$families" managed 64)
        echo "$said" && cat "$report"
        # libcuda has no other word for it: src/gate/managed.c
        [ "$(value last "$said")" = CUDA_ERROR_NOT_PERMITTED ]
        [ "$(value got_mib "$said")" -le 1024 ]
        [ "$(field peak_bytes)" -ge $(($(value got_mib "$said") * MIB)) ]
        [ "$(field peak_bytes)" -le $((1024 * MIB)) ]
        books_are_empty
}

@test "a range that was freed is no part of the quota when it is taken again at the same address" {
        local said
        said=$(tenant --mem 1G -- "$families" managed 300)
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 300 ]
        [[ $said == *$'\nafter=ok '* ]]
        books_are_empty
}

@test "--managed=charge is the same" {
        local said
        said=$(tenant --mem 1G --managed=charge -- "$families" managed 64)
        [ "$(value last "$said")" = CUDA_ERROR_NOT_PERMITTED ]
        books_are_empty
}

@test "--managed=deny answers not supported to the first byte, and the rest works" {
        local said
        said=$(tenant --mem 2G --managed=deny -- "$families" managed 64 256) || true
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 0 ]
        [ "$(value last "$said")" = CUDA_ERROR_NOT_SUPPORTED ]
        grep -q '"MANAGED_DENIED":[1-9]' "$report"
        said=$(tenant --mem 2G --managed=deny -- "$families" alloc 64 256)
        [[ $said == *after=ok* ]]
        books_are_empty
}

@test "--managed=allow charges nothing for it: it can be evicted" {
        local said
        said=$(tenant --mem 700M --managed=allow -- "$families" managed 128 1024)
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 1024 ]
        [ "$(value last "$said")" = CUDA_SUCCESS ]
        [ "$(field peak_bytes)" -lt $((600 * MIB)) ]
        books_are_empty
}

@test "managed and ordinary memory are of one quota" {
        local said
        said=$(tenant --mem 1G -- sh -c "'$families' managed 64 256 && '$families' alloc 64")
        echo "$said"
        [ "$(field peak_bytes)" -le $((1024 * MIB)) ]
        books_are_empty
}

@test "a large shared mapping of a file, at whose offsets the device has memory, ends no program" {
        local said
        said=$(on "$plain/tests/gpu/gpu-filemap")
        [[ $said == *mapped*'still here'* ]]
        said=$(tenant --mem 1G -- "$plain/tests/gpu/gpu-filemap")
        [[ $said == *mapped*'still here'* ]] # the ledger knows all that the device has there
        [ -z "$(field DENIED)" ]
        [ -z "$(field AUDIT_MISMATCH)" ]
        books_are_empty
}

@test "nor does one that a thread had made, which waits for something else, before the device has memory there" {
        local said
        said=$(tenant --mem 1G -- "$plain/tests/gpu/gpu-filemap" early)
        [[ $said == *mapped*'still here'* ]]
        [ -z "$(field AUDIT_MISMATCH)" ]
        books_are_empty
}
