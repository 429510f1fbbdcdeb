#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whatever way a program takes memory, it is stopped at its quota, keeps working, and nobody else notices.
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
}

teardown() {
        machine_end
}

# stops_at_the_quota FAMILY [QUOTA-MiB] [CUDA-ERROR]: refused as out of memory close below it, usable afterwards, all
# given back. Small: the simulator writes what the kernels write.
stops_at_the_quota() {
        local said mib=${2:-1024}
        said=$(tenant --mem "${mib}M" -- "$families" "$1" 32)
        echo "$said" && cat "$report"
        [ "$(value last "$said")" = "${3:-CUDA_ERROR_OUT_OF_MEMORY}" ]
        [ "$(value got_mib "$said")" -ge 128 ]
        [ "$(value total_mib "$said")" -eq "$mib" ]
        [ "$(value free_mib "$said")" -lt 128 ]
        [[ $said == *$'\nafter=ok '* ]]
        [ "$(field quota_bytes)" -eq $((mib * MIB)) ]
        [ "$(field peak_bytes)" -le $((mib * MIB)) ]
        [ "$(field peak_bytes)" -ge $((mib * MIB / 10 * 9)) ]
        [ "$(field refusals)" -ge 1 ]
        books_are_empty
}

@test "cuMemAlloc stops at the quota" {
        stops_at_the_quota alloc
}

@test "cuMemAllocPitch stops at the quota" {
        stops_at_the_quota pitch
}

@test "cuMemAllocManaged stops at the quota" {
        stops_at_the_quota managed 1024 CUDA_ERROR_NOT_PERMITTED
}

@test "cuMemAllocAsync stops at the quota" {
        stops_at_the_quota async
}

@test "cuMemCreate stops at the quota" {
        stops_at_the_quota vmm
}

@test "cuArrayCreate stops at the quota" {
        stops_at_the_quota array
}

@test "cuArray3DCreate stops at the quota" {
        stops_at_the_quota array3d
}

@test "cuMipmappedArrayCreate stops at the quota" {
        stops_at_the_quota mipmap
}

@test "graph allocations stop at the quota" {
        stops_at_the_quota graph
}

@test "IPC handles between two processes of a tenant stop at its quota" {
        stops_at_the_quota ipc 1536 # two contexts
}

@test "a pool exported to another process of the tenant stops at its quota" {
        stops_at_the_quota mempool-export 1536
}

@test "programs one after the other, with room for one, each have the whole quota" {
        local said
        said=$(tenant --mem 600M -- sh -c 'for i in 1 2 3 4 5 6; do "$0" alloc 16 || exit; done' "$families")
        echo "$said" && cat "$report"
        [ "$(grep -c ' last=CUDA_ERROR_OUT_OF_MEMORY ' <<<"$said")" -eq 6 ]
        [ "$(grep '^family=' <<<"$said" | sort -u | wc -l)" -eq 1 ]
        [ "$(grep -c '^after=ok' <<<"$said")" -eq 6 ]
        books_are_empty
}

@test "pinned host memory works and takes no device memory" {
        local said
        said=$(tenant --mem 1G -- "$families" host 64)
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 1024 ]
        [[ $said == *after=ok* ]]
        [ "$(field peak_bytes)" -lt $((600 * MIB)) ]
        books_are_empty
}

@test "host memory of the driver's own has its own limit, and is told" {
        run tenant --mem 2G --host-mem 16M -- "$families" start
        echo "$output" && cat "$report"
        [ "$status" -eq 3 ]
        grep -q '"HOST_REFUSED":[1-9]' "$report"
        [ "$(grep -o '"peak_bytes":[0-9]*' "$report" | tail -1 | cut -d: -f2)" -le $((16 * MIB)) ]
        books_are_empty
}

@test "registered host memory works and takes no device memory" {
        local said
        said=$(tenant --mem 1G -- "$families" register 64)
        echo "$said"
        [ "$(value got_mib "$said")" -eq 1024 ]
        [[ $said == *after=ok* ]]
        books_are_empty
}

@test "cuMemGetInfo and cuDeviceTotalMem tell the quota" {
        local said
        said=$(tenant --mem 3G -- "$families" meminfo)
        echo "$said"
        [ "$(value total_mib "$said")" -eq 3072 ]
        [ "$(value device_total_mib "$said")" -eq 3072 ]
        [ "$(value free_mib "$said")" -lt 3072 ]
        [ "$(value free_mib "$said")" -gt 2048 ]
}

@test "without a quota the device is the bound" {
        local said
        machine_end
        machine_start --memory 2G
        said=$(tenant -- "$families" alloc 64)
        echo "$said"
        [ "$(value total_mib "$said")" -eq 2048 ]
        [ "$(value got_mib "$said")" -ge 1280 ]
        [[ $said == *after=ok* ]]
}

@test "a quota too small for a context refuses the context, not more" {
        run tenant --mem 256M -- "$families" start
        echo "$output"
        [ "$status" -eq 3 ]
        [[ $output == *CUDA_ERROR_OUT_OF_MEMORY* ]]
        books_are_empty
}

@test "two tenants on one device each have their own quota, at the same time" {
        local chat=$BATS_TEST_TMPDIR/chat batch=$BATS_TEST_TMPDIR/batch code=0
        report=$chat.json tenant --name chat --mem 2G -- "$families" alloc 64 > "$chat" &
        report=$batch.json tenant --name batch --mem 1G -- "$families" alloc 64 > "$batch" || code=$?
        wait $! || code=$?
        cat "$chat" "$batch" && cat "$chat.json" "$batch.json"
        [ "$code" -eq 0 ]
        [ "$(value total_mib "$(cat "$chat")")" -eq 2048 ]
        [ "$(value total_mib "$(cat "$batch")")" -eq 1024 ]
        [ "$(field peak_bytes "$chat.json")" -gt $((1900 * MIB)) ]
        [ "$(field peak_bytes "$chat.json")" -le $((2048 * MIB)) ]
        [ "$(field peak_bytes "$batch.json")" -gt $((900 * MIB)) ]
        [ "$(field peak_bytes "$batch.json")" -le $((1024 * MIB)) ]
}

@test "a tenant that is full does not keep another from its quota" {
        local file=$BATS_TEST_TMPDIR/handle said
        report=$BATS_TEST_TMPDIR/other.json tenant --mem 4G -- "$plain/tests/gpu/gpu-share" give "$file" 3400 3>&- > /dev/null &
        wait_for test -s "$file"
        said=$(tenant --mem 2G -- "$families" alloc 64)
        touch "$file.end"
        wait $!
        echo "$said"
        [ "$(value got_mib "$said")" -ge 1408 ]
}

@test "many processes of a tenant racing for memory never get more than its quota" {
        local said
        said=$(tenant --mem 4G -- "$race" --processes 6 --iterations 150 --seconds 20 --max 128)
        echo "$said" && cat "$report"
        [ "$(value errors "$said")" -eq 0 ]
        [ "$(value wrong_total "$said")" -eq 0 ]
        [ "$(value ran "$said")" -eq 6 ]
        [ "$(value oom "$said")" -gt 0 ]
        [ "$(value peak_mib "$said")" -le 4096 ]
        [ "$(field peak_bytes)" -le $((4096 * MIB)) ]
        books_are_empty
}

@test "threads of one process share its quota" {
        local said
        said=$(tenant --mem 2G -- "$plain/tests/gpu/gpu-spread" threads 8 16)
        echo "$said"
        [ "$(value refused "$said")" -eq 8 ]
        [ "$(value errors "$said")" -eq 0 ]
        [ "$(value got_mib "$said")" -le 2048 ]
        [ "$(value got_mib "$said")" -ge 1024 ]
        [ "$(field peak_bytes)" -le $((2048 * MIB)) ]
        books_are_empty
}

@test "a program that another one became or started has the same quota" {
        local said
        said=$(tenant --mem 2G -- "$plain/tests/gpu/gpu-spread" vfork "$families" start)
        echo "$said"
        [ "$(field peak_bytes)" -ge $((500 * MIB)) ]
        said=$(tenant --mem 256M -- "$plain/tests/gpu/gpu-spread" vfork "$families" start) || true
        [[ $said == *CUDA_ERROR_OUT_OF_MEMORY* ]]
        said=$(tenant --mem 1G -- sh -c "'$families' start; exec '$families' alloc 64")
        echo "$said"
        [ "$(value total_mib "$said")" -eq 1024 ]
        [ "$(value last "$said")" = CUDA_ERROR_OUT_OF_MEMORY ]
        books_are_empty
}
