#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) from inside a container: runc with the profile that `sublet oci spec` writes, as root of
# the container and as a user of its image. Each gets past the quota without a gate: run/attacks*.bats show that, here
# they must have come to the point where they hold what they could get. What counts is the device's own figure, read
# from outside.
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

@test "exported memory that a poll in progress keeps stays charged" { stays_in export-in-poll; }
@test "exported memory in flight in a socket stays charged" { stays_in export-in-socket; }
@test "exported memory of a process that may not be looked at stays charged" { stays_in export-undumpable; }
@test "managed memory of a process without its main thread stays charged" { stays_in managed-leader-gone 64; }
@test "managed memory behind thousands of small ranges stays charged" { stays_in managed-many-ranges; }
@test "managed memory of a child that executed another program stays charged" { stays_in managed-exec-child; }
@test "page tables of a reservation are charged" { stays_in page-tables; }
@test "buffers of channel groups are charged" { stays_in groups-many 300; } # or their number is (channels_all)
@test "calls of children that share their parent's memory take the quota and no more" { stays_in caller-vfork; }
@test "calls of a process that shares memory and descriptors take the quota and no more" { stays_in caller-clone-vm; }
@test "requests of every type byte, direction and upper half take the quota and no more" { stays_in spelling-type; }
@test "requests inside requests take the quota and no more" { stays_in spelling-xfer; }
@test "every request without a rule is refused" {
        stays_in spelling-unknown 0
        [[ $said == *' succeeded=0'* ]]
}
@test "parameters that change while a call is decided take the quota and no more" { stays_in block-changed; }
