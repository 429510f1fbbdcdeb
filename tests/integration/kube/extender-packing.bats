#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The classic deployment: 35 GPUs carry 100 containers. A scripted scheduler (tests/fakes/scheduler.py) asks filter and
# prioritize and binds, pods in mixed order, ties by lot; nodes are fake, of one device of 80 GiB each.
# With swap, of pods that may together exceed a device: nodes of 80 GiB with 180 GiB of host memory.
# Stranded is what is free in gaps that the smallest service does not fit in.
# variants: plain address, because extender.bats has its threads
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}
sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        work=$(mktemp -d /tmp/sublet-packing-XXXXXX)
        started=()
        "$build/tests/fakes/apiserver" "$work/port" 3>&- &
        started+=($!)
        until [ -s "$work/port" ]; do sleep 0.05; done
        api=http://127.0.0.1:$(cat "$work/port")
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        wait "${started[@]}" 2> /dev/null || true
        rm -rf "$work"
}

# pack POLICY SEED COUNT:SIZE...: what the scheduler says is in $output
pack() {
        local policy=$1 seed=$2 nodes
        shift 2
        nodes=$(for i in $(seq 0 34); do
                printf ',{"kind":"Node","metadata":{"name":"n%d"},"status":{"allocatable":{"sublet.dev/gpu-mem":"80","sublet.dev/gpu-count":"1"}}}' "$i"
        done)
        curl -sS "$api/fake/objects" -d "[${nodes:1}]" > /dev/null
        "$root/tests/fakes/scheduler.py" --pods "$@" | curl -sS "$api/fake/objects" -d @- > /dev/null
        "$sublet" extender --listen "unix:$work/x" --server "$api" --policy "$policy" 3>&- 2> "$work/log" &
        started+=($!)
        until curl -fs -o /dev/null --unix-socket "$work/x" http://x/readyz; do sleep 0.1; done
        run "$root/tests/fakes/scheduler.py" "$work/x" 35 80 "$seed" "$@"
        echo "$output"
        [ "$status" -eq 0 ]
}

says() { jq -e "$1" <<< "$output" > /dev/null || { echo "not so: $1"; return 1; }; }

@test "55 quarters, 25 thirds and 20 halves are all served, with what is usually asked for in mind 5 % is stranded at most" {
        pack fragment 1 55:20 25:26 20:40
        says '.bound == 100 and .stranded_permille <= 50'
}

@test "60 quarters, 25 thirds and 15 halves are served by binpack, too" {
        pack binpack 1 60:20 25:26 15:40
        says '.bound == 100'
}

@test "60 fifths, 30 services of 30 % and 10 halves: a fifth of the devices stays whole, and 5 % is stranded at most" {
        pack binpack 2 60:16 30:24 10:40
        says '.bound == 100 and .stranded_permille <= 50 and .whole >= 7'
}

@test "one that fits nowhere is refused with the reason of each node" {
        pack binpack 3 36:60
        says '.bound == 35'
        says '.refused == ["60 GiB of GPU memory asked for on one device, the most free is 20 GiB (device 0)"]'
}

# ---- with swap

gib=$((1 << 30))
node() { # NAME HOST-GIB
        jq -nc --arg name "$1" --arg devices "[{\"index\":0,\"mem_bytes\":$((80 * gib)),\"swap_bytes\":$(($2 * gib))}]" \
                '{kind: "Node", metadata: {name: $name, annotations: {"sublet.dev/devices": $devices}}}'
}
pod() { # NAME GIB [SWAP]
        jq -nc --arg name "$1" --arg gib "$2" --arg swap "${3:-false}" '{kind: "Pod",
                metadata: {name: $name, namespace: "default", uid: "uid-\($name)", annotations: {"sublet.dev/swap": $swap}},
                spec: {containers: [{name: "main", resources: {limits: {"sublet.dev/gpu-mem": $gib}}}]}}'
}
put() { jq -sc . <<< "$*" | curl -sSf "$api/fake/objects" -d @- > /dev/null; }
ask() { curl -sS --max-time 10 --unix-socket "$work/x" "http://x$1" -d "$2"; }
bind() { # NAME NODE: what the extender says; "": bound
        ask /bind "{\"PodName\":\"$1\",\"PodNamespace\":\"default\",\"PodUID\":\"uid-$1\",\"Node\":\"$2\"}" | jq -r .Error
}
why_not() { ask /filter "{\"Pod\":$1,\"NodeNames\":[\"$2\"]}" | jq -r "if .NodeNames == [\"$2\"] then \"\" else .FailedNodes.$2 end"; }
extender() {
        "$sublet" extender --listen "unix:$work/x" --server "$api" 3>&- 2>> "$work/log" &
        started+=($!)
        until curl -fs -o /dev/null --unix-socket "$work/x" http://x/readyz; do sleep 0.1; done
}
rented() { curl -sS --unix-socket "$work/x" http://x/inspect | jq -c '[.nodes[] | .usedGPU] | sort'; }

@test "pods with swap exceed a device as far as device and host hold them together while they change places" {
        put "$(node n1 180)" "$(node none 0)" "$(pod a 60 true)" "$(pod b 60 true)" "$(pod c 60 true)" "$(pod d 1 true)" "$(pod e 1)" "$(pod f 20)"
        extender
        [ "$(why_not "$(pod a 60 true)" none)" = "it has no host memory for a pod with sublet.dev/swap ('sublet daemon --swap')" ]
        for name in a b c; do
                [ -z "$(why_not "$(pod "$name" 60 true)" n1)" ]
                [ -z "$(bind "$name" n1)" ]
        done
        [ "$(rented)" = '[0,180]' ]
        curl -sS "$api/api/v1/namespaces/default/pods/a" |
                jq -e '.metadata.annotations["sublet.dev/allocation"] | fromjson | .containers.main | .swap and .device == 0'
        [ "$(why_not "$(pod d 1 true)" n1)" = "1 GiB of GPU memory with sublet.dev/swap beside that of others: its 180 GiB of host memory for those do not hold what their exchange would need" ]
        [[ $(bind d n1) == *"do not hold what their exchange would need" ]]
        # nobody leaves for one without
        [ "$(why_not "$(pod e 1)" n1)" = "1 GiB of GPU memory asked for on one device, the most free is 0 B (device 0)" ]
        # what is written down is what another extender counts
        kill "${started[1]}" && wait "${started[1]}" || true
        rm -f "$work/x"
        extender
        [ "$(rented)" = '[0,180]' ]
        [ "$(why_not "$(pod e 1)" n1)" = "1 GiB of GPU memory asked for on one device, the most free is 0 B (device 0)" ]
}

@test "a pod with swap fits beside those without, and is first put where nobody has to take turns" {
        put "$(node n1 500)" "$(node n2 500)" "$(pod firm 30)" "$(pod a 40 true)" "$(pod b 40 true)" "$(pod c 51 true)"
        extender
        [ -z "$(bind firm n1)" ] && [ -z "$(bind a n1)" ]
        ask /prioritize "{\"Pod\":$(pod b 40 true),\"NodeNames\":[\"n1\",\"n2\"]}" | jq -e 'map(.Score) == [0, 5]'
        [ "$(why_not "$(pod c 51 true)" n1)" = "51 GiB of GPU memory asked for on one device, the most free is 50 GiB (device 0), beside pods without sublet.dev/swap" ]
        [ -z "$(bind b n1)" ] # where the scheduler has its reasons
        [ "$(why_not "$(pod c 51 true)" n2)" = "" ]
}
