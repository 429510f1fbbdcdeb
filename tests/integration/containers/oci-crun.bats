#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# crun starts tenants: with the profile and the hook that `sublet oci spec` writes, in bundles as docs/containers.md
# has them.
# variants: plain, because what a sanitizer would see of ours oci-runc.bats shows it
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../oci

setup() {
        needs runc crun
        rootfs_make
        machine_start --memory 24G
        daemon_start
        # shellcheck disable=SC2034
        started=() # processes that a test leaves, for oci.bash
}

teardown() {
        local id
        for id in a b c d e f g h; do
                in_own_mounts crun --root "$machine/crun" delete -f "$id" 2> /dev/null || true
        done
        node_end
        machine_end
}

runtime() {
        case $1 in
        run) in_own_mounts crun --root "$machine/crun" run -b "$2" "$3" ;;
        kill) in_own_mounts crun --root "$machine/crun" kill "$2" "$3" ;;
        exec) in_own_mounts crun --root "$machine/crun" exec "${@:2}" ;;
        esac
}

@test "a container sees its quota, and is stopped there" {
        sees_its_quota_and_stops_there
}

@test "it has the parts of the driver that its image names" {
        has_the_capabilities_that_its_image_names
}

@test "it is a tenant of the daemon until it ends" {
        is_a_tenant_of_the_daemon_until_it_ends
}

@test "without a lease it is not started, and the runtime says why" {
        is_not_started_without_a_lease
}

@test "a device belongs behind a gate of this driver's" {
        is_not_let_near_a_device_under_another_profile
}

@test "it does not mind being stopped in the middle of driver calls" {
        does_not_mind_being_stopped
}

@test "it does not notice that the daemon is killed and comes back" {
        outlives_the_daemon
}

@test "without a daemon it is not started" {
        is_not_started_without_a_daemon
}

@test "what is put into it later is the same tenant's" {
        execs_into_the_same_tenant
}

@test "of a trust group it is a client of the group's MPS server, and of no other" {
        shares_its_groups_server_and_no_other
}

@test "what a group cannot give it is refused" {
        is_refused_what_its_group_cannot_have
}

@test "it may be started long after it was made" { # crun has connected to the daemon by then, and says nothing yet
        bundle e '.annotations = {"sublet.dev/mem": "1G"}' /t/gpu-families meminfo
        in_own_mounts crun --root "$machine/crun" create -b "$bundles/e" e < /dev/null > "$machine/e" 2>&1 3>&-
        sleep 7
        in_own_mounts crun --root "$machine/crun" start e
        wait_for says e total_mib=1024
}
