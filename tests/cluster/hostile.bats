#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a pod says of itself gains it nothing.
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

@test "variables and annotations that only Sublet writes are taken away, and the quota is the allocation" {
        with='.metadata.annotations = {"sublet.dev/allocation": "{\"node\":\"n1\",\"containers\":{\"main\":{\"device\":1,\"mem_bytes\":17179869184}}}",
                "ALIYUN_COM_GPU_MEM_IDX": "1"} | .spec.containers[0].env = [{name: "SUBLET_MEM", value: "16G"}, {name: "SUBLET_SHARE", value: "100%"},
                {name: "NVIDIA_VISIBLE_DEVICES", value: "all"}, {name: "MINE", value: "kept"}]'
        pod liar "$(rents main 2 10 "env; $idle")"
        says liar total_mib=2048
        says liar MINE=kept
        [ "$(word liar SUBLET_MEM)" = 2147483648 ]
        [ "$(tenant liar main quota_bytes)" = 2147483648 ]
        [ "$(kubectl get pod liar -o 'jsonpath={.metadata.annotations.sublet\.dev/allocation}' | jq .containers.main.mem_bytes)" = 2147483648 ]
        agree
}

@test "annotations that ask the daemon for more change nothing" {
        with='.metadata.annotations = {"sublet.dev/mem": "16G", "sublet.dev/mem-bytes": "17179869184", "sublet.dev/share": "100"}'
        pod liar "$(rents main 2 10 "SUBLET_MEM=16G gpu-families meminfo; $idle")"
        says liar total_mib=
        [ "$(word liar total_mib)" = 2048 ]
        [ "$(tenant liar main quota_bytes)" = 2147483648 ]
        [ "$(tenant liar main share_asked_permille)" = 100 ]
}

@test "nobody but the extender writes where a pod is" {
        kubectl create clusterrolebinding somebody --clusterrole=edit --user=somebody > /dev/null
        pod one "$(rents main 2 10 "$idle")"
        phase one Running
        run kubectl --kubeconfig "$cluster/user.kubeconfig" annotate --overwrite pod one 'sublet.dev/allocation={"node":"n1","containers":{"main":{"device":0,"mem_bytes":17179869184}}}'
        echo "$output"
        [ "$status" -ne 0 ]
        [[ $output = *'you may not change'* ]]
        kubectl delete clusterrolebinding somebody > /dev/null
}

@test "ways round the gate are refused at the door" {
        with='.spec.containers[0].securityContext = {privileged: true}'
        refused privileged "$(rents main 2 "" "$idle")"
        [[ $said = *privileged* ]]
        with='.spec.runtimeClassName = "runc"'
        refused elsewhere "$(rents main 2 "" "$idle")"
        [[ $said = *'runtime class sublet'* ]]
        with='.spec.containers[0].securityContext = {seccompProfile: {type: "RuntimeDefault"}}'
        refused profile "$(rents main 2 "" "$idle")"
        [[ $said = *'seccomp profile'* ]]
}

@test "a container of the runtime class that was allocated nothing gets no GPU" {
        with='.spec.runtimeClassName = "sublet" | .spec.containers[0].resources = {}'
        pod guest "$(rents main 1 "" 'gpu-families meminfo; sleep 600')"
        sleep 3
        [ -z "$(word guest total_mib)" ]
        has_tenants 0
}
