#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods with sublet.dev/swap: together more than a GPU has, on it in turns.
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

deep='exec gpu-load -t 600 -k 20000 sync'
swaps='.metadata.annotations = {"sublet.dev/swap": "true"}'

offers() { [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.sublet\.dev/gpu-mem}')" = "$1" ]; }

setup_file() {
        cp "$cluster/parts/daemon" "$cluster/daemon.without"
        printf '%s --swap 32G' "$(cat "$cluster/daemon.without")" > "$cluster/parts/daemon"
        part_restart daemon
        until_ok 60 offers 64
}

teardown_file() {
        cp "$cluster/daemon.without" "$cluster/parts/daemon"
        part_restart daemon
        until_ok 60 offers 32
}

setup() {
        with=$swaps
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        gone
}

@test "three pods of 12 GiB on two GPUs of 16 all compute, and one without the annotation finds what is left beside them" {
        local name
        for name in a b c; do pod $name "$(rents main 12 "" "$deep")" || { echo "$said"; return 1; }; done
        for name in a b c; do phase $name Running; done
        for name in a b c; do grows $name; done
        "$sublet" ps --json | jq -e 'length == 3 and all(.[]; .swap) and ([.[].devices[0].index] | sort | unique == [0, 1])'
        agree
        with=.
        pod large "$(rents main 6 "" "$deep")"
        until_ok 60 eval 'kubectl describe pod large | grep -q "the most free is 4 GiB"'
        pod small "$(rents main 4 "" "$deep")"
        phase small Running
        for name in a b c small; do grows $name; done
        agree
}

@test "what GPU and host together do not hold stays pending, with the reason, and the annotation stays as it was" {
        local name
        for name in a b c d; do pod $name "$(rents main 15 "" "$deep")" || { echo "$said"; return 1; }; done
        until_ok 90 has_tenants 3 # the third on a GPU of one of the first two: 30 of 32 GiB of the host
        until_ok 60 eval 'kubectl describe pods | grep -q "32 GiB of host memory for those do not hold what their exchange would need"'
        run -1 kubectl annotate --overwrite pod a sublet.dev/swap=false
        [[ $output = *'you may not change'* ]]
        agree
}

# all_stay NAME...: none has left or was started again
all_stay() {
        local name
        for name; do
                [ "$(kubectl get pod "$name" -o json | jq -c '[.status.phase, .metadata.deletionTimestamp, .status.containerStatuses[0].restartCount]')" = '["Running",null,0]' ] || return 1
        done
}

@test "for a pod of higher priority with the annotation nobody is evicted, though the GPUs are full: all of them compute" {
        local name
        jq -cn '{apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: {name: "high"}, value: 1000}' | kubectl create -f -
        for name in a b c d; do pod $name "$(rents main 8 "" "$deep")" || { echo "$said"; return 1; }; done
        for name in a b c d; do phase $name Running; done
        with='.spec.priorityClassName = "high"'
        pod without "$(rents main 8 "" "$deep")"
        until_ok 60 eval 'kubectl describe pod without | grep -q "the most free is 0 B"'
        with="$with | $swaps"
        pod h "$(rents main 8 "" "$deep")" || { echo "$said"; return 1; }
        phase h Running
        for name in a b c d h; do grows $name; done
        all_stay a b c d h
        phase_is without Pending
        until_ok 60 has_tenants 5
        agree
        kubectl delete priorityclass high
}
