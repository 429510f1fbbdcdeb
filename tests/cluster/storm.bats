#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods are created and taken away by force, at random moments, while parts of the cluster are killed. No tenant is there
# 30 s after its pod, and in the end the books of kubelet, extender and daemon are the same. ROUNDS=200: half an hour.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

parts=(extender plugin daemon kubelet containerd none none)
rounds=${ROUNDS:-6}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        gone
}

# A pod that may be refused while a part is away: that is no failure here.
try() { pod "$@" || true; }

all_are_back() {
        kubectl get node "$node" | grep -q ' Ready' && curl -skf https://127.0.0.1:12345/readyz &&
                "$sublet" ps -q && ctr -a "$cluster/containerd.sock" version
}

@test "pods that come and go by force while parts are killed leave no tenant and no allocation behind" {
        local round part name since ms longest=0 list=''
        declare -A kills
        RANDOM=${SEED:-$$}
        echo "RANDOM=${SEED:-$$}"
        with=.
        for ((round = 1; round <= rounds; round++)); do
                part=${parts[RANDOM % ${#parts[@]}]}
                kills[$part]=$((${kills[$part]:-0} + 1))
                for name in a b c; do try "storm-$round-$name" "$(rents main $((1 + RANDOM % 4)) 10 'exec gpu-load -t 900 idle')"; done
                sleep "$((RANDOM % 4)).$((RANDOM % 10))"
                [ "$part" = none ] || part_end "$part" KILL
                sleep "0.$((RANDOM % 10))"
                kubectl delete pod --all --force --grace-period=0 --wait=false > /dev/null 2>&1
                [ "$part" = none ] || part_start "$part"
                until_ok 60 all_are_back
                since=${EPOCHREALTIME/./}
                until_ok 30 has_tenants 0 || {
                        echo "round $round, killed: $part; left:"
                        "$sublet" ps
                        return 1
                }
                ms=$(((${EPOCHREALTIME/./} - since) / 1000))
                longest=$((ms > longest ? ms : longest))
        done
        for part in "${!kills[@]}"; do list+="$part ${kills[$part]}, "; done
        echo "# $rounds rounds, killed: ${list}the last tenant was gone at most $longest ms after all were back" >&3
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
        for name in last other; do # all that there is: nothing is still booked anywhere
                pod $name "$(rents main 16 50 'exec gpu-load -t 900 idle')"
        done
        phase last Running
        phase other Running
        has_tenants 2
        agree
}
