# SPDX-License-Identifier: Apache-2.0
# What the tests say of pods, and ask of those who know.
# shellcheck shell=bash disable=SC2154,SC2034  # what run and bats set, what the tests read
# shellcheck source=/dev/null
. "$root/tests/cluster/parts.bash"
sublet=$build/src/sublet

# rents NAME UNITS SHARE COMMAND: a container
rents() {
        jq -cn --arg name "$1" --arg units "$2" --arg share "$3" --arg command "$4" '{name: $name, image: "localhost/gpu:1",
                imagePullPolicy: "Never", command: ["sh", "-c", $command], resources: {limits: ({"sublet.dev/gpu-mem": $units} +
                if $share == "" then {} else {"sublet.dev/gpu-share": $share} end)}}'
}

# refused NAME CONTAINER...: the pod is, and $said is why
refused() {
        ! pod "$@" || return 1
}

# pod NAME CONTAINER...: $with is a jq filter over it; what the API server said is $said
pod() {
        said=$(jq -cn --arg name "$1" '{apiVersion: "v1", kind: "Pod", metadata: {name: $name}, spec: {restartPolicy: "Never",
                terminationGracePeriodSeconds: 1, containers: $ARGS.positional}}' --jsonargs "${@:2}" | jq -c "${with:-.}" |
                kubectl create -f - 2>&1)
}

# plain NAME...: that many pods that rent nothing and run nowhere, in the namespace plain
plain() {
        local name
        for name; do
                jq -cn --arg name "$name" '{apiVersion: "v1", kind: "Pod", metadata: {name: $name, namespace: "plain"},
                        spec: {nodeSelector: {no: "where"}, containers: [{name: "main", image: "localhost/gpu:1"}]}}'
        done | kubectl create -f -
}

# phase NAME PHASE: the pod is in it, within 90 s
phase() {
        until_ok 90 phase_is "$@" || {
                kubectl describe pod "$1"
                return 1
        }
}

phase_is() { [ "$(kubectl get pod "$1" -o 'jsonpath={.status.phase}')" = "$2" ]; }

# says NAME TEXT [CONTAINER]: its log has it, within 60 s
says() {
        # shellcheck disable=SC2016  # for the inner shell
        until_ok 60 sh -c 'kubectl logs "$1" ${3:+-c "$3"} | grep -q -e "$2"' - "$@" || {
                kubectl logs "$1" --all-containers
                kubectl describe pod "$1" | tail -n 20
                return 1
        }
}

# word NAME KEY [CONTAINER]: the first KEY=... of its log
word() {
        kubectl logs "$1" ${3:+-c "$3"} | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1
}

# deployment NAME REPLICAS CONTAINER; it replaces a pod that kubelet fails (the device plugin is not back yet)
deployment() {
        jq -cn --arg name "$1" --argjson replicas "$2" --argjson container "$3" '{apiVersion: "apps/v1", kind: "Deployment",
                metadata: {name: $name}, spec: {replicas: $replicas, selector: {matchLabels: {app: $name}}, template:
                {metadata: {labels: {app: $name}}, spec: {terminationGracePeriodSeconds: 1, containers: [$container]}}}}' |
                kubectl create -f - > /dev/null
        until_ok 90 kubectl wait --for=condition=Available --timeout=1s "deployment/$1"
}

deployment_end() {
        kubectl delete deployment "$1" --cascade=background > /dev/null
        until_ok 90 no_pod_of "$1"
}

no_pod_of() {
        kubectl delete pod -l app="$1" --force --grace-period=0 --wait=false
        [ -z "$(kubectl get pods -l app="$1" -o name)$(kubectl get replicasets -l app="$1" -o name)" ]
}

# gone [NAME...]: those pods, or all; kubelet takes its time to say so, so what counts is what the daemon says
gone() {
        [ $# -gt 0 ] || set -- --all
        kubectl delete pod --force --grace-period=0 --wait=false "$@" > /dev/null 2>&1
        [ "$1" != --all ] || until_ok 90 has_tenants 0
}

# tenant POD CONTAINER FIELD: what the daemon says of it, or of its device
tenant() {
        "$sublet" ps --json | jq -r --arg pod "$1" --arg container "$2" --arg field "$3" \
                '.[] | select(.container.name == $pod and .container.container == $container) | .devices[0][$field] // .[$field]'
}

has_tenants() { [ "$("$sublet" ps -q | wc -l)" = "$1" ]; }

# grows POD: its container main gets GPU time
grows() {
        local before
        before=$(tenant "$1" main used_ns)
        until_ok 60 has_used "$1" "$before"
}

has_used() { [ "$(tenant "$1" main used_ns)" -gt "$2" ]; }

free_mib() { # DEVICE: free memory in MiB, as the driver reports it
        CUDA_VISIBLE_DEVICES=$1 on "$build/tests/gpu/gpu-families" meminfo | tr ' ' '\n' | sed -n 's/^free_mib=//p'
}

on() {
        env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" LD_LIBRARY_PATH="$machine_libraries" "$@"
}

# Kubelet, extender and daemon say the same of every container that rents here: nothing is lost, nothing doubled, and no
# device is over-full.
books_agree() {
        local kubelet extender daemon
        kubelet=$(kubectl get pods -o json | jq -c --slurpfile kept /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint '
                [.items[] | select(.status.phase == "Running") | .metadata.uid] as $live |
                [$kept[0].Data.PodDeviceEntries[] | select(.ResourceName == "sublet.dev/gpu-mem") | select(.PodUID as $u | $live | index($u)) |
                        {key: (.PodUID + "/" + .ContainerName), value: ([.DeviceIDs[]] | add | length)}] | sort_by(.key)')
        extender=$(kubectl get pods -o json | jq -c '[.items[] | select(.status.phase == "Running") | .metadata.uid as $uid |
                (.metadata.annotations["sublet.dev/allocation"] // empty | fromjson | .containers | to_entries[]) |
                {key: ($uid + "/" + .key), value: (.value.mem_bytes / 1073741824)}] | sort_by(.key)')
        daemon=$("$sublet" ps --json | jq -c '[.[] | {key: (.container.pod + "/" + .container.container),
                value: ([.devices[].quota_bytes] | add / 1073741824)}] | sort_by(.key)')
        [ "$kubelet" = "$extender" ] && [ "$extender" = "$daemon" ] && not_overfull && return 0
        printf 'kubelet  %s\nextender %s\ndaemon   %s\n' "$kubelet" "$extender" "$daemon"
        return 1
}

not_overfull() {
        curl -sf --unix-socket /run/sublet/sublet.sock http://sublet/v1/devices | jq -e 'all(.[]; .leased_bytes <= .memory_bytes)' > /dev/null
}

agree() {
        until_ok 60 books_agree || books_agree
}

# What is to be known of a test that failed.
explain() {
        local name
        kubectl get pods -o wide
        "$sublet" ps
        for name in $(kubectl get pods -o name); do
                echo "-- $name"
                kubectl logs "$name" --all-containers --tail=10
                kubectl describe "$name" | sed -n '/^Events:/,$p' | tail -n 8
        done
        tail -n 8 "$cluster/log/daemon" "$cluster/log/plugin" "$cluster/log/extender"
}
