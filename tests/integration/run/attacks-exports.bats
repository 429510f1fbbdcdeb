#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The suite of attacks on exported memory (tests/hostile), each first without a gate, where it must come past the
# quota (its positive control), and then as a tenant, where the device holds no more for it than the quota. What counts
# is the device's own figure, read from outside.
# long: because each attack settles several times
# waits: for what the gate settles once a second
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

@test "exported memory in flight in a socket stays charged" {
        stops export-in-socket
}

@test "exported memory that a poll in progress keeps stays charged" {
        stops export-in-poll
}

@test "exported memory that an aio request keeps stays charged" {
        stops export-in-aio
}

@test "exported memory registered with an io_uring stays charged" {
        stops export-in-uring
}

@test "exported memory that a request of an io_uring keeps stays charged" {
        stops export-in-uring-poll
}

@test "exported memory under a number that keeps changing stays charged" {
        stops export-moving
}

@test "exported memory of a process that may not be looked at stays charged" {
        stops export-undumpable
}

@test "exported memory in a thread's own table stays charged" {
        stops export-own-table
}

@test "exported memory in a connection that nobody accepted stays charged" {
        stops export-unaccepted
}

@test "exported memory of a child without driver calls stays charged" {
        stops export-in-child
}
