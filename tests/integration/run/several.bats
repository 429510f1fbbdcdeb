#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# On a machine with several devices, a tenant sees those that it rents and no others.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --gpus 3 --memory 16G
        hostile=$plain/tests/gpu/gpu-hostile
}

teardown() {
        machine_end
}

@test "without --gpu a tenant has all devices, each with the quota" {
        local device
        for device in 0 1 2; do
                [ "$(value total_mib "$(CUDA_VISIBLE_DEVICES=$device tenant --mem 2G -- "$families" meminfo)")" -eq 2048 ]
        done
        [ "$(grep -o '"quota_bytes":2147483648' "$report" | wc -l)" -eq 3 ]
}

@test "--gpu 1 is the second device, and no other is used" {
        local said
        said=$(tenant --gpu 1 --mem 1G -- "$families" alloc 64)
        echo "$said" && cat "$report"
        [ "$(value total_mib "$said")" -eq 1024 ]
        [ "$(field device)" -eq 1 ]
        [ "$(grep -o '"device":' "$report" | wc -l)" -eq 1 ]
        [ "$(field peak_bytes)" -gt $((900 * MIB)) ]
        [ "$(field peak_bytes)" -le $((1024 * MIB)) ]
}

@test "a device may be named by its UUID or its PCI address, as nvidia-smi lists them" {
        local name
        # the simulated ones
        for name in "GPU-7375626c-6574-4073-806d-000000000001" 0000:02:00.0 02:00.0 00000000:02:00.0; do
                tenant --gpu "$name" --mem 1G -- "$families" start
                [ "$(field device)" -eq 1 ]
        done
        for name in GPU-7375626c 0000:09:00.0 GPU-; do
                run tenant --gpu "$name" -- true
                one_line_and_2 "$name' is "
        done
}

@test "with --gpu 1 a program sees one device, and no second" {
        tenant --gpu 1 --mem 2G -- env CUDA_VISIBLE_DEVICES=0 "$families" start
        run tenant --gpu 1 --mem 2G -- env CUDA_VISIBLE_DEVICES=1 "$families" start
        echo "$output"
        [ "$status" -eq 3 ]
        [[ $output == *CUDA_ERROR_NO_DEVICE* ]]
}

@test "a device that was not rented cannot be reached by bare driver calls either" {
        local said device
        for device in 0 2; do
                run tenant --gpu 1 --mem 2G -- "$hostile" --device "$device" --max 64
                echo "$output"
                [[ $output != *'got_mib=64'* ]]
        done
        said=$(tenant --gpu 1 --mem 2G -- "$hostile" --device 1 --max 64)
        [ "$(value got_mib "$said")" -eq 64 ]
        books_are_empty
}

@test "--mem 4G,1=8G is 8G on the second device and 4G on the others" {
        local said
        said=$(tenant --mem 4G,1=8G -- env CUDA_VISIBLE_DEVICES=1 "$families" alloc 512 1024)
        echo "$said" && cat "$report"
        [ "$(value total_mib "$said")" -eq 8192 ]
        said=$(tenant --mem 4G,1=8G -- env CUDA_VISIBLE_DEVICES=2 "$families" meminfo)
        [ "$(value total_mib "$said")" -eq 4096 ]
        [ "$(grep -o '"quota_bytes":[0-9]*' "$report" | cut -d: -f2 | head -3 | tr '\n' ' ')" = "$((4096 * MIB)) $((8192 * MIB)) $((4096 * MIB)) " ]
}

@test "--gpu 0,2 leaves the middle one out" {
        tenant --gpu 0,2 --mem 2G -- env CUDA_VISIBLE_DEVICES=1 "$families" start
        cat "$report"
        [ "$(grep -o '"device":[0-9]*' "$report" | tr '\n' ' ')" = '"device":0 "device":2 ' ]
        [ "$(grep -o '"peak_bytes":[0-9]*' "$report" | head -1)" != "$(grep -o '"peak_bytes":[0-9]*' "$report" | sed -n 2p)" ]
        books_are_empty
}

@test "a quota for a device outside --gpu is one line and exits with 2" {
        run on "$sublet" run --gpu 0 --mem 4G,1=8G -- true
        one_line_and_2 'not among --gpu'
}

@test "tenants of different devices each have the whole of theirs" {
        local one=$BATS_TEST_TMPDIR/one two=$BATS_TEST_TMPDIR/two code=0
        report=$one.json tenant --gpu 0 --mem 14G -- "$hostile" --device 0 --steps 512 > "$one" &
        report=$two.json tenant --gpu 1 --mem 14G -- "$hostile" --device 1 --steps 512 > "$two" || code=$?
        wait $! || code=$?
        cat "$one" "$two"
        [ "$code" -eq 0 ]
        [ "$(value got_mib "$(cat "$one")")" -eq 14336 ]
        [ "$(value got_mib "$(cat "$two")")" -eq 14336 ]
}

@test "devices that are not leased are not kept open by their ids" {
        local attack=$plain/tests/hostile/attack-attached
        mapfile -t ids < <(on "$attack")
        [ "${#ids[@]}" -eq 3 ]
        [ "$(value attached "$(on "$attack" "${ids[@]}")")" = 3 ] # the positive control
        [ "$(value attached "$(tenant --gpu 1 --mem 1G -- "$attack" "${ids[@]}")")" = 1 ]
        [ "$(field FOREIGN_OBJECT)" -eq 2 ]
}
