#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The simulated libraries: what they say to the driver is what the real ones were recorded to say, and
# what they do with memory and time is what a program expects.
# variants: plain, because the simulator and its libraries always are
# long: because it fills devices
bats_require_minimum_version 1.5.0
load ../machine

calls=$plain/tests/gpu/libsublet-calls.so
corners=$plain/tests/gpu/gpu-corners
recorded=$BATS_TEST_DIRNAME/../../gpu/calls
smi=$plain/src/sim/nvml/nvidia-smi

setup() {
        machine_start
}

teardown() {
        machine_end || true
}

# said FROM COMMAND...: what a program says to the driver, from a mark on; a child's is in said.2. How large
# a pool's stretch of addresses is depends on the memory of the machine.
said() {
        local from=$1 n=0 file first
        shift
        rm -f "$BATS_TEST_TMPDIR"/calls.* "$BATS_TEST_TMPDIR"/said.*
        SUBLET_CALLS=$BATS_TEST_TMPDIR/calls SUBLET_SIM=$machine_dir LD_LIBRARY_PATH=$machine_libraries \
                LD_PRELOAD=$calls:$machine_preload "$@" > "$BATS_TEST_TMPDIR/out" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
        while read -r file; do
                n=$((n + 1))
                first="/^mark $from/,"
                [ "$n" -eq 1 ] || first=1,
                sed -n "$first\$p" "$file" > "$BATS_TEST_TMPDIR/said.$n"
        done < <(printf '%s\n' "$BATS_TEST_TMPDIR"/calls.* | sort -t. -k2n)
        to_end "$BATS_TEST_TMPDIR/said.1"
}

to_end() {
        sed '/^mark end/q' "$1" | without_stretch
}

without_stretch() {
        sed -E 's/^UVM (73|34) [0-9a-f]{10}$/UVM \1 STRETCH/'
}

same_calls() {
        local name=$1
        shift
        diff <(to_end "$recorded/$name.txt") <(said "$@")
}

# After same_calls: what the child said.
same_calls_of_child() {
        local name=$1 from=$2
        diff <(to_end "$recorded/$name.txt") <(sed -n "/^mark $from/,\$p" "$BATS_TEST_TMPDIR/said.2" | without_stretch)
}

# ---- calls into the driver ------------------------------------------------------------------------

@test "starting and ending says what the real library says, call by call" {
        said init "$families" start > /dev/null
        diff <(sed -n '/^mark init/,$p' "$recorded/start.txt") "$BATS_TEST_TMPDIR/said.1"
}

@test "a program that leaves without ending its context says no more to the driver" {
        said init "$families" meminfo > /dev/null
        diff <(sed -n '/^mark init/,$p' "$recorded/meminfo.txt") "$BATS_TEST_TMPDIR/said.1"
}

@test "each family of memory says what the real library says" {
        local family
        for family in alloc pitch managed async vmm array array3d mipmap host register; do
                echo "family $family"
                same_calls "$family" grow "$families" "$family" 64 192
        done
}

@test "small allocations, pools of odd sizes and advice about managed memory do, too" {
        same_calls small "alloc 512k" "$corners" small
}

@test "so does a second context, with what is left in it" {
        same_calls contexts "ctx a" "$corners" contexts
}

@test "a green context is memory to the driver, and nothing else, as the real library has it" {
        same_calls green green "$corners" green
}

@test "memory goes to another process as the real library sends it" {
        same_calls ipc module "$families" ipc 64 192
        same_calls_of_child ipc-importer module
        same_calls virtual create "$corners" virtual
        same_calls_of_child virtual-importer import
        said grow "$families" mempool-export 64 192 > "$BATS_TEST_TMPDIR/pool"
        diff <(without_stretch < "$recorded/mempool-export.txt") <(sed '/^mark free/q' "$BATS_TEST_TMPDIR/pool")
}

@test "each known branch of the driver is spoken to in its own layout" {
        local release family
        for release in 525.147.05 535.288.01 550.163.01 570.211.01 580.142 590.48.01 595.45.04; do
                machine_end || true
                machine_start --driver "$release"
                echo "release $release"
                on "$families" start
                for family in async ipc managed; do
                        on "$families" "$family" 64 128
                done
        done
}

@test "a program sees the devices that it is told to see" {
        machine_end || true
        machine_start --gpus 2
        before=$(free_mib 0)
        CUDA_VISIBLE_DEVICES=1 on "$plain/tests/gpu/gpu-order" all
        run env CUDA_VISIBLE_DEVICES=none bash -c "SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries $families start"
        [ "$status" -eq 3 ]
        [[ $output == *CUDA_ERROR_NO_DEVICE* ]]
        [ "$(free_mib 0)" -eq "$before" ]
}

# ---- memory ---------------------------------------------------------------------------------------

@test "every family takes what there is, gives it back, and holds what was written" {
        local family
        machine_end || true
        machine_start --memory 1200M
        for family in alloc pitch async vmm array array3d mipmap graph; do
                run on "$families" "$family" 32
                echo "$family: $output"
                [ "$status" -eq 0 ]
                [[ $output == *CUDA_ERROR_OUT_OF_MEMORY*after=ok* ]]
                [ "$(value got_mib "${lines[0]}")" -ge 512 ]
        done
        for family in managed host register ipc; do
                run on "$families" "$family" 64 128
                echo "$family: $output"
                [ "$status" -eq 0 ]
        done
}

@test "what a dead process held is free again" {
        before=$(free_mib)
        on "$families" exit
        [ "$(free_mib)" -eq "$before" ]
}

@test "more than there is is refused, and the program goes on" {
        run on "$corners" full
        [ "$status" -eq 0 ]
}

@test "a child that was forked after cuInit is told so" {
        on "$plain/tests/gpu/gpu-order" fork
}

# ---- work -----------------------------------------------------------------------------------------

@test "streams keep their order, events tell time, functions of the host come in their turn" {
        on "$plain/tests/gpu/gpu-order" all
}

@test "many processes take and free at once, and nothing is lost" {
        machine_end || true
        machine_start --memory 8G
        run on "$race" --processes 8 --iterations 2000 --seconds 20 --max 64
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value wrong_total "$output")" -eq 0 ]
        [ "$(free_mib)" -gt 7000 ]
}

# ---- NVML -----------------------------------------------------------------------------------------

# holds_memory PROCESS: NVML lists it, and its 1 GiB
holds_memory() {
        local mib
        mib=$(on "$smi" --query-compute-apps=pid,used_memory --format=csv,noheader,nounits | sed -n "s/^$1, //p")
        [ "${mib:-0}" -ge 1024 ]
}

@test "NVML sees the devices, their memory and who holds it" {
        machine_end || true
        machine_start --gpus 2
        run on "$smi" --query-gpu=index,name,memory.total --format=csv,noheader,nounits
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[1]} == "1, NVIDIA H200, "* ]]
        (
                export SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries
                exec "$plain/tests/gpu/gpu-order" hold
        ) > /dev/null 2>&1 3>&- &
        holder=$!
        wait_for holds_memory "$holder"
        run on "$smi" --query-compute-apps=pid,used_memory --format=csv,noheader,nounits
        kill "$holder"
        holder=''
        [ "${#lines[@]}" -eq 1 ]
        [ "${output#*, }" -ge 1024 ]
}
