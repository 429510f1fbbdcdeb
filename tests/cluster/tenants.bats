#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods that rent, in a cluster of real parts (tests/cluster/run): from the API server to the bytes inside.
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

setup() {
        with=.
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        gone
}

idle='gpu-families meminfo; exec gpu-load -t 600 idle'
deep='exec gpu-load -t 600 -k 20000 sync'

@test "the API server takes every manifest of deploy/" {
        for file in "$root"/deploy/kubernetes/{namespace,access,node,extender,webhook,network}.yaml "$root"/deploy/kubernetes/examples/*.yaml; do
                if grep -q keda.sh "$file"; then continue; fi # a kind of KEDA, which is not here
                kubectl apply -n sublet --dry-run=server --validate=true -f "$file" || kubectl apply --dry-run=server -f "$file"
        done
        [ -n "${SUBLET_TODAY:-}" ] || return 0 # kubectl of 1.20 cannot make them of ours
        for made in kubernetes kubernetes/guard kubernetes-dra kubernetes-preload; do
                kubectl apply --dry-run=server -k "$root/deploy/$made"
        done
}

@test "a node offers the memory of its GPUs, and says which they are" {
        [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.sublet\.dev/gpu-mem}')" = 32 ]
        [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.sublet\.dev/gpu-count}')" = 2 ]
        kubectl get node "$node" -o 'jsonpath={.metadata.annotations.sublet\.dev/devices}' |
                jq -e 'length == 2 and all(.[]; .healthy and .mem_bytes == 17179869184 and (.uuid | startswith("GPU-")))'
}

@test "a pod sees its quota inside and is stopped at it, and its neighbour does not notice" {
        pod neighbour "$(rents main 4 "" "$deep")"
        until_ok 90 eval '[ "$(tenant neighbour main held_bytes)" -gt 0 ]'
        pod one "$(rents main 4 "" 'gpu-families alloc 32')"
        phase one Succeeded
        [ "$(word one total_mib)" = 4096 ]
        [ "$(word one last)" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$(word one got_mib)" -ge 3072 ]
        [ "$(word one got_mib)" -le 4096 ]
        [ "$(word one after)" = ok ]
        phase_is neighbour Running
        grows neighbour
}

@test "the extender says where, and that is where the daemon puts it" {
        pod one "$(rents main 12 30 "$idle")"
        pod two "$(rents main 12 40 "$idle")"
        says one total_mib=12288
        says two total_mib=12288
        for name in one two; do
                [ "$(kubectl get pod $name -o 'jsonpath={.metadata.annotations.sublet\.dev/allocation}' | jq .containers.main.device)" = "$(tenant $name main index)" ]
                [ "$(tenant $name main quota_bytes)" = 12884901888 ]
        done
        [ "$(tenant one main index)" != "$(tenant two main index)" ]
        [ "$(tenant one main share_asked_permille)" = 300 ]
        [ "$(tenant two main share_asked_permille)" = 400 ]
        agree
}

@test "what fits nowhere stays pending, with the reason" {
        pod large "$(rents main 17 "" "$idle")"
        until_ok 90 eval 'kubectl describe pod large | grep -q FailedScheduling'
        kubectl describe pod large | grep 'FailedScheduling' | grep -q '17 GiB' || { kubectl describe pod large | tail -n 5; return 1; }
        phase_is large Pending
        has_tenants 0
}

@test "three services on one GPU, where there was one" {
        deployment third 3 "$(rents main 5 30 "$deep")"
        until_ok 90 has_tenants 3
        "$sublet" ps --json | jq -e '[.[].devices[0].index] | unique | length == 1'
        until_ok 90 eval '"$sublet" ps --json | jq -e "all(.[]; .devices[0].used_ns > 0 and .devices[0].held_bytes > 0)"'
        agree
        deployment_end third
}

@test "two GPU containers of a pod have each their own" {
        pod pair "$(rents small 2 20 "$idle")" "$(rents large 6 50 "$idle")"
        says pair total_mib=2048 small
        says pair total_mib=6144 large
        [ "$(tenant pair small quota_bytes)" = 2147483648 ]
        [ "$(tenant pair large quota_bytes)" = 6442450944 ]
        [ "$(tenant pair large share_asked_permille)" = 500 ]
        agree
}

@test "a pod's end returns everything" {
        before="$(free_mib 0) $(free_mib 1)"
        pod one "$(rents main 8 50 "$deep")"
        until_ok 90 eval '[ "$(tenant one main held_bytes)" -gt 0 ]'
        [ "$(free_mib 0) $(free_mib 1)" != "$before" ]
        kubectl delete pod one --wait=false > /dev/null
        until_ok 90 has_tenants 0
        [ "$(free_mib 0) $(free_mib 1)" = "$before" ]
        pod next "$(rents main 16 100 "$idle")"
        says next total_mib=16
        agree
}
