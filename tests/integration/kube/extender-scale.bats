#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The extender with 5,000 nodes of 8 GPUs and 20,000 pods, asked by a scripted scheduler (bench/extender-load). What
# its own process computes is bounded tightly, time on the wall only as far as a busy machine lets it; bench/extender
# measures.
# variants: plain, because it measures the program as it is shipped
# alone: because it measures time on the wall
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}

setup() {
        work=$(mktemp -d /tmp/sublet-scale-XXXXXX)
        started=()
        "$build/tests/fakes/apiserver" "$work/port" 3>&- &
        started+=($!)
        until [ -s "$work/port" ]; do sleep 0.05; done
        api=http://127.0.0.1:$(cat "$work/port")
        "$build/src/sublet" extender --listen "unix:$work/x" --server "$api" 3>&- 2> "$work/log" &
        extender=$!
        started+=("$extender")
        until [ -S "$work/x" ]; do sleep 0.05; done
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        wait "${started[@]}" 2> /dev/null || true
        rm -rf "$work"
}

# load NODES GPUS UNITS ROUNDS BINDS PODS: what was measured is in $output
load() {
        run "$build/bench/extender-load" "$api" "$work/x" "$extender" "$@"
        [ "$status" -eq 0 ]
        echo "$output"
}

says() { jq -e "$1" <<< "$output" > /dev/null || { echo "not so: $1"; return 1; }; }

@test "5,000 nodes of 8 GPUs: filter and prioritize are answered in time, 500 pods a second are bound, in 300 MB" {
        load 5000 8 80 100 2000 20000
        says '.ask_cpu_ms < 25'   # of the extender's process, for both; measured: 8 to 11, beside compilers 16
        says '.ask_p50_ms < 50'   # measured: 12 with three processes for each core
        says '.binds_failed == 0 and .binds_per_s >= 500'
        [ "$(curl -s --unix-socket "$work/x" http://x/metrics | sed -n 's/^sublet_extender_pods //p')" -eq 20000 ]
        [ "$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$extender/status")" -lt 300000 ]
}

@test "a cluster that is filled until the first pod fits nowhere strands at most 5 % of its memory" {
        load 40 8 80 0 0 3000
        says '.packed > 1000 and .stranded_permille <= 50'
}

@test "a scheduler that sends 5,000 whole nodes is answered; what would never fit is refused with the way out" {
        /usr/bin/python3 - > "$work/whole" << 'PYTHON'
import json
image = {"names": ["registry.example/some/longer/name@sha256:" + "0" * 64, "registry.example/some/longer/name:v1.2.3"], "sizeBytes": 123456789}
node = {"metadata": {"labels": {f"example.com/label-{i}": "value" for i in range(30)}}, "status": {
        "allocatable": {"sublet.dev/gpu-mem": "640", "sublet.dev/gpu-count": "8"}, "images": [image] * 40,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}] * 5}}
def named(i):
    return dict(node, metadata=dict(node["metadata"], name=f"node-{i}"))
pod = {"metadata": {"name": "p", "namespace": "x", "uid": "u"}, "spec": {"containers": [
        {"name": "main", "resources": {"limits": {"sublet.dev/gpu-mem": "8"}}}]}}
print(json.dumps({"Pod": pod, "Nodes": {"items": [named(i) for i in range(5000)]}}))
PYTHON
        run curl -sS --max-time 60 --unix-socket "$work/x" http://x/filter --data-binary "@$work/whole" -o "$work/answer" -w '%{http_code} %{size_upload}'
        echo "$output, $(sed -n 's/^VmHWM:[[:space:]]*//p' "/proc/$extender/status")"
        [[ $output == "200 "* && ${output#* } -gt $((30 << 20)) ]]
        [ "$(jq '.FailedNodes | length' "$work/answer")" -eq 5000 ] # no such node is in the cluster
        [ "$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$extender/status")" -lt $((700 * 1024)) ]
        /usr/bin/python3 -c 'print("[" + "[]," * (8 << 20) + "0]", end="")' > "$work/many"
        run curl -sS --max-time 60 --unix-socket "$work/x" http://x/filter --data-binary "@$work/many"
        [[ $output == *nodeCacheCapable* ]]
}
