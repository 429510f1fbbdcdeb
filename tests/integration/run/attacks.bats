#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The suite of attacks (tests/hostile), each first without a gate, where it must come past the quota (its
# positive control), and then as a tenant, where the device holds no more for it than the quota. What counts is the
# device's own figure, read from outside.
# long: because each attack settles several times
# waits: for what the gate settles once a second
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

@test "managed memory of a process without its main thread stays charged" {
        stops managed-leader-gone
}

@test "managed memory behind thousands of small ranges stays charged" {
        stops managed-many-ranges
}

@test "managed memory that a child mapped before it executed another program stays charged" {
        stops managed-exec-child
}

@test "managed memory of a child that has ended stays charged while the driver keeps it" {
        stops managed-zombie
}

@test "managed memory mapped through a thread's own table is charged" {
        stops managed-own-table
}

@test "managed memory mapped through a number that changes is charged" {
        stops managed-swapped
}

@test "managed memory that is unmapped in part stays charged" {
        stops managed-partial
}

@test "managed memory that is moved, and mapped anew where it is then, gets through no call but mmap" {
        stops managed-remapped
        [[ $said == *'remapped mib=0'* ]]
        [ "$(field DENIED)" -gt 0 ]
}

@test "managed memory of an ended parent stays charged while the driver keeps it" {
        stops managed-forked
}

@test "managed memory in a space that the gate has let go of is held to the quota" {
        stops space-forgotten
}

@test "managed memory that a child maps for its parent by a number that changes is held to the quota" {
        stops managed-swapped-by-child
        books_are_empty
}

@test "a mapping over thousands of ranges, at each of whose gaps UVM would have to be asked, is refused" {
        export QUOTA_MIB=256 # no more of the device is taken; a range is 2 MiB there
        SETTLE_MSEC=100 attack managed-wide on
        [[ $said == *'ranges=6000'* && $said == *'wide errno=0'* ]]
        attack managed-wide tenant --mem 20G --
        [[ $said == *'ranges=6000'* && $said == *'wide errno=12'* && $said == *holding* ]]
        [ "$(field DENIED)" -gt 0 ]
        wait_for all_back
}

@test "mappings on their way that would have to be asked about in too many spaces are refused" {
        stops managed-pending
        [[ $said == *'spaces=50'* ]]
        [ "$(value refused "$said")" -gt 30 ] # of 300, above a bound; how many are done is chance
        [ "$(field DENIED)" -gt 0 ]
}
