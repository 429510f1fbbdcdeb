#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# runc starts tenants: with the profile and the hook that `sublet oci spec` writes, in bundles as docs/containers.md
# has them.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../oci

setup() {
        needs runc
        rootfs_make
        machine_start --memory 24G
        daemon_start
        # shellcheck disable=SC2034
        started=() # processes that a test leaves, for oci.bash
}

teardown() {
        local id
        for id in a b c d e f g h; do
                runc --root "$machine/runc" delete -f "$id" 2> /dev/null || true
        done
        node_end
        machine_end
}

runtime() {
        case $1 in
        run) runc --root "$machine/runc" run -b "$2" "$3" ;;
        kill) runc --root "$machine/runc" kill "$2" "$3" ;;
        exec) runc --root "$machine/runc" exec "${@:2}" ;;
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

@test "root of a user namespace of its own is a tenant like any" {
        local dir=$rootfs
        bundle h '.annotations = {"sublet.dev/mem": "1G"}
                | .linux.namespaces += [{type: "user"}]
                | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
                | .linux.gidMappings = .linux.uidMappings' \
                /bin/sh -c 'cat /proc/self/uid_map; /t/gpu-families alloc 32; /t/gpu-families managed 64'
        chmod -R a+rwX "$rootfs" "$machine" 2> /dev/null || true
        while [ "$dir" != / ]; do # which that user has to pass
                chmod a+x "$dir"
                dir=$(dirname "$dir")
        done
        run runtime run "$bundles/h" h
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *100000*'last=CUDA_ERROR_OUT_OF_MEMORY total_mib=1024'*'family=managed'* ]]
        wait_for has_tenants 0
        [ "$("$sublet" ps -a --json | jq -c '[.[].devices[0].held_bytes] | unique')" = '[0]' ]
        "$sublet" events --json | jq -se 'all(.name != "TENANT_UNREADABLE")'
}
