#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A node loses its power: all its processes, its GPUs' state and what is under /run are gone at once. What is on its
# disk stays, and what a control plane elsewhere knows.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

deep='exec gpu-load -t 900 -k 20000 sync'
parts=(kubelet plugin daemon containerd machine)

setup() {
        with=.
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        gone
}

# The node's processes that are no parts: the runtime's, with all that they have started, and the shims. Those of
# other nodes are in other network namespaces.
others() {
        local here status
        here=$(readlink /proc/self/ns/net)
        for status in /proc/[0-9]*; do
                [ "$(readlink "$status/ns/net" 2> /dev/null)" = "$here" ] || continue
                case $(tr '\0' ' ' < "$status/cmdline" 2> /dev/null) in
                *containerd-shim*) below "${status#/proc/}" ;;
                *'sublet keeper'*) echo "${status#/proc/}" ;;
                esac
        done
}

below() { # PID: and all of its descendants
        local child
        echo "$1"
        for child in $(ps -o pid= --ppid "$1"); do below "$child"; done
}

power_off() {
        local part at
        for part in "${parts[@]}"; do part_end "$part" KILL; done
        for _ in 1 2 3; do # what was being started meanwhile
                # shellcheck disable=SC2046  # numbers
                kill -KILL $(others) 2> /dev/null || true
                sleep 0.3
        done
        [ -z "$(others)" ]
        tac /proc/self/mounts | cut -d' ' -f2 | while read -r at; do
                case $at in
                "$cluster"/containerd/state/* | /run/netns/* | /var/lib/kubelet/*/*) umount -l "$at" ;;
                esac
        done
        rm -rf "$cluster/containerd/state"
        find /run/sublet /run/containerd /run/netns -mindepth 1 -delete
        ip link delete pods0
}

# In the order of a node: kubelet has its pods before the daemon and the device plugin, which are pods too, are there.
power_on() {
        local part
        for part in machine containerd kubelet; do part_start "$part"; done
        until_ok 60 ctr -a "$cluster/containerd.sock" version
        sleep 3
        for part in daemon plugin; do part_start "$part"; done
        until_ok 90 eval 'kubectl get node "$node" | grep -q " Ready"'
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
}

@test "a Deployment's pod runs again with its lease, and nothing of before is booked any more" {
        local since
        deployment served 1 "$(rents main 6 30 "$deep")"
        pod once "$(rents main 4 20 "$deep")"
        phase once Running
        until_ok 60 has_tenants 2
        power_off
        since=$SECONDS
        power_on
        until_ok 120 runs_once
        echo "# a tenant computed $((SECONDS - since)) s after the power was back" >&3
        [ "$(kubectl get pod once -o 'jsonpath={.status.phase}')" = Failed ]
        kubectl delete pods --field-selector status.phase=Failed --force --grace-period=0 > /dev/null
        agree
        deployment_end served
        until_ok 60 has_tenants 0
        for name in whole other; do pod $name "$(rents main 16 50 "$deep")"; done
        phase whole Running
        phase other Running
        agree
}

# runs_once: one tenant, which has used its GPU
runs_once() {
        "$sublet" ps --json | jq -e 'length == 1 and .[0].devices[0].used_ns > 0 and .[0].devices[0].quota_bytes == 6442450944' &&
                [ "$(kubectl get pods -l app=served -o json | jq '[.items[] | select(.status.phase == "Running")] | length')" = 1 ]
}
