#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the ways to share cost, measured by the program itself. On the simulator only that it measures: the figures mean
# nothing there, and less on a busy machine; tests/gpu/bench.sh has them of a device.
# variants: plain, because the tenants here are the program itself, and a library with a sanitizer does not go into
# tenants
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
# shellcheck disable=SC2154  # what machine.bash sets

setup() {
        machine_start --memory 8G
        export SUBLET_DIR=$machine/none
}

teardown() {
        unset SUBLET_DIR
        node_end
        machine_end
}

# row NAME FIELD: of the table in $output
row() { jq -r --arg n "$1" --arg f "$2" '.measured[] | select(.name == $n)[$f]' <<< "$output"; }

@test "tenants, a daemon of its own, and what they cost: figures that plan reads, and a reason where there is none" {
        PATH=/usr/bin:/bin run -0 --separate-stderr on "$sublet" bench --modes --json --for 200ms -o "$BATS_TEST_TMPDIR/facts" \
                --only turn_loss,latency_wait,spatial_gain,suspend_rate,reserve,gate_alloc
        echo "$output"
        [ "$(jq '.measured | map(select(.value)) | length' <<< "$output")" -ge 3 ]
        [[ $(row turn_loss value) =~ ^[0-9.e-]+$ ]]
        [[ $(row reserve value) =~ ^[0-9.]+$ ]]
        [[ $(row gate_alloc value) =~ ^[0-9.e-]+$ ]]
        [[ $(row spatial_gain unavailable) == *nvidia-cuda-mps-control* ]]
        [[ $(row suspend_rate value) =~ ^[0-9.e+-]+$ ]]
        [ "$(row slice_loss unavailable)" = "not asked for" ]
        [[ $stderr == *"turn_loss "* ]] # as it goes on
        cmp <(jq -S . "$BATS_TEST_TMPDIR/facts") <(jq -S . <<< "$output")

        run -0 "$sublet" plan --facts --facts="$BATS_TEST_TMPDIR/facts"
        grep -A1 '^turn_loss' <<< "$output" | grep -q 'measured on NVIDIA H200 (simulated), 580.159.04, '
        grep -A1 '^slice_loss' <<< "$output" | grep -q 'docs/time.md'
}

@test "side by side, where there is MPS" {
        PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH run -0 --separate-stderr on "$sublet" bench --modes --json --for 100ms --only spatial_gain
        echo "$output"
        [[ $(row spatial_gain value) =~ ^[0-9.]+$ ]]
}

@test "nothing is left: no process, no directory, no memory" {
        local before
        before=$(free_mib)
        on "$sublet" bench --modes --for 50ms --only gate_launch,preload_alloc > /dev/null 2>&1
        [ "$(free_mib)" = "$before" ]
        run -1 on env LD_LIBRARY_PATH=/nowhere "$sublet" bench --modes --for 50ms
        [[ $output == "sublet: the load alone: libcuda.so.1: "* ]]
        [ "$(free_mib)" = "$before" ]
}

@test "beside a daemon nothing is measured, and bad use is one line" {
        daemon_start
        run -1 on "$sublet" bench --modes
        [ "${#lines[@]}" = 1 ]
        [[ $output == "sublet: a daemon serves this machine, "* ]]
        run on "$sublet" bench
        one_line_and_2 'what is to be measured: --modes'
        run on "$sublet" bench --modes --only turn_loss,speed
        one_line_and_2 'there is no such figure'
        for file in /dev/full "$machine" /nonexistent/facts; do # before the daemon is looked for, so before anything
                run -1 on "$sublet" bench --modes -o "$file"
                [ "${#lines[@]}" = 1 ] && [[ $output == "sublet: $file: "* ]]
        done
        [ -c /dev/full ] # was not replaced by a table
        echo kept > "$machine/facts"
        run -1 on "$sublet" bench --modes -o "$machine/facts"
        [ "$(cat "$machine/facts")" = kept ] && [ ! -e "$machine/facts.new" ]
        "$sublet" bench --help | grep -q '^  turn_loss: ' # where that line leads
}

@test "what the gate costs a call, beside the calls of another build: bench/gate has every row, and says what it lacks" {
        local gate=$BATS_TEST_DIRNAME/../../../bench/gate
        run -0 --separate-stderr env -u SUBLET_DIR ROUNDS=1 PART=60 OUT="$BATS_TEST_TMPDIR" BASE="$plain" "$gate" --json "$plain"
        [ "$(jq '.rows | length' <<< "$output")" -ge 40 ]
        [ "$(jq '[.rows[] | select((.native and .gate and .base and ."base-native" and .gate_to_base > 0) | not)] | length' <<< "$output")" = 0 ]
        for row in alloc_1 free_8 control_8 map_1 unmap_8 range_1 unrange_8; do
                [ "$(jq --arg r "$row" '[.rows[] | select(.row == $r) | .part] == ["p50", "p99"]' <<< "$output")" = true ]
        done
        [ "$(wc -l < "$BATS_TEST_TMPDIR"/gate-*.jsonl)" -eq 9 ] # what it ran on, and two programs in four ways
        run -2 env BASE=/none "$gate" "$plain"
        [[ $output == 'bench/gate: no /none/src/sublet'* ]]
}

@test "what the scheduling threads cost on a server: bench/server has a row for each, with a thread for each device" {
        local server=$BATS_TEST_DIRNAME/../../../bench/server
        run -0 --separate-stderr env -u SUBLET_DIR "$server" --gpus 1,3 --tenants 2 --seconds 1 --json "$plain"
        echo "$output"
        [ "$(jq -s 'map([.devices, .tenants, .threads]) == [[1, 2, 1], [3, 6, 3]]' <<< "$output")" = true ]
        [ "$(jq -s 'map(.us_per_s > 0 and .us_per_s < 1000000 and .us_per_s_device <= .us_per_s) | all' <<< "$output")" = true ]
        for bad in "--gpus 0" "--gpus two" "--tenants 65" "--seconds" /none; do
                # shellcheck disable=SC2086  # words
                run -2 "$server" $bad
                [ "${#lines[@]}" -eq 1 ]
        done
}
