#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods of higher priority, with the real scheduler: who leaves for them, and where nobody can be made to.
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

deep='exec gpu-load -t 600 -k 20000 sync'
high='.spec.priorityClassName = "high"'

setup_file() {
        jq -cn '{apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: {name: "high"}, value: 1000}' | kubectl create -f -
}

teardown_file() { kubectl delete priorityclass high; }

setup() { with=.; }

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        gone
}

# left NAME: the pod is gone, or on its way
left() { ! kubectl get pod "$1" -o 'jsonpath={.metadata.deletionTimestamp}' || [ -n "$(kubectl get pod "$1" -o 'jsonpath={.metadata.deletionTimestamp}')" ]; }

# all_stay NAME...: none has left or was started again
all_stay() {
        local name
        for name; do
                phase_is "$name" Running && ! left "$name" &&
                        [ "$(kubectl get pod "$name" -o 'jsonpath={.status.containerStatuses[0].restartCount}')" = 0 ] || return 1
        done
}

@test "where its node's sum of memory is too small, a pod of higher priority is placed, and no more leave than it needs" {
        pod a "$(rents main 16 "" "$deep")"
        pod b "$(rents main 14 "" "$deep")"
        phase a Running
        phase b Running
        with=$high
        pod h "$(rents main 8 "" "$deep")"
        phase h Running
        { left a && all_stay b; } || { left b && all_stay a; }
        until_ok 60 has_tenants 2
        agree
}

@test "where the sum has room and no device has, the scheduler makes nobody leave, and the pod says why it waits" {
        pod a "$(rents main 10 "" "$deep")"
        pod b "$(rents main 10 "" "$deep")"
        phase a Running
        phase b Running
        with=$high
        pod h "$(rents main 12 "" "$deep")"
        until_ok 60 eval 'kubectl describe pod h | grep -q "12 GiB of GPU memory asked for on one device, the most free is 6 GiB"'
        sleep 10
        phase_is h Pending
        all_stay a b
        [ -z "${SUBLET_TODAY:-}" ] || kubectl describe pod h | grep 'expected at least one victim pod'
        gone a # what it can be told to wait for
        phase h Running
}
