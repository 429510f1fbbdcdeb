#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# containerd starts tenants, through `ctr`: with a specification as `sublet oci spec` writes it, and with only the
# profile. What kubelet asks of it, over CRI with the RuntimeClass, is in tests/cluster.
# variants: plain, because what a sanitizer would see of ours oci-runc.bats shows it
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../oci

setup() {
        needs runc crun containerd ctr
        rootfs_make
        machine_start --memory 24G
        daemon_start
        # shellcheck disable=SC2034
        started=() # processes that a test leaves, for oci.bash
        containerd_start
}

teardown() {
        containerd_end
        node_end
        machine_end
}

# One of our own, in a mount namespace of its own because of crun. The socket's name has to be short.
containerd_start() {
        work=$(mktemp -d /tmp/sublet-ctd-XXXXXX)
        export CONTAINERD_NAMESPACE=${work##*/} # runc's own state lies in a directory of all containerds, by namespace
        cat > "$work/config.toml" << END
version = 2
root = "$work/root"
state = "$work/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$work/sock"
END
        # shellcheck disable=SC2016 # for the inner shell
        unshare -m -- sh -c 'umount /sys/fs/cgroup/unified 2> /dev/null; exec containerd -c "$1"' - "$work/config.toml" \
                > "$work/said" 2>&1 3>&- &
        containerd=$!
        wait_for ctr -a "$work/sock" version || { cat "$work/said"; return 1; }
}

containerd_end() {
        local id
        [ -n "${containerd:-}" ] || return 0
        for id in $(ctr -a "$work/sock" containers list -q); do
                ctr -a "$work/sock" tasks kill -s KILL "$id" > /dev/null 2>&1 || true
                wait_for ctr -a "$work/sock" containers delete "$id" || true
        done
        pkill -P "$containerd" || true # the shell's child: a function in the background is a shell
        kill "$containerd" 2> /dev/null || true
        wait "$containerd" 2> /dev/null || true
        rm -rf "$work"
}

# ctr may end before it has read what a container's process wrote just before its end: that one stays a moment.
runtime() {
        case $1 in
        run)
                jq '.process.args = ["/bin/sh", "-c", "\"$@\"; status=$?; sleep 0.5; exit $status", "-"] + .process.args' \
                        "$2/config.json" > "$2/config.ctr.json"
                ctr -a "$work/sock" run --rm --runc-binary "${binary:-runc}" --config "$2/config.ctr.json" "$3"
                ;;
        kill) ctr -a "$work/sock" tasks kill -s "$3" "$2" ;;
        esac
}

@test "a container sees its quota, and is stopped there" {
        sees_its_quota_and_stops_there
}

@test "with crun as well" {
        binary=$(command -v crun)
        sees_its_quota_and_stops_there
}

@test "it is a tenant of the daemon until it ends" {
        is_a_tenant_of_the_daemon_until_it_ends
}

@test "without a lease, or a gate, it is not started" {
        is_not_started_without_a_lease
        is_not_let_near_a_device_under_another_profile
}

# As the manual has it for ctr: no specification of ours, the profile and annotations on the command line.
@test "the profile alone is enough" {
        local mounts=() mount
        generate oci profile > "$work/profile.json"
        generate cdi generate > "$work/cdi.json"
        while read -r mount; do mounts+=(--mount "$mount"); done < <(jq -r '.containerEdits.mounts[]
                | "type=bind,src=\(.hostPath),dst=\(.containerPath),options=rbind:ro"' "$work/cdi.json")
        while read -r mount; do mounts+=(--env "$mount"); done < <(jq -r '.containerEdits.env[]' "$work/cdi.json")
        run ctr -a "$work/sock" run --rm --rootfs --seccomp --seccomp-profile "$work/profile.json" \
                --annotation sublet.dev/mem=1G "${mounts[@]}" --mount "type=bind,src=$plain/tests/gpu,dst=/t,options=rbind:ro" \
                "$rootfs" h /t/gpu-families alloc 32
        echo "$output"
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        wait_for has_tenants 0
}

# profile.h, P1. containerd's own list is read from a container that it starts.
@test "our default profile allows nothing that containerd's does not" {
        ctr -a "$work/sock" run --detach --rootfs --seccomp "$rootfs" i /bin/sleep 100
        jq '[.linux.seccomp.syscalls[] | select(.action == "SCMP_ACT_ALLOW") | .names[]] | unique' \
                "$work"/state/io.containerd.runtime.v2.task/"$CONTAINERD_NAMESPACE"/i/config.json > "$work/theirs"
        generate oci profile | jq '[.syscalls[] | select(.action == "SCMP_ACT_ALLOW") | .names[]] | unique' > "$work/ours"
        [ "$(jq length "$work/theirs")" -gt 300 ]
        [ "$(jq length "$work/ours")" -gt 280 ]
        run jq -nc --slurpfile ours "$work/ours" --slurpfile theirs "$work/theirs" '$ours[0] - $theirs[0]'
        echo "more than theirs: $output"
        [ "$output" = '[]' ]
}
