#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) on who makes a call from inside a container: runc with the profile that `sublet oci
# spec` writes, as root of the container and as a user of its image. run/attacks-callers.bats shows that each gets
# past the quota without a gate. What counts is the device's own figure, read from outside.
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

@test "calls from a signal handler, of a thread that is in a call, take the quota and no more" {
        stays_in caller-signal
}
@test "calls of children with a client of their parent take the quota and no more" { stays_in caller-forked; }
@test "calls by descriptors that were passed on by processes that have ended take the quota and no more" {
        stays_in caller-passed
}
@test "a program whose main thread has ended gets its quota, and no more" { stays_in caller-without-leader 0; }
@test "calls of processes that are stopped in their midst take the quota and no more" { stays_in caller-stopped; }
@test "a program with a filter of its own has no listener, and takes the quota and no more" {
        stays_in caller-own-filter
        [[ $said == *'listener=0'* ]]
}
@test "bare system calls take the quota and no more" { stays_in caller-raw; }
@test "calls that a debugger puts into a program take the quota and no more" { stays_in caller-traced; }
@test "twelve hundred processes take the quota together and no more" { stays_in many-processes; }
@test "exports in more processes than descriptors take the quota and no more" { stays_in descriptors; }
@test "what needs a table of its own, namespaces, mounts or userfaultfd finds nothing to try there" {
        finds_nothing caller-own-table caller-namespaces blocked-mount blocked-poll exec-midway
}
