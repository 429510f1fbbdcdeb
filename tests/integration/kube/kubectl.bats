#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# kubectl sublet, with a kubectl that says what it is told to.
# variants: plain address, because there are no threads in the verb
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        ln -s "${SUBLET_BUILD:-$build}/src/sublet" kubectl-sublet
        cat > kubectl << 'END'
#!/bin/sh
echo "$@" >> asked
case "$1 $2" in
'get --raw') exec cat "raw$(echo "$3" | tr / _).json" ;;
exec*) exec cat "exec-$4.json" ;;
esac
cat "$2.json"
END
        chmod +x kubectl
        export PATH=$PWD:$PATH
        echo '{"items":[{"metadata":{"name":"n1"},"status":{"allocatable":{"sublet.dev/gpu-mem":"160","sublet.dev/gpu-count":"2"}}},{"metadata":{"name":"cpu"}}]}' > nodes.json
        jq -nc --argjson chat '{"metadata":{"name":"chat","namespace":"a","uid":"1","annotations":{"sublet.dev/allocation":"{\"containers\":{\"main\":{\"device\":1}}}"}},"spec":{"nodeName":"n1","containers":[{"name":"main","resources":{"limits":{"sublet.dev/gpu-mem":"48","sublet.dev/gpu-share":"60"}}}]}}' \
                '{items: [$chat,
                  {metadata: {name: "daemon-x", namespace: "sublet", labels: {"app.kubernetes.io/component": "daemon"}}, spec: {nodeName: "n1"}, status: {phase: "Running"}},
                  {metadata: {name: "daemon-y", namespace: "mine", labels: {"app.kubernetes.io/component": "daemon"}}, spec: {nodeName: "n1"}, status: {phase: "Running"}}]}' > pods.json
        # two tenants of device 1: the pod's container, and one of nobody's pod
        tenants='[{"tenant":"a.chat.main","container":{"pod":"1","container":"main"},"devices":[{"index":1,"held_bytes":10737418240,"granted_permille":420}]},
                  {"tenant":"other","container":null,"devices":[{"index":1,"held_bytes":1073741824,"granted_permille":96}]}]'
}

@test "each device of the cluster with what is rented of it, and to whom" {
        run kubectl-sublet --context=other
        [ "$status" -eq 0 ]
        [[ ${lines[1]} =~ ^n1\ +0\ +0\ B\ /\ 80\ GiB\ +0%\ +-\ +-\ +healthy ]]
        [[ ${lines[2]} =~ ^n1\ +1\ +48\ GiB\ /\ 80\ GiB\ +60%\ +-\ +-\ +healthy\ a/chat:main\ 48\ GiB\ 60%$ ]]
        [ "${#lines[@]}" -eq 3 ]
        [ "$(grep -c -- --context=other asked)" -eq 4 ] # nodes, pods, and the daemon both ways
        run ! grep daemon-y asked                       # a pod of somebody's that calls itself so
}

@test "what is used of it is the daemon's word, through the API server's proxy" {
        echo "$tenants" > raw_api_v1_namespaces_sublet_pods_daemon-x:9180_proxy_v1_tenants.json
        run kubectl-sublet
        [[ ${lines[1]} =~ ^n1\ +0\ .*\ 0%\ +0\ B\ +0%\ +healthy ]]
        [[ ${lines[2]} =~ ^n1\ +1\ +48\ GiB\ /\ 80\ GiB\ +60%\ +11\ GiB\ +52%\ +healthy\ a/chat:main\ 48\ GiB\ 60%\ \(uses\ 10\ GiB,\ 42%\)$ ]]
        run ! grep ^exec asked
}

@test "where the proxy does not answer it is asked in the pod; as JSON the same" {
        echo "$tenants" > exec-daemon-x.json
        run kubectl-sublet --json -v=0
        [ "$status" -eq 0 ]
        [ "$(jq -c '.[0].devices[1] | [.rented_bytes, .share_permille, .used_bytes, .busy_permille, (.containers[0] | .pod, .used_bytes, .busy_permille)]' <<< "$output")" = \
                '[51539607552,600,11811160064,516,"chat",10737418240,420]' ]
        grep -q '^exec -n sublet daemon-x -c daemon .*-v=0 -- sublet ps --json$' asked
}

@test "a daemon that talks nonsense is as one that does not answer" {
        echo '{"tenants":1}' > exec-daemon-x.json
        printf '[{"devices":[{"index":1,"held_bytes":-5,"granted_permille":99999}]},7,{"devices":3}]' > raw_api_v1_namespaces_sublet_pods_daemon-x:9180_proxy_v1_tenants.json
        run kubectl-sublet
        [ "$status" -eq 0 ]
        [[ ${lines[2]} =~ ^n1\ +1\ +48\ GiB\ /\ 80\ GiB\ +60%\ +0\ B\ +0%\ +healthy\ a/chat:main\ 48\ GiB\ 60%$ ]]
}

@test "a kubectl that fails is said" {
        printf '#!/bin/sh\nexit 1\n' > kubectl
        run kubectl-sublet
        [ "$status" -eq 1 ]
        [[ $output == "sublet: kubectl get nodes failed" ]]
}

# pod NAME MEMORY [JOB PODS]: that waits
waiting() {
        jq -nc --arg name "$1" --arg memory "$2" --arg job "${3:-}" --arg pods "${4:-}" '{metadata: {name: $name, namespace: "a", uid: $name,
                annotations: (if $job == "" then {} else {"sublet.dev/job": $job, "sublet.dev/job-pods": $pods} end)},
                spec: {containers: [{name: "main", resources: {limits: {"sublet.dev/gpu-mem": $memory}}}]}}'
}

# explain POD-OBJECT [OTHER...]: of a cluster with these pods besides
explain() {
        echo "$1" > pod.json
        jq -c --slurpfile more <(printf '%s\n' "$@") '.items += $more' pods.json > all.json && mv all.json pods.json
        run kubectl-sublet explain "$(jq -r .metadata.name pod.json)" -n a
        echo "$output"
}

@test "explain: why a pod waits, and whose end would make room" {
        explain "$(waiting big 70)" "$(jq -c '.items[0] | .metadata.name = "other" | .metadata.uid = "2" | .metadata.annotations["sublet.dev/allocation"] = "{\"containers\":{\"main\":{\"device\":0}}}"' pods.json)"
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = 'pod a/big waits' ]
        [ "${lines[1]}" = '  n1: 70 GiB of GPU memory asked for on one device, the most free is 32 GiB (device 0)' ]
        [[ ${lines[2]} =~ ^'    it would fit without a/'(chat|other)', or a/'(chat|other)$ ]]
        [ "$(head -1 asked)" = 'get pod big -o json -n a' ]
        explain "$(waiting huge 90)"
        [ "${lines[1]}" = '  n1: 90 GiB of GPU memory asked for on one device, its largest healthy one has 80 GiB' ]
        [ "${#lines[@]}" -eq 2 ]
        explain "$(waiting small 20)"
        [[ ${lines[1]} == '  n1: it has room'* ]]
}

@test "explain: a job's pod, one that is placed, one that rents nothing, and one that is not there" {
        explain "$(waiting t0 20 train 2)"
        [ "${lines[0]}" = "pod a/t0 waits: its job 'train' has 1 of 2 pods: none of them starts before all are there" ]
        explain "$(waiting t0 20 train 2)" "$(waiting t1 20 train 2)"
        [ "${lines[1]}" = "  its job 'train' is whole and has room: the scheduler will come to it" ]
        explain "$(jq -c '.items[0]' pods.json)"
        [ "$output" = 'container main has 48 GiB and 60% of the time of device 1 on node n1' ]
        explain '{"metadata":{"name":"web","namespace":"a","uid":"7"},"spec":{"containers":[{"name":"c"}]}}'
        [ "$output" = 'pod a/web rents no GPU memory' ]
        rm pod.json
        run kubectl-sublet explain nobody
        [ "$status" -eq 1 ]
        [[ ${lines[-1]} == 'sublet: kubectl get pod nobody failed' ]]
        run kubectl-sublet explain
        [ "$status" -eq 1 ]
}

@test "set: annotations, in one call, of a pod that runs; what would be refused is not written" {
        jq -c '.items[0]' pods.json > pod.json
        run kubectl-sublet set chat share=40 cap=50 class=batch mem=8G latency=none sleep-after=30s host-swap=4G -n a
        [ "$status" -eq 0 ]
        [[ $output == 'pod/chat: asked of node n1'* ]]
        [ "$(tail -1 asked)" = 'annotate pod chat --overwrite -o json sublet.dev/share=40 sublet.dev/cap=50 sublet.dev/class=batch sublet.dev/mem=8G sublet.dev/latency=none sublet.dev/sleep-after=30s sublet.dev/host-swap=4G -n a' ]
        run -0 kubectl-sublet set chat share=40 cap=50 class=batch mem=8G latency=none -n a
        refused() { # WORD MESSAGE
                : > asked
                run kubectl-sublet set chat "$1" -n a
                echo "$output"
                [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == "sublet: $2"* ]]
                run ! grep annotate asked
        }
        refused share=61 'share=61: container main was given 60%; more takes a new pod'
        refused mem=49G 'mem=49G: container main was given 48 GiB; more takes a new pod'
        refused mem=8 'mem=8: '
        refused "mem=$(printf %080d 8)G" 'mem=000'
        refused class=gold 'class=gold: latency, normal or batch'
        refused cap=0 'cap=0: percent'
        refused latency=1us 'latency=1us: a time'
        refused host-swap=4 'host-swap=4: a size such as 8G, or none'
        refused sleep-after=10ms 'sleep-after=10ms: a time from 1s to 7d'
        waiting later 4 > pod.json
        refused cap=50 'pod chat is on no node yet'
        run kubectl-sublet set chat
        [ "$status" -eq 1 ]
        [[ $output == 'usage: kubectl sublet set POD'* ]]
}

@test "explain: a pod with swap, beside others with which it would take turns" {
        local devices='[{"index":0,"mem_bytes":85899345920,"swap_bytes":128849018880}]' other
        jq -nc --arg d "$devices" '{items: [{metadata: {name: "n1", annotations: {"sublet.dev/devices": $d}}}]}' > nodes.json
        echo '{"items":[]}' > pods.json
        swapping() { jq -c '.metadata.annotations["sublet.dev/swap"] = "true"' <<< "$(waiting "$@")"; }
        other=$(jq -c '.spec.nodeName = "n1" | .metadata.annotations["sublet.dev/allocation"] = "{\"containers\":{\"main\":{\"device\":0,\"swap\":true}}}"' <<< "$(swapping other 60)")
        explain "$(swapping fits 60)" "$other"
        [[ ${lines[1]} == '  n1: it has room'* ]]
        explain "$(swapping more 61)"
        [ "${lines[1]}" = '  n1: 61 GiB of GPU memory with sublet.dev/swap beside that of others: its 120 GiB of host memory for those do not hold what their exchange would need' ]
        [ "${lines[2]}" = '    it would fit without a/other' ]
        explain "$(waiting firm 30)"
        [ "${lines[1]}" = '  n1: 30 GiB of GPU memory asked for on one device, the most free is 20 GiB (device 0)' ]
        explain "$other"
        [ "$output" = 'container main has 60 GiB of device 0 on node n1, in turns with others' ]
        run kubectl-sublet
        [[ ${lines[1]} =~ ^n1\ +0\ +60\ GiB\ /\ 80\ GiB\ .*\ a/other:main\ 60\ GiB ]]
}
