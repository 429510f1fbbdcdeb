#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The suite of attacks by fabric memory (tests/hostile), on a machine with NVLink: each first without a gate, where it
# must come past the quota (its positive control), and then as a tenant. What counts is the device's own figure.
# long: because each attack settles several times
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

setup() {
        machine_start --gpus 2 --memory 24G --nvlink
        export QUOTA_MIB=$QUOTA
        before=$(free_mib 0)
}

@test "memory that only fabric objects keep stays charged" {
        stops fabric-over
}

@test "memory that only mappings of fabric objects keep stays charged" {
        stops fabric-mapped
}

@test "memory mapped on two devices and unmapped from one stays charged" {
        stops mapped-on-two
}

@test "memory attached to a fabric object and freed can be had again, and no more than the quota" {
        stops fabric-attached
}

@test "a tenant cannot take the addresses of the fabric that the others need" {
        attack fabric-addresses on
        [ "$(value mib "$said")" -ge $((40 * 1024)) ]
        attack fabric-addresses tenant --mem "${QUOTA}M" --
        [ "$(value mib "$said")" -le $((17 * 1024)) ]
}

@test "memory by name, and of other clients, is neither exported nor imported" {
        attack fabric-named on
        [ "$(value mib "$said")" -gt 0 ]
        attack fabric-named tenant --mem "${QUOTA}M" --
        [ "$(value mib "$said")" -eq 0 ]
}
