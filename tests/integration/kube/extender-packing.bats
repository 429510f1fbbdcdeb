#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The classic deployment: 35 GPUs carry 100 containers. A scripted scheduler (tests/fakes/scheduler.py) asks filter and
# prioritize and binds, pods in mixed order, ties by lot; nodes are fake, of one device of 80 GiB each.
# Stranded is what is free in gaps that the smallest service does not fit in.
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}
sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        work=$(mktemp -d /tmp/sublet-packing-XXXXXX)
        started=()
        "$build/tests/fakes/apiserver" "$work/port" 3>&- &
        started+=($!)
        until [ -s "$work/port" ]; do sleep 0.05; done
        api=http://127.0.0.1:$(cat "$work/port")
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        wait "${started[@]}" 2> /dev/null || true
        rm -rf "$work"
}

# pack POLICY SEED COUNT:SIZE...: what the scheduler says is in $output
pack() {
        local policy=$1 seed=$2 nodes
        shift 2
        nodes=$(for i in $(seq 0 34); do
                printf ',{"kind":"Node","metadata":{"name":"n%d"},"status":{"allocatable":{"sublet.dev/gpu-mem":"80","sublet.dev/gpu-count":"1"}}}' "$i"
        done)
        curl -sS "$api/fake/objects" -d "[${nodes:1}]" > /dev/null
        "$root/tests/fakes/scheduler.py" --pods "$@" | curl -sS "$api/fake/objects" -d @- > /dev/null
        "$sublet" extender --listen "unix:$work/x" --server "$api" --policy "$policy" 3>&- 2> "$work/log" &
        started+=($!)
        until curl -fs -o /dev/null --unix-socket "$work/x" http://x/readyz; do sleep 0.1; done
        run "$root/tests/fakes/scheduler.py" "$work/x" 35 80 "$seed" "$@"
        echo "$output"
        [ "$status" -eq 0 ]
}

says() { jq -e "$1" <<< "$output" > /dev/null || { echo "not so: $1"; return 1; }; }

@test "55 quarters, 25 thirds and 20 halves are all served, with what is usually asked for in mind 5 % is stranded at most" {
        pack fragment 1 55:20 25:26 20:40
        says '.bound == 100 and .stranded_permille <= 50'
}

@test "60 quarters, 25 thirds and 15 halves are served by binpack, too" {
        pack binpack 1 60:20 25:26 15:40
        says '.bound == 100'
}

@test "60 fifths, 30 services of 30 % and 10 halves: a fifth of the devices stays whole, and 5 % is stranded at most" {
        pack binpack 2 60:16 30:24 10:40
        says '.bound == 100 and .stranded_permille <= 50 and .whole >= 7'
}

@test "one that fits nowhere is refused with the reason of each node" {
        pack binpack 3 36:60
        says '.bound == 35'
        says '.refused == ["60 GiB of GPU memory asked for on one device, the most free is 20 GiB (device 0)"]'
}
