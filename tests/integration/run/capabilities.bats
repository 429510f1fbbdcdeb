#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Driver capabilities: what decoders, JPEG and Vulkan ask for at their start is granted to tenants that have the
# capability, and to others it does not exist, which is said once for each.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

engines=$plain/tests/hostile/attack-other-engines

setup() {
        machine_start
}

teardown() {
        machine_end
}

# gets VIDEO GRAPHICS OUTPUT: all steps of what it was given, none of the others
gets() {
        echo "$3"
        [ "$(value video "$3")" -eq "$1" ]
        [ "$(value graphics "$3")" -eq "$2" ]
}

as_tenant() {
        tenant --mem 1G "$@" -- "$engines" 2> "$BATS_TEST_TMPDIR/said"
}

@test "without a gate the device has every engine" {
        run on "$engines"
        gets 8 12 "$output"
        [ "$(value profile "$output")" -eq 1 ]
}

@test "a tenant has no engine by default, and is told once of each capability" {
        said=$(as_tenant)
        gets 0 0 "$said"
        [ "$(value profile "$said")" -eq 0 ]
        cat "$report" "$BATS_TEST_TMPDIR/said"
        [ "$(field CAPABILITY_MISSING)" -eq 3 ]
        run ! grep -q UNKNOWN_ "$report"
        jq -e '.refused | any(.name == "FB_GET_CAPS" and .needs == "graphics" and .count == 1)' "$report"
}

@test "with video it has decoders and JPEG, and no graphics" {
        said=$(as_tenant --capabilities compute,utility,video)
        gets 8 0 "$said"
        [ "$(field CAPABILITY_MISSING)" -eq 2 ]
}

@test "with graphics it has what Vulkan starts with, charged, and no decoder" {
        said=$(as_tenant --capabilities graphics)
        [ "$(value graphics "$said")" -eq 12 ]
        [ "$(value video "$said")" -lt 8 ]
        [ "$(field peak_bytes)" -gt 0 ]
        books_are_empty
}

@test "all is all but profile" {
        said=$(as_tenant --capabilities all)
        gets 8 12 "$said"
        [ "$(value profile "$said")" -eq 0 ]
        said=$(as_tenant --capabilities all,profile)
        [ "$(value profile "$said")" -eq 1 ]
        run ! grep -q CAPABILITY_MISSING "$report"
}
