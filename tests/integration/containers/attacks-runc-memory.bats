#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) on exported and managed memory from inside a container: runc with the profile that
# `sublet oci spec` writes, as root of the container and as a user of its image. run/attacks.bats and
# run/attacks-exports.bats show that each gets past the quota without a gate. What counts is the device's own figure,
# read from outside.
# long: because each attack settles several times, and runs twice
# waits: for what the gate settles once a second, and for containers
# later: because run/attacks*.bats has the same attacks without containers, and these are minutes
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../attacks
load ../attacks-runc

@test "exported memory that an aio request keeps stays charged" { stays_in export-in-aio; }
@test "exported memory under a number that keeps changing stays charged" { stays_in export-moving; }
@test "exported memory in a connection that nobody accepted stays charged" { stays_in export-unaccepted; }
@test "exported memory of a child without driver calls stays charged" { stays_in export-in-child; }
@test "managed memory of a child that has ended stays charged while the driver keeps it" { stays_in managed-zombie; }
@test "managed memory of an ended parent stays charged while the driver keeps it" {
        local edit
        for edit in "$ROOT" "$USER_OF_IMAGE"; do # what is kept leaves no room for another context
                in_bundle "$edit" managed-forked
                [[ $said == *setup=cuDevicePrimaryCtxRetain* || $said == *holding* ]]
                [ "$held" -ge 256 ]
        done
}
@test "managed memory mapped through a number that changes is charged" { is_ended managed-swapped; }
@test "managed memory that is unmapped in part stays charged" { stays_in managed-partial; }
@test "managed memory that is moved, and mapped anew where it is then, gets through no call but mmap" {
        stays_in managed-remapped 0
        [[ $said == *'remapped mib=0'* ]]
}
@test "managed memory in a space that the gate has let go of is held to the quota" { is_ended space-forgotten; }
@test "a mapping over thousands of ranges is refused, and so are mappings on their way in too many spaces" {
        local edit
        for edit in "$ROOT" "$USER_OF_IMAGE"; do # no more is taken: a range is 2 MiB of the simulated device
                QUOTA=256 attack_bundle "$edit" managed-wide '{"sublet.dev/mem": "20G"}'
                attack managed-wide contained
                [[ $said == *'ranges=6000'* && $said == *'wide errno=12'* ]]
                wait_for has_tenants 0
        done
        stays_in managed-pending
        [ "$(value refused "$said")" -gt 30 ] # of 300, above a bound; how many are done is chance
}
@test "managed memory that a child maps for its parent by a number that changes is held to the quota" {
        stays_in managed-swapped-by-child
}
@test "what needs an io_uring, a table of its own, a second device or a fabric finds nothing to try there" {
        finds_nothing managed-own-table export-in-uring export-in-uring-poll mapped-on-two \
                fabric-over fabric-mapped fabric-attached fabric-addresses
}
