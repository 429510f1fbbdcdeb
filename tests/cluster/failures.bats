#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong (docs/kubernetes.md), a row a test: what runs goes on, what cannot be is said, and all is well
# afterwards.
# shellcheck disable=SC2034,SC2154  # $with and $said are of pod, in pods.bash
bats_require_minimum_version 1.5.0
load pods

idle='exec gpu-load -t 900 idle'
deep='exec gpu-load -t 900 -k 20000 sync'

setup() {
        with=.
        if ! phase_is one Running 2> /dev/null; then
                pod one "$(rents main 6 30 "$deep")"
                phase one Running
                until_ok 60 has_tenants 1
        fi
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
}

teardown_file() {
        gone
        kubectl delete namespace plain --ignore-not-found --wait=false
}

offers() { [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.sublet\.dev/gpu-mem}')" = "$1" ]; }
reason() { # POD: why its container does not run
        kubectl get pod "$1" -o json | jq -r '[.status.message, .status.reason, (.status.containerStatuses[]?.state | .waiting, .terminated | .message?, .reason?)] |
                map(select(. != null)) | join("; ")'
        kubectl get events -o json | jq -r --arg pod "$1" '.items[] | select(.involvedObject.name == $pod and .type == "Warning") | .message'
}

# runs NAME: a new pod does, and what ran before still does
runs() {
        pod "$1" "$(rents main 2 10 "$idle")"
        phase "$1" Running
        phase_is one Running
        grows one
        agree
        gone "$1"
        until_ok 60 has_tenants 1
}

@test "what could never start is refused when it is created" {
        refused none "$(rents main 0 "" "$idle")"
        echo "$said"
        [[ $said = *'0 of GPU memory'* ]]
        with='.spec.containers[0].resources.limits = {"sublet.dev/gpu-count": "1"}'
        refused count "$(rents main 1 "" "$idle")"
        echo "$said"
        [[ $said = *gpu-count* ]]
}

@test "no webhook answers: pods that rent nothing are created as ever, a hundred of a hundred; those that rent are not" {
        kubectl create namespace plain
        until_ok 30 kubectl -n plain get serviceaccount default
        part_end webhook
        [ "$(plain $(seq -f p%g 100) | grep -c created)" = 100 ]
        refused late "$(rents main 2 10 "$idle")"
        [[ $said = *webhook* ]]
        grows one
        part_start webhook
        until_ok 30 curl -skf https://127.0.0.1:8443/healthz
        kubectl delete namespace plain --wait=false
        runs after
}

@test "the daemon is away: nothing new starts, with the reason; after 15 s the node offers nothing; then all as before" {
        part_end daemon
        pod early "$(rents main 2 10 "$idle")"
        until_ok 60 eval '[ -n "$(reason early)" ]'
        run ! phase_is early Running
        until_ok 60 offers 0
        phase_is one Running
        part_start daemon
        until_ok 60 offers 32
        until_ok 60 has_tenants 1
        gone early
        runs after
}

@test "the device plugin is away: what runs does not notice; what comes next is failed, then the node offers nothing; then all as before" {
        part_end plugin
        grows one
        pod early "$(rents main 2 10 "$idle")"
        until_ok 60 offers 0
        until_ok 60 eval '[[ $(reason early) = *UnexpectedAdmissionError* || $(reason early) = *nsufficient* ]]' || { reason early; return 1; }
        pod late "$(rents main 2 10 "$idle")"
        until_ok 60 eval '[[ $(reason late) = *nsufficient*sublet.dev/gpu-mem* ]]' || { reason late; return 1; }
        phase_is late Pending
        grows one
        part_start plugin
        until_ok 90 offers 32
        gone early late
        runs after
}

is_bound() { [ -n "$(kubectl get pod "$1" -o 'jsonpath={.spec.nodeName}')" ]; }

# Kubernetes' scheduler of 1.34 comes back up to a minute later, so the measure is a pod that rents nothing.
@test "the API server is away for half a minute: what runs goes on, and pods that rent are bound when others are, soon after its return" {
        local since bound
        before=$(tenant one main used_ns)
        part_end apiserver
        sleep 15
        until_ok 30 has_used one "$before"
        sleep 15
        part_start apiserver
        until_ok 60 kubectl get --raw /readyz
        since=$SECONDS
        until_ok 30 curl -skf https://127.0.0.1:12345/readyz # 3 s of its own: extender.bats in tests/integration/kube
        echo "# the extender was ready $((SECONDS - since)) s after the API server" >&3
        until_ok 30 eval 'pod after "$(rents main 2 10 "$idle")"'
        until_ok 30 kubectl run other --image=localhost/gpu:1 --image-pull-policy=Never --command -- sleep 600
        until_ok 120 is_bound other
        bound=$SECONDS
        until_ok 10 is_bound after
        echo "# bound $((bound - since)) s after its return: a pod that rents nothing; $((SECONDS - bound)) s later: one that rents" >&3
        kubectl delete pod other --force --grace-period=0 > /dev/null
        gone after
        until_ok 90 has_tenants 1
        runs later
}

said_of() { kubectl get events -o json | jq -r --arg pod "$1" --arg reason "$2" '.items[] | select(.involvedObject.name == $pod and .reason == $reason) | .message'; }

@test "a running pod's annotations: less is done at once, more than it was given is not, with an event" {
        kubectl annotate --overwrite pod one sublet.dev/mem=4G sublet.dev/share=20 > /dev/null
        until_ok 60 eval '[ "$(tenant one main quota_bytes)" = 4294967296 ]'
        [ "$(tenant one main share_asked_permille)" = 200 ]
        kubectl annotate --overwrite pod one sublet.dev/mem=7G > /dev/null
        until_ok 60 eval '[[ $(said_of one NotResized) = *"6 GiB are allocated to it"* ]]'
        [ "$(tenant one main quota_bytes)" = 4294967296 ]
        kubectl annotate --overwrite pod one sublet.dev/mem=6G sublet.dev/share=30 > /dev/null
        until_ok 60 eval '[ "$(tenant one main quota_bytes)" = 6442450944 ]'
        grows one
        agree
}
