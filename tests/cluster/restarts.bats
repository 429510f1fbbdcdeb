#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each part ends and begins anew while pods compute: nothing is lost, nothing is had twice, nobody inside notices.
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

idle='exec gpu-load -t 900 idle'
deep='exec gpu-load -t 900 -k 20000 sync'

setup() {
        with=.
        if ! phase_is one Running 2> /dev/null; then
                pod one "$(rents main 6 30 "$deep")"
                pod two "$(rents a 3 20 "$deep")" "$(rents b 3 20 "$deep")"
                until_ok 60 has_tenants 3
                phase two Running
                agree
        fi
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
}

teardown_file() {
        gone
}

# unharmed: those that ran still do, were not started again, and get their time; and a new one runs beside them
unharmed() {
        local name
        for name in one two; do
                phase_is $name Running || { kubectl describe pod $name; return 1; }
                [ "$(kubectl get pod $name -o 'jsonpath={.status.containerStatuses[0].restartCount}')" = 0 ]
        done
        grows one
        agree
        deployment new 1 "$(rents main 2 10 "$idle")"
        "$sublet" ps --json | jq -e 'any(.[]; (.container.name | startswith("new-")) and .devices[0].quota_bytes == 2147483648)'
        agree
        deployment_end new
        until_ok 90 has_tenants 3
        agree
}

@test "kubelet" {
        part_restart kubelet KILL
        until_ok 90 eval 'kubectl get node "$node" | grep -q " Ready"'
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
        unharmed
}

@test "containerd" {
        part_restart containerd KILL
        until_ok 90 ctr -a "$cluster/containerd.sock" version
        until_ok 90 eval 'kubectl get node "$node" | grep -q " Ready"'
        unharmed
}

@test "the daemon" {
        part_restart daemon KILL
        until_ok 90 has_tenants 3
        unharmed
}

@test "the device plugin" {
        part_restart plugin KILL
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
        unharmed
}

@test "the extender" {
        part_restart extender KILL
        until_ok 90 curl -skf https://127.0.0.1:12345/readyz
        unharmed
}
