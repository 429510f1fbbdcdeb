#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pods of one job are bound all or none (src/kube/extender/jobs/jobs.h), between a scheduler (curl) and an API server
# (tests/fakes/apiserver).
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}
sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        dir=$(mktemp -d /tmp/sublet-jobs-XXXXXX)
        started=()
        "$build/tests/fakes/apiserver" "$dir/port" 3>&- &
        started+=($!)
        within [ -s "$dir/port" ]
        api=http://127.0.0.1:$(cat "$dir/port")
        put "$(node n1 20 2)" "$(node n2 20 2)"
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        wait "${started[@]}" 2> /dev/null || true
        rm -rf "$dir"
}

within() { # COMMAND...: at most 60 s, which end a failing test and are no measurement
        local since=$SECONDS
        until "$@" > /dev/null 2>&1; do
                [ $((SECONDS - since)) -lt 60 ] || return 1
                sleep 0.05
        done
}

api() { curl -sS --max-time 10 "$api$1" "${@:2}"; }

extender() {
        "$sublet" extender --listen "unix:$dir/x" --server "$api" 3>&- 2>> "$dir/x.log" &
        extender=$!
        started+=("$extender")
        within ask /readyz -f
}

ask() { curl -sS --max-time 10 --unix-socket "$dir/x" "http://extender$1" "${@:2}"; }

node() { # NAME UNITS DEVICES
        printf '{"kind":"Node","metadata":{"name":"%s"},"status":{"allocatable":{"sublet.dev/gpu-mem":"%s","sublet.dev/gpu-count":"%s"}}}' "$@"
}

# pod NAME [JOB PODS]: a pod that takes a device
pod() {
        local notes=
        [ -z "${2:-}" ] || notes=",\"annotations\":{\"sublet.dev/job\":\"$2\",\"sublet.dev/job-pods\":\"$3\"},\"creationTimestamp\":\"2026-11-25T10:00:0${4:-0}Z\""
        printf '{"kind":"Pod","metadata":{"name":"%s","namespace":"shop","uid":"uid-%s"%s},"spec":{"containers":[{"name":"main","resources":{"limits":{"sublet.dev/gpu-mem":"10"}}}]}}' \
                "$1" "$1" "$notes"
}

put() { # OBJECT...
        local IFS=,
        api /fake/objects -d "[$*]" > /dev/null
}

gone() { api "/api/v1/namespaces/shop/pods/$1" -X DELETE > /dev/null; }

# knows N: so many pods that rent
knows() { [ "$(ask /metrics | sed -n 's/^sublet_extender_pods //p')" = "$1" ]; }

# filter POD: the answer
filter() { ask /filter -d "{\"Pod\":$1,\"NodeNames\":[\"n1\",\"n2\"]}"; }

# place POD: the node that passes, or nothing
place() { filter "$1" | jq -r '.NodeNames[0] // empty'; }

# bind NAME NODE: true if it is bound there
bind() {
        [ "$(ask /bind -d "{\"PodName\":\"$1\",\"PodNamespace\":\"shop\",\"PodUID\":\"uid-$1\",\"Node\":\"$2\"}")" = '{"Error":""}' ]
}

# schedule POD-OBJECT: as the scheduler does
schedule() {
        local name node
        name=$(jq -r .metadata.name <<< "$1")
        node=$(place "$1")
        [ -n "$node" ] && bind "$name" "$node"
}

bound() { api /api/v1/pods | jq -c '[.items[] | select(.spec.nodeName) | .metadata.name] | sort'; }

asked() { [ "$(api "/api/v1/namespaces/shop/pods/$1" | jq -r '.metadata.annotations["sublet.dev/job-asked"] // empty')" ]; }

@test "none of a job's pods has a place before all are there; then they are asked for again, and all have one" {
        put "$(pod t0 train 4)" "$(pod t1 train 4)" "$(pod t2 train 4)" "$(pod single)"
        extender
        run filter "$(pod t0 train 4)"
        [[ $(jq -r '.FailedNodes.n1' <<< "$output") == "its job 'train' has 3 of 4 pods: none of them starts before all are there" ]]
        [ "$(jq -c '.FailedAndUnresolvableNodes | keys' <<< "$output")" = '["n1","n2"]' ]
        run bind t0 n1 # by a call of its own
        [ "$status" -ne 0 ]
        [ -n "$(place "$(pod single)")" ]
        run ! asked t0
        put "$(pod t3 train 4)"
        for name in t0 t1 t2 t3; do within asked "$name"; done
        [ -n "$(place "$(pod t2 train 4)")" ]
        run filter "$(pod single)" # what is reserved nobody else gets
        [ "$(jq -c .NodeNames <<< "$output")" = '[]' ]
        for name in t0 t1 t2 t3; do schedule "$(pod "$name" train 4)"; done
        [ "$(bound)" = '["t0","t1","t2","t3"]' ]
        [ "$(ask /inspect | jq -c '[.nodes[].devs[].usedGPU]')" = '[10,10,10,10]' ]
}

@test "an extender that is killed between the second and the third of four goes on, and lets nobody between" {
        for i in 0 1 2 3; do put "$(pod "t$i" train 4)"; done
        put "$(pod single)"
        extender
        schedule "$(pod t0 train 4)"
        schedule "$(pod t1 train 4)"
        node=$(place "$(pod t2 train 4)")
        kill -KILL "$extender"
        wait "$extender" || true
        extender
        [ -z "$(place "$(pod single)")" ]
        bind t2 "$node" # which the one before had answered
        schedule "$(pod t3 train 4)"
        [ "$(bound)" = '["t0","t1","t2","t3"]' ]
}

@test "a pod that is deleted while places are reserved gives all of them back" {
        for i in 0 1 2 3; do put "$(pod "t$i" train 4)"; done
        put "$(pod single)"
        extender
        [ -n "$(place "$(pod t0 train 4)")" ]
        [ -z "$(place "$(pod single)")" ]
        gone t3
        within knows 4
        schedule "$(pod single)"
        run filter "$(pod t0 train 4)"
        [[ $(jq -r '.FailedNodes.n1' <<< "$output") == "its job 'train' has 3 of 4 pods"* ]]
        put "$(pod t3 train 4)" # now one device is taken
        within knows 5
        run filter "$(pod t0 train 4)"
        [[ $(jq -r '.FailedNodes.n2' <<< "$output") == "the 4 pods of its job 'train' do not fit at once"* ]]
        [ "$(bound)" = '["single"]' ]
}

@test "two jobs that need all there is, asked for at once: one is bound whole, and then the other" {
        for i in 0 1 2 3; do put "$(pod "a$i" first 4 1)" "$(pod "b$i" second 4 2)"; done
        extender
        touch "$dir/go"
        for i in 0 1 2 3; do
                (while [ -e "$dir/go" ] && ! schedule "$(pod "b$i" second 4 2)"; do sleep 0.05; done) 3>&- &
                (while [ -e "$dir/go" ] && ! schedule "$(pod "a$i" first 4 1)"; do sleep 0.05; done) 3>&- &
        done
        four() { [ "$(bound | jq length)" -eq 4 ]; }
        within four
        sleep 1
        [ "$(bound)" = '["a0","a1","a2","a3"]' ]
        for i in 0 1 2 3; do gone "a$i"; done
        within eval '[ "$(bound)" = "[\"b0\",\"b1\",\"b2\",\"b3\"]" ]'
        rm "$dir/go"
}

@test "what an annotation may say is checked, and said" {
        put "$(pod t0 'no/name' 2)" "$(pod t1 train 0)"
        extender
        run filter "$(pod t0 'no/name' 2)"
        [[ $(jq -r '.FailedNodes.n1' <<< "$output") == "sublet.dev/job-pods needs sublet.dev/job, a name of letters"* ]]
        run filter "$(pod t1 train 0)"
        [[ $(jq -r '.FailedNodes.n1' <<< "$output") == *"sublet.dev/job-pods is not a number of pods from 1 to 256"* ]]
}
