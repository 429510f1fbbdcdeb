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
        with='.spec.hostPID = true'
        refused numbers "$(rents main 2 "" "$idle")"
        [[ $said = *'may not have hostPID'* ]]
        with='.spec.volumes = [{name: "v", hostPath: {path: "/var/run/sublet"}}]'
        refused sockets "$(rents main 2 "" "$idle")"
        [[ $said = *'/var/run/sublet, where Sublet, kubelet or the runtime'* ]]
}

@test "a container of the runtime class that was allocated nothing gets no GPU" {
        with='.spec.runtimeClassName = "sublet" | .spec.containers[0].resources = {}'
        pod guest "$(rents main 1 "" 'gpu-families meminfo; sleep 600')"
        sleep 3
        [ -z "$(word guest total_mib)" ]
        has_tenants 0
}

@test "the extender answers nobody without the scheduler's certificate" {
        [ "$(curl -sk -o /dev/null -w '%{http_code}' -d '{}' https://127.0.0.1:12345/bind)" = 403 ]
        [ "$(curl -sk -o /dev/null -w '%{http_code}' https://127.0.0.1:12345/inspect)" = 403 ]
        [ "$(curl -s --cacert "$cluster/extender-certificate/callers.crt" --cert "$cluster/scheduler-certificate/tls.crt" --key "$cluster/scheduler-certificate/tls.key" \
                --resolve extender.sublet.svc:12345:127.0.0.1 -o /dev/null -w '%{http_code}' https://extender.sublet.svc:12345/inspect)" = 200 ]
}

# patches NODE PATCH: as the device plugin whose token names node $token_of; prints the status and the message
patches() {
        curl -sk -X PATCH -H 'Authorization: Bearer token-admin' -H 'Content-Type: application/merge-patch+json' \
                -H 'Impersonate-User: system:serviceaccount:sublet:device-plugin' -H 'Impersonate-Group: system:serviceaccounts' \
                ${token_of:+-H "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name: $token_of"} \
                "https://$address/api/v1/nodes/$1" -d "$2" | jq -r 'if .kind == "Node" then "200" else "\(.code) \(.message)" end'
}

@test "a node's device plugin writes one annotation of its own node, and nothing else anywhere" {
        [ -n "${SUBLET_TODAY:-}" ] || skip "Kubernetes 1.20 has no admission policies"
        kubectl apply -k "$root/deploy/kubernetes/guard"
        printf '{apiVersion: v1, kind: Node, metadata: {name: n2}}\n' | kubectl apply -f -
        devices=$(kubectl get node "$node" -o json | jq -c '{metadata: {annotations: {"sublet.dev/devices": .metadata.annotations["sublet.dev/devices"]}}}')
        token_of=$node
        until_ok 60 eval '[[ $(patches n2 "$devices") = *"writes that node only"* ]]'
        [ "$(patches "$node" "$devices")" = 200 ]
        for patch in '{"spec":{"unschedulable":true}}' '{"metadata":{"labels":{"a":"b"}}}' '{"metadata":{"annotations":{"a":"b"}}}'; do
                said=$(patches "$node" "$patch")
                [[ $said = *'and nothing else'* ]] || { echo "$patch: $said"; return 1; }
        done
        token_of=''
        [[ $(patches "$node" "$devices") = *'writes that node only'* ]]
        kubectl annotate --overwrite node "$node" somebody=else # everybody else as ever
        kubectl delete -k "$root/deploy/kubernetes/guard"
        kubectl delete node n2
}
