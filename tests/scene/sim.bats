#!/usr/bin/env bats
# The simulated libraries: what they say to the driver is what the real ones were recorded to say, and
# what they do with memory and time is what a program expects.
bats_require_minimum_version 1.5.0
load machine

calls=$plain/tests/gpu/libsublet-calls.so
corners=$plain/tests/gpu/gpu-corners
smi=$plain/src/sim/nvml/sublet-sim-smi

setup() {
        machine_start
}

teardown() {
        machine_end || true
}

# said FROM COMMAND...: what a program says to the driver, from a mark on. How large a pool's stretch of
# addresses is depends on the memory of the machine.
said() {
        local from=$1
        shift
        rm -f "$BATS_TEST_TMPDIR/calls"
        SUBLET_CALLS=$BATS_TEST_TMPDIR/calls SUBLET_SIM=$machine_dir LD_LIBRARY_PATH=$machine_libraries \
                LD_PRELOAD=$calls:$machine_preload "$@" > "$BATS_TEST_TMPDIR/out" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
        sed -n "/^mark $from/,/^mark end/p" "$BATS_TEST_TMPDIR/calls" | without_stretch
}

without_stretch() {
        sed -E 's/^UVM (73|34) [0-9a-f]{10}$/UVM \1 STRETCH/'
}

same_calls() {
        local name=$1
        shift
        diff <(without_stretch < "$BATS_TEST_DIRNAME/../gpu/calls/$name.txt") <(said "$@")
}

# ---- calls into the driver ------------------------------------------------------------------------

@test "starting and ending says what the real library says, call by call" {
        said init "$families" start > "$BATS_TEST_TMPDIR/start"
        diff <(sed -n '/^mark init/,/^mark end/p' "$BATS_TEST_DIRNAME/../gpu/calls/start.txt") "$BATS_TEST_TMPDIR/start"
        # behind the last mark the context ends
        diff <(sed '1,/^mark end/d' "$BATS_TEST_DIRNAME/../gpu/calls/start.txt") <(sed '1,/^mark end/d' "$BATS_TEST_TMPDIR/calls")
}

@test "each family of memory says what the real library says" {
        local family
        for family in alloc pitch managed async vmm array array3d mipmap host register; do
                echo "family $family"
                same_calls "$family" grow "$families" "$family" 64 192
        done
}

@test "small allocations, pools of odd sizes and wishes about managed memory do, too" {
        same_calls small "alloc 512k" "$corners" small
}

@test "so does a second context, with what is left in it" {
        same_calls contexts "ctx a" "$corners" contexts
}

@test "a program that leaves without ending its context says no more to the driver" {
        same_calls meminfo "" "$families" meminfo || {
                said meminfo "$families" meminfo > /dev/null
                diff <(sed -n '/^mark init/,$p' "$BATS_TEST_DIRNAME/../gpu/calls/meminfo.txt") <(sed -n '/^mark init/,$p' "$BATS_TEST_TMPDIR/calls")
        }
}

# ---- memory ---------------------------------------------------------------------------------------

@test "every family takes what there is, gives it back, and holds what was written" {
        local family
        machine_end || true
        machine_start --memory 2G
        for family in alloc pitch async vmm array array3d mipmap graph; do
                run on "$families" "$family" 64
                echo "$family: $output"
                [ "$status" -eq 0 ]
                [[ $output == *CUDA_ERROR_OUT_OF_MEMORY*after=ok* ]]
                [ "$(value got_mib "${lines[0]}")" -ge 1024 ]
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

@test "NVML sees the devices, their memory and who holds it" {
        machine_end || true
        machine_start --gpus 2
        run on "$smi" --query-gpu=index,name,memory.total --format=csv,noheader,nounits
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[1]} == "1, NVIDIA H200, "* ]]
        on "$plain/tests/gpu/gpu-order" hold 3>&- &
        holder=$!
        wait_for sh -c "SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries $smi --query-compute-apps=pid --format=csv,noheader | grep -qx $holder"
        run on "$smi" --query-compute-apps=pid,used_memory --format=csv,noheader,nounits
        kill "$holder"
        wait "$holder" || true
        [[ $output == "$holder, "* ]]
        [ "${output#*, }" -ge 1024 ]
}
