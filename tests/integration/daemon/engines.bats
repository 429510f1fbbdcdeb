#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Shares on engines beside the graphics engine: two tenants that only copy (tests/gpu/copies.c) on the simulator, where
# each copy takes 2 ms of the copy engine. Tolerances are wide; tests/gpu/engines.sh has the exact figures of a device.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
# variants: plain, because the claim is about time
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        export SUBLET_SIM_COPY_NS=2000000
        machine_start --memory 64G --realistic-time
        daemon_start
}

teardown() {
        node_end
        machine_end
}

# pair SHARE SHARE: how many copies a and b make in four seconds, in $a and $b; ps in $rows
pair() {
        on "$sublet" run -q --name a --mem 2G --share "$1" -- "$plain/tests/gpu/gpu-copies" 4 1 8 < /dev/null \
                > "$BATS_TEST_TMPDIR/a" 3>&- &
        supervisors=($!)
        on "$sublet" run -q --name b --mem 2G --share "$2" -- "$plain/tests/gpu/gpu-copies" 4 1 8 < /dev/null \
                > "$BATS_TEST_TMPDIR/b" 3>&- &
        supervisors+=($!)
        wait_for eval 'grep -q "at=.*done=..." "$BATS_TEST_TMPDIR/a" && grep -q "at=" "$BATS_TEST_TMPDIR/b"'
        rows=$(on "$sublet" ps --json)
        wait "${supervisors[@]}"
        supervisors=()
        a=$(sed -n 's/^copies=\([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/a")
        b=$(sed -n 's/^copies=\([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/b")
        echo "a=$a b=$b"
}

@test "two tenants that only copy have the copy engine by their shares" {
        pair 80 20
        [ "$a" -gt $((b * 5 / 2)) ]
        [ "$b" -gt $((a / 8)) ]
}

@test "what a tenant has had of an engine is in ps and in the metrics" {
        pair 50 50
        jq -e '.[] | select(.tenant == "a") | .devices[0].engines.copy | .used_ns > 0 and .granted_permille >= 0' <<< "$rows"
        jq -e '.[] | select(.tenant == "a") | .devices[0].engines | has("jpeg") | not' <<< "$rows"
        [ "$a" -gt $((b / 2)) ] && [ "$b" -gt $((a / 2)) ]
}
