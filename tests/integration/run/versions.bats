#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The quota holds on every driver branch that was read; any other is refused, in one line.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

teardown() {
        machine_end
}

# holds_on RELEASE
holds_on() {
        local said
        machine_start --memory 16G --driver "$1"
        said=$(tenant --mem 1G -- "$families" alloc 64) || { echo "$said"; cat "$report"; return 1; }
        echo "$said" && cat "$report"
        [ "$(value last "$said")" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$(value total_mib "$said")" -eq 1024 ]
        [[ $said == *after=ok* ]]
        [ "$(field peak_bytes)" -le $((1024 * MIB)) ]
        [ "$(field refusals)" -ge 1 ]
        books_are_empty
        said=$(tenant --mem 700M -- "$families" vmm 64) || { echo "$said"; cat "$report"; return 1; }
        [ "$(value last "$said")" = CUDA_ERROR_OUT_OF_MEMORY ]
        said=$(tenant --mem 700M -- "$families" managed 64) || { echo "$said"; cat "$report"; return 1; }
        [ "$(value last "$said")" = CUDA_ERROR_NOT_PERMITTED ]
        books_are_empty
}

# is_refused RELEASE
is_refused() {
        machine_start --driver "$1"
        run on "$sublet" run --mem 1G -- touch "$BATS_TEST_TMPDIR/started"
        one_line_and_2 "driver $1: the ABI of this release is not known"
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
}

@test "525.147.05" {
        holds_on 525.147.05
}

@test "535.183.01" {
        holds_on 535.183.01
}

@test "545.29.06" {
        holds_on 545.29.06
}

@test "550.163.01" {
        holds_on 550.163.01
}

@test "555.58.02" {
        holds_on 555.58.02
}

@test "560.35.03" {
        holds_on 560.35.03
}

@test "565.77" {
        holds_on 565.77
}

@test "570.211.01" {
        holds_on 570.211.01
}

@test "575.64.05" {
        holds_on 575.64.05
}

@test "580.65.06" {
        holds_on 580.65.06
}

@test "580.159.04" {
        holds_on 580.159.04
}

@test "590.48.01" {
        holds_on 590.48.01
}

@test "595.45.04" {
        holds_on 595.45.04
}

@test "a branch nobody has read, 610.1, is refused" {
        is_refused 610.1
}

@test "a developer tag between releases, 535.43.10, is refused" {
        is_refused 535.43.10
}

@test "a release newer than the newest of its branch, 580.999.01, is refused" {
        is_refused 580.999.01
}
