#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kinds of pods and of containers that the world writes, beside the ordinary one: whoever gets no GPU is told so, and
# what kubelet, scheduler and daemon have in their books stays the same.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

idle='gpu-families meminfo; exec gpu-load -t 600 idle'
deep='exec gpu-load -t 600 -k 20000 sync'

setup() {
        with=.
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
        rm -f "$cluster"/static/*
        gone
}

now() { [ -n "${SUBLET_TODAY:-}" ]; }

# all_is_free: nothing is booked anywhere: both GPUs can be rented whole
all_is_free() {
        local name
        gone
        until_ok 60 eval '[ -z "$(kubectl get pods -o name)" ]'
        for name in whole other; do
                pod $name "$(rents main 16 50 "$idle")" || { echo "$said"; return 1; }
        done
        phase whole Running
        phase other Running
        agree
}

# beside LIST CONTAINER: pods get that as well
beside() { with=$(printf '.spec.%s = [%s]' "$1" "$2"); }

# plain NAME COMMAND [IMAGE]: a container that rents nothing. An image of CUDA says that all devices are wanted.
plain() {
        jq -cn --arg name "$1" --arg command "$2" --arg image "${3:-localhost/cuda:1}" '{name: $name, image: $image, imagePullPolicy: "Never", command: ["sh", "-c", $command]}'
}

booked() { kubectl describe node "$node" | sed -n 's/^ *sublet.dev\/gpu-mem  *\([0-9]*\).*/\1/p' | tail -n 1; }

@test "a static pod that rents is not started, with the reason, and counts as long as it is there" {
        jq -cn --argjson main "$(rents main 4 "" "$idle")" '{apiVersion: "v1", kind: "Pod", metadata: {name: "static", namespace: "default"},
                spec: {runtimeClassName: "sublet", terminationGracePeriodSeconds: 1, containers: [$main]}}' > "$cluster/static.json"
        mv "$cluster/static.json" "$cluster/static/"
        until_ok 60 kubectl get pod "static-$node"
        until_ok 90 eval 'kubectl describe pod "static-$node" | grep -q "no lease for default/static-$node/main"'
        has_tenants 0
        [ "$(booked)" = 4 ]
        # the extender counts it on each GPU, for it cannot know on which it is
        pod large "$(rents main 13 "" "$idle")"
        until_ok 60 eval 'kubectl describe pod large | grep -q "the most free is 12 GiB"'
        pod first "$(rents main 12 "" "$idle")"
        pod second "$(rents main 12 "" "$idle")"
        phase first Running
        phase second Running
        has_tenants 2
        rm "$cluster/static/static.json"
        until_ok 60 eval '! kubectl get pod "static-$node"'
        all_is_free
}

@test "an init container that rents is refused, also one that goes on beside the others" {
        beside initContainers "$(rents first 4 "" true)"
        refused one "$(rents main 4 "" "$idle")"
        [[ $said = *'init container asks for GPU memory'* ]] || { echo "$said"; return 1; }
        now || return 0
        beside initContainers "$(rents aside 4 "" "$idle" | jq -c '.restartPolicy = "Always"')"
        refused one "$(rents main 4 "" "$idle")"
        [[ $said = *'init container asks for GPU memory'* ]] || { echo "$said"; return 1; }
}

@test "an init container of a pod that rents has no GPU, and starts at once" {
        local since=$SECONDS
        beside initContainers "$(plain first 'gpu-families meminfo; true')"
        pod one "$(rents main 4 "" "$idle")"
        says one total_mib=4096 main
        echo "# with an init container it ran after $((SECONDS - since)) s" >&3
        says one CUDA_ERROR_NO_DEVICE first
        has_tenants 1
        agree
}

@test "a native sidecar of a pod that rents has no GPU, and may end and be started again" {
        now || skip "Kubernetes 1.20 has none"
        beside initContainers "$(plain aside 'gpu-families meminfo; exec sleep 5' | jq -c '.restartPolicy = "Always"')"
        pod one "$(rents main 4 "" "$deep")"
        phase one Running
        until_ok 60 eval '[ "$(kubectl get pod one -o "jsonpath={.status.initContainerStatuses[0].restartCount}")" -ge 2 ]'
        says one CUDA_ERROR_NO_DEVICE aside
        has_tenants 1
        grows one
        agree
        all_is_free
}

@test "kubectl debug: its container is in the pod, without a GPU, and the tenant does not notice" {
        now || skip "Kubernetes 1.20 has no ephemeral containers"
        pod one "$(rents main 4 "" "$deep")"
        phase one Running
        kubectl debug one --image=localhost/gpu:1 --image-pull-policy=Never -c look --target=main -- sh -c 'ps; gpu-families meminfo; exec sleep 600'
        says one gpu-load look # it sees the other's processes
        says one CUDA_ERROR_NO_DEVICE look
        # an image of CUDA says that all devices are wanted
        kubectl debug one --image=localhost/cuda:1 --image-pull-policy=Never -c images -- sh -c 'gpu-families meminfo; exec sleep 600'
        says one CUDA_ERROR_NO_DEVICE images
        run -1 kubectl debug one --image=localhost/gpu:1 --image-pull-policy=Never -c root --profile=sysadmin -- sh
        [[ $output = *'container root is privileged'* ]]
        has_tenants 1
        grows one
        [ "$(kubectl get pod one -o 'jsonpath={.status.containerStatuses[0].restartCount}')" = 0 ]
        agree
}

# kubelet_with FILTER: with its configuration through sed
kubelet_with() {
        part_end kubelet
        sed "$1" "$cluster/kubelet.was" > "$cluster/kubelet.yaml"
        part_start kubelet
        until_ok 60 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
}

# Kubelet of 1.34 ends at a resize where pods have no control groups of their own, so here they have, in a root of ours.
pods_have_groups() {
        local at
        groups=$(basename "$cluster")
        for at in /sys/fs/cgroup /sys/fs/cgroup/*; do [ ! -e "$at/cgroup.procs" ] || mkdir -p "$at/$groups"; done
        cp "$cluster/kubelet.yaml" "$cluster/kubelet.was"
        kubelet_with "s#^cgroupsPerQOS: false#cgroupsPerQOS: true\ncgroupRoot: /$groups#"
}

pods_have_none() {
        gone
        until_ok 60 eval '[ -z "$(kubectl get pods -o name)" ]'
        kubelet_with ''
        find /sys/fs/cgroup -depth -type d -path "*/$groups*" -exec rmdir {} + 2> /dev/null || true
}

@test "CPU and memory of a running pod are changed in place, and its lease stays as it is" {
        local shim
        now || skip "Kubernetes 1.20 cannot"
        pods_have_groups
        with='.spec.containers[0].resources.limits += {cpu: "400m", memory: "1Gi"}'
        pod one "$(rents main 4 30 "$deep")"
        phase one Running
        until_ok 60 has_tenants 1
        shim=$(tenant one main keeper)
        kubectl patch pod one --subresource resize -p '{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "600m", "memory": "2Gi"},
                "limits": {"cpu": "600m", "memory": "2Gi"}}}]}}'
        until_ok 60 eval 'kubectl get pod one -o json | jq -e ".status.containerStatuses[0].resources.limits | .cpu == \"600m\" and .memory == \"2Gi\""' || {
                kubectl get pod one -o yaml
                pods_have_none
                return 1
        }
        run -1 kubectl patch pod one --subresource resize -p '{"spec": {"containers": [{"name": "main", "resources": {"requests": {"sublet.dev/gpu-mem": "8"},
                "limits": {"sublet.dev/gpu-mem": "8"}}}]}}'
        [ "$(tenant one main keeper)" = "$shim" ]
        [ "$(tenant one main quota_bytes)" = 4294967296 ]
        [ "$(kubectl get pod one -o 'jsonpath={.status.containerStatuses[0].restartCount}')" = 0 ]
        grows one
        agree
        pods_have_none
}

@test "a pod in a user namespace of its own runs with its quota, or is not started, with the reason, and gives back its place" {
        now || skip "Kubernetes 1.20 has none"
        with='.spec.hostUsers = false'
        pod one "$(rents main 4 30 "cat /proc/self/uid_map; $idle")" || { echo "$said"; return 1; }
        until_ok 60 eval 'phase_is one Running || kubectl describe pod one | grep -q "does not support user namespaces"'
        if phase_is one Running; then
                says one total_mib=4096
                ! kubectl logs one | grep -q '^ *0 *0 *4294967295' || return 1
                agree
        else
                echo "# runc $(runc --version | head -n 1 | grep -o '[0-9.]*' | head -n 1) has no user namespaces for pods" >&3
                has_tenants 0
        fi
        with=.
        all_is_free
}
