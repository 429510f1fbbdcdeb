#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# podman starts tenants: the device by its CDI name, the profile as a security option, the lease as annotations.
# variants: plain, because what a sanitizer would see of ours oci-runc.bats shows it
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../oci

setup() {
        needs podman runc crun
        rootfs_make
        machine_start --memory 24G
        daemon_start
        # shellcheck disable=SC2034
        started=() # processes that a test leaves, for oci.bash
        work=$(mktemp -d /tmp/sublet-pod-XXXXXX)
        mkdir "$work/cdi"
        generate cdi generate --output "$work/cdi/sublet.json"
        generate oci profile > "$work/profile.json"
}

teardown() {
        podman_ rm -f -t 0 --all > /dev/null 2>&1 || true
        node_end
        machine_end
        # podman leaves its storage mounted on itself
        umount -l "$work"/* 2> /dev/null || true
        rm -rf "$work"
}

# With a storage of its own; /etc/cdi is ours only here.
podman_() {
        # shellcheck disable=SC2016 # for the inner shell
        unshare -m -- sh -c 'umount /sys/fs/cgroup/unified 2> /dev/null; mkdir -p /etc/cdi
                mount --bind "$1" /etc/cdi && shift && exec podman "$@"' - "$work/cdi" \
                --root "$work/root" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime "${binary:-runc}" "$@"
}

# podman_run NAME OPTION... -- COMMAND...
podman_run() {
        local name=$1 options=()
        shift
        while [ "$1" != -- ]; do options+=("$1") && shift; done
        shift
        podman_ run --name "$name" --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=5000:5000 \
                -v "$plain/tests/gpu:/t:ro" "${options[@]}" --rootfs "$rootfs" "$@"
}

stops_at_its_quota() {
        run podman_run a --security-opt "seccomp=$work/profile.json" --device sublet.dev/gpu=0 --annotation sublet.dev/mem=1G \
                -- /t/gpu-families alloc 32
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        wait_for has_tenants 0
}

@test "a container sees its quota, and is stopped there" {
        stops_at_its_quota
}

@test "with crun as well" {
        binary=crun
        stops_at_its_quota
}

@test "it is a tenant of the daemon until it ends" {
        podman_run b --security-opt "seccomp=$work/profile.json" --device sublet.dev/gpu=all --annotation sublet.dev/mem=2G \
                -- /t/gpu-load -t 300 -k 500 deep > "$machine/b" 2>&1 3>&- &
        started+=($!)
        wait_for eval '"$sublet" ps --json | jq -e "any(.devices[0].held_bytes > 0)"'
        "$sublet" ps --json | jq -e '.[0].devices[0].quota_bytes == 2147483648'
        podman_ rm -f -t 0 b
        wait "${started[0]}" || true
        wait_for has_tenants 0
}

@test "the device without the profile is not to be had" {
        run podman_run c --device sublet.dev/gpu=0 --annotation sublet.dev/mem=1G -- /bin/echo it ran
        echo "$output"
        [[ $status -ne 0 && $output == *'without a gate'* && $output != *'it ran'* ]]
}

@test "a lease that does not fit is refused with a reason" {
        run podman_run d --security-opt "seccomp=$work/profile.json" --device sublet.dev/gpu=0 --annotation sublet.dev/mem=99G \
                -- /bin/echo it ran
        echo "$output"
        [[ $status -ne 0 && $output == *'99G is more'* && $output != *'it ran'* ]]
}

# The simulated machine has no device nodes: here the device is named in NVIDIA's way, by a mount.
@test "a device without an annotation is refused, and the reason is an event" {
        run podman_run e --security-opt "seccomp=$work/profile.json" --device sublet.dev/gpu=0 \
                -v /dev/null:/var/run/nvidia-container-devices/0 -- /t/gpu-families alloc 1
        echo "$output"
        [[ $status -ne 0 && $output == *'asks for no lease'* && $output != *total_mib* ]]
        run -0 "$sublet" events
        echo "$output"
        [[ $output == *LEASE_REFUSED*'asks for no lease: annotate it with'* ]]
}
