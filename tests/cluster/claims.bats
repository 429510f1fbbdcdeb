#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# GPUs by ResourceClaims (DRA): the driver in the place of device plugin and extender. Only in a cluster of today.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

setup_file() {
        [ -n "${SUBLET_TODAY:-}" ] || return 0
        part_end plugin
        until_ok 30 lists_nothing
        kubectl apply -n sublet -f "$root/deploy/kubernetes-dra/access.yaml" -f "$root/deploy/kubernetes-dra/class.yaml" > /dev/null
        kubectl -n sublet create token --duration=8h dra-driver > "$cluster/dra-driver.token"
        part_start driver "$sublet" dra-driver --node "$node" --server "https://$(server)" --cdi '' --state "$cluster/claims.json" \
                --token-file "$cluster/dra-driver.token" --ca-file "$cluster/certificates/apiserver.crt"
        until_ok 60 eval '[ "$(devices | jq length)" = 2 ]'
        until_ok 60 grep -q 'registered with kubelet' "$cluster/log/driver"
}

teardown_file() {
        [ -n "${SUBLET_TODAY:-}" ] || return 0
        part_end driver
        kubectl delete -n sublet -f "$root/deploy/kubernetes-dra/access.yaml" -f "$root/deploy/kubernetes-dra/class.yaml" > /dev/null
        part_start plugin
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
}

setup() {
        [ -n "${SUBLET_TODAY:-}" ] || skip "Kubernetes 1.20 has no claims"
        with=.
}

teardown() {
        [ -n "${SUBLET_TODAY:-}" ] || return 0
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                explain
                kubectl get resourceclaims,resourceslices -o yaml | head -n 150
                tail -n 20 "$cluster/log/driver"
        }
        gone
        kubectl delete resourceclaims --all > /dev/null
}

server() { sed -n 's#.*server: "https://\([^"]*\)".*#\1#p' "$cluster/admin.kubeconfig"; }
lists_nothing() { [ "$("$sublet" ps -q | wc -l)" = 0 ]; }
devices() { kubectl get resourceslices -o json | jq -c '[.items[] | select(.spec.driver == "gpu.sublet.dev") | .spec.devices[]]'; }

# claim NAME MEMORY SHARE
claim() {
        jq -cn --arg name "$1" --arg memory "$2" --arg share "$3" '{apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata: {name: $name},
                spec: {devices: {requests: [{name: "gpu", exactly: {deviceClassName: "sublet", capacity: {requests: {memory: $memory, share: $share}}}}]}}}' |
                kubectl create -f - > /dev/null
}

# claims NAME COMMAND: a container that uses the pod's claim
claims() {
        jq -cn --arg name "$1" --arg command "$2" '{name: $name, image: "localhost/gpu:1", imagePullPolicy: "Never",
                command: ["sh", "-c", $command], resources: {claims: [{name: "gpu"}]}}'
}

# by CLAIM: the pod has that claim, in our runtime class
by() {
        with=$(printf '.spec += {runtimeClassName: "sublet", resourceClaims: [{name: "gpu", resourceClaimName: "%s"}]}' "$1")
}

idle='gpu-families meminfo; exec gpu-load -t 600 idle'

@test "the slice says what the node's devices are, and how much there is to share" {
        devices | jq -e 'length == 2 and all(.[]; .allowMultipleAllocations and .capacity.memory.value == "17179869184" and .capacity.share.value == "100" and
                (.attributes.uuid.string | startswith("GPU-")) and .attributes.driverRelease.string != "")' || { devices; return 1; }
}

@test "a pod by a claim sees its quota inside and is stopped at it, and its end returns everything" {
        claim quarter 4Gi 25
        by quarter
        pod one "$(claims main 'gpu-families alloc 32')"
        phase one Succeeded
        [ "$(word one total_mib)" = 4096 ]
        [ "$(word one last)" = CUDA_ERROR_OUT_OF_MEMORY ]
        kubectl delete pod one > /dev/null
        until_ok 60 eval '[ "$(jq -c . "$cluster/claims.json")" = "{}" ]'
}

@test "claims share a device until its memory is used up, and what fits nowhere stays pending" {
        for name in a b c d; do
                claim $name 10Gi 30
                by $name
                pod $name "$(claims main "$idle")"
        done
        until_ok 90 has_tenants 2
        "$sublet" ps --json | jq -e '[.[].devices[0].index] | unique | length == 2'
        "$sublet" ps --json | jq -e 'all(.[]; .devices[0].quota_bytes == 10737418240)'
        [ "$(kubectl get pods -o json | jq '[.items[] | select(.spec.nodeName == null)] | length')" = 2 ]
        claim small 6Gi 40
        by small
        pod small "$(claims main "$idle")"
        says small total_mib=6144
        [ "$(tenant small main share_asked_permille)" = 400 ]
}

@test "a claim for several devices at once, at which the scheduler of 1.34 ends, is refused" {
        for more in '{count: 2}' '{allocationMode: "All"}'; do
                run kubectl create -f <(jq -cn "{apiVersion: \"resource.k8s.io/v1\", kind: \"ResourceClaim\", metadata: {name: \"two\"},
                        spec: {devices: {requests: [{name: \"gpu\", exactly: ({deviceClassName: \"sublet\"} + $more)}]}}}")
                echo "$output"
                [ "$status" -ne 0 ]
                [[ $output = *'is for one device'* ]]
        done
}

@test "a claim's terms reach the tenant; one that lifts what its class bounds is not prepared" {
        kubectl apply -f <(sed '/^---/,$d' "$root/deploy/kubernetes-dra/examples/terms.yaml")
        terms() { # NAME PARAMETERS: a claim of the class of that example
                jq -cn --arg name "$1" --argjson more "$2" '{apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata: {name: $name},
                        spec: {devices: {requests: [{name: "gpu", exactly: {deviceClassName: "sublet-batch", capacity: {requests: {memory: "4Gi", share: "25"}}}}],
                        config: [{opaque: {driver: "gpu.sublet.dev", parameters: ({apiVersion: "gpu.sublet.dev/v1", kind: "Terms"} + $more)}}]}}}' |
                        kubectl create -f - > /dev/null
        }
        terms bounded '{"capabilities": ["compute", "utility"]}'
        by bounded
        pod bounded "$(claims main "$idle")"
        says bounded total_mib=4096
        "$sublet" ps --json | jq -e '.[0] | .devices[0].cap_permille == 500 and .class == "batch"' || { "$sublet" ps --json; return 1; }
        terms lifted '{"cap": 100}'
        by lifted
        pod lifted "$(claims main "$idle")"
        until_ok 60 eval 'kubectl describe pod lifted | grep -q "class and claim say it differently"'
        has_tenants 1
        kubectl delete deviceclass sublet-batch
}

# slices NODE: writes a slice of that node, as the driver whose token names node $token_of; prints what is answered
slices() {
        jq -cn --arg name "$1" '{apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice", metadata: {generateName: "forged-"},
                spec: {driver: "gpu.sublet.dev", nodeName: $name, pool: {name: $name, generation: 1, resourceSliceCount: 1}, devices: []}}' |
                curl -sk -X POST -H 'Authorization: Bearer token-admin' -H 'Content-Type: application/json' \
                        -H 'Impersonate-User: system:serviceaccount:sublet:dra-driver' -H 'Impersonate-Group: system:serviceaccounts' \
                        ${token_of:+-H "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name: $token_of"} \
                        "https://$(server)/apis/resource.k8s.io/v1/resourceslices?dryRun=All" -d @- |
                jq -r 'if .kind == "ResourceSlice" then "200" else "\(.code) \(.message)" end'
}

@test "a node's driver writes the slices of its own node only" {
        kubectl apply -f "$root/deploy/kubernetes-dra/own-node.yaml"
        token_of=$node
        until_ok 60 eval '[[ $(slices n2) = *"slices only"* ]]'
        [ "$(slices "$node")" = 200 ] || { slices "$node"; return 1; }
        token_of=''
        [[ $(slices "$node") = *'slices only'* ]]
        kubectl delete -f "$root/deploy/kubernetes-dra/own-node.yaml"
}

@test "a claim is one container's, and only in the runtime class of the gate" {
        claim twice 4Gi 0
        by twice
        pod pair "$(claims a "$idle")" "$(claims b "$idle")"
        until_ok 60 eval 'kubectl describe pod pair | grep -q "used by 2 containers"'
        claim outside 4Gi 0
        by outside
        with="$with | .spec.runtimeClassName = \"runc\""
        pod outside "$(claims main "$idle")"
        until_ok 60 eval 'kubectl describe pod outside | grep -q "runs in runtime class sublet"'
        has_tenants 0
}

@test "the driver is killed: who runs does not notice, and the next one knows what was prepared" {
        claim kept 4Gi 25
        by kept
        pod one "$(claims main 'exec gpu-load -t 600 -k 20000 sync')"
        until_ok 90 eval '[ "$(tenant one main held_bytes)" -gt 0 ]'
        part_restart driver KILL
        until_ok 60 eval '[ "$(grep -c "registered with kubelet" "$cluster/log/driver")" = 2 ]'
        grows one
        phase_is one Running
        claim next 2Gi 0
        by next
        pod two "$(claims main "$idle")"
        says two total_mib=2048
        kubectl delete pod one --grace-period=1 > /dev/null
        until_ok 60 eval '[ "$(jq length "$cluster/claims.json")" = 1 ]'
}
