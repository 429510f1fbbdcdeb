#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods that ask in others' words, for several GPUs, or as one job: what the API server, the scheduler and kubelet make
# of what the webhook and the extender write.
# shellcheck disable=SC2034,SC2154  # $with and $said are of pod, in pods.bash
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
annotation() { kubectl get pod "$1" -o json | jq -r --arg key "$2" '.metadata.annotations[$key]'; }

@test "a pod of gpushare runs as it is: its memory, its four variables, and its annotations with the binding" {
        with='.spec.containers[0].resources.limits = {"aliyun.com/gpu-mem": "3"}'
        pod theirs "$(rents main 1 "" "env; $idle")" || { echo "$said"; return 1; }
        says theirs total_mib=3072
        [ "$(word theirs ALIYUN_COM_GPU_MEM_IDX)" = "$(tenant theirs main index)" ]
        [ "$(word theirs ALIYUN_COM_GPU_MEM_POD)" = 3 ]
        [ "$(word theirs ALIYUN_COM_GPU_MEM_CONTAINER)" = 3 ]
        [ "$(word theirs ALIYUN_COM_GPU_MEM_DEV)" = 16 ]
        [ "$(annotation theirs ALIYUN_COM_GPU_MEM_ASSIGNED)" = true ]
        agree
}

@test "a pod of HAMi runs as it is: MiB in whole units, and its part of the time is promised" {
        with='.spec.containers[0].resources.limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}'
        pod theirs "$(rents main 1 "" "$idle")" || { echo "$said"; return 1; }
        says theirs total_mib=3072
        [ "$(tenant theirs main share_asked_permille)" = 300 ]
        agree
}

@test "a container on two GPUs is one tenant of both, with as much on each" {
        with='.spec.containers[0].resources.limits["sublet.dev/gpu-count"] = "2"'
        pod both "$(rents main 6 30 "gpu-families meminfo; CUDA_VISIBLE_DEVICES=1 $idle")" || { echo "$said"; return 1; }
        says both total_mib=6144
        until_ok 30 eval '[ "$(kubectl logs both | grep -c total_mib=6144)" = 2 ]'
        "$sublet" ps --json | jq -e 'length == 1 and ([.[0].devices[] | [.index, .quota_bytes]] | sort == [[0, 6442450944], [1, 6442450944]])'
        [ "$(kubectl get pod both -o json | jq -r '.spec.containers[0].resources.limits["sublet.dev/gpu-mem"]')" = 12 ]
        # what is left is counted on each
        pod more "$(rents main 11 "" "$idle")"
        until_ok 60 eval 'kubectl describe pod more | grep -q FailedScheduling'
        with=.
        pod fits "$(rents main 10 "" "$idle")"
        phase fits Running
}

@test "pods of one job wait for each other, and have their places at once when all are there" {
        with='.metadata.annotations = {"sublet.dev/job": "train", "sublet.dev/job-pods": "3"}'
        pod rank-0 "$(rents main 9 "" "$idle")"
        pod rank-1 "$(rents main 5 "" "$idle")"
        until_ok 60 eval 'kubectl describe pod rank-0 | grep -q "has [12] of 3 pods"'
        sleep 3
        phase_is rank-0 Pending
        phase_is rank-1 Pending
        has_tenants 0
        pod rank-2 "$(rents main 9 "" "$idle")"
        local name since=$SECONDS
        for name in rank-0 rank-1 rank-2; do phase $name Running; done
        echo "# a job's pods ran $((SECONDS - since)) s after the last was there" >&3
        agree
}
