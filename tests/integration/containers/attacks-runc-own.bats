#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) on what the driver takes unasked, and by how a request is spelt, from inside a
# container: runc with the profile that `sublet oci spec` writes, as root of the container and as a user of its image.
# run/attacks-own.bats and run/attacks-requests.bats show that each gets past the quota without a gate. What counts is
# the device's own figure, read from outside.
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

@test "page tables of a lazy reservation are charged as it is mapped" { stays_in page-tables-lazy-maps; }
@test "page tables of what is mapped through a dup of a lazy reservation are charged" { stays_in page-tables-dup; }
@test "page tables of a range that is mapped with nothing behind it are charged" { stays_in page-tables-sparse; }
@test "buffers of channels are charged" { stays_in channels-many 16; } # or their number is
@test "address spaces are charged" { stays_in spaces-many 256; }
@test "buffers of a freed channel that UVM keeps stay charged" { stays_in register-channel-repeat; }
@test "contexts of many processes at once stay in the quota, with what the driver adds" { stays_in contexts-racing 0; }
@test "requests inside requests inside requests carry nothing; one level takes the quota and no more" {
        stays_in spelling-nested
        [[ $said == *'nested mib=0'* ]]
}
@test "requests on a number that moves between the driver and other files take the quota and no more" {
        stays_in spelling-swapped
}
@test "what is larger than the gate takes is refused" {
        stays_in bounds
        [[ $said == *' succeeded=0'* ]]
}
@test "blocks whose second page is taken away take the quota and no more" { stays_in block-unmapped; }
@test "what spells its requests in an io_uring or needs userfaultfd finds nothing to try there" {
        finds_nothing spelling-uring block-silent
}
