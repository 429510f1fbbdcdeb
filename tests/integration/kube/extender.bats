#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The extender between a scheduler (curl) and an API server (tests/fakes/apiserver, which stands for kube-apiserver
# where faults are wanted that a real one cannot be told to have).
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}
sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        dir=$(mktemp -d /tmp/sublet-extender-XXXXXX)
        started=()
        printf 'first-token' > "$dir/token"
        "$build/tests/fakes/apiserver" --token-file "$dir/token" "$dir/port" 3>&- &
        started+=($!)
        within [ -s "$dir/port" ]
        api=http://127.0.0.1:$(cat "$dir/port")
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        wait "${started[@]}" 2> /dev/null || true
        rm -rf "$dir"
}

within() { # COMMAND...: at most 120 s, which end a failing test and are no measurement
        local since=$SECONDS
        until "$@" > /dev/null 2>&1; do
                [ $((SECONDS - since)) -lt 120 ] || return 1
                sleep 0.05
        done
}

api() { # PATH [CURL OPTION...]
        curl -sS --max-time 10 -H "Authorization: Bearer $(cat "$dir/token")" "$api$1" "${@:2}"
}

# extender NAME [OPTION...]: in the background, asked by `ask NAME`
extender() {
        local name=$1
        shift
        "$sublet" extender --listen "unix:$dir/$name" --server "$api" --token-file "$dir/token" --identity "$name" "$@" \
                3>&- 2>> "$dir/$name.log" &
        started+=($!)
        extender_process=$!
}

ready() { ask "$1" /readyz -f; }

ask() { # NAME PATH [CURL OPTION...]
        curl -sS --max-time 10 --unix-socket "$dir/$1" "http://extender$2" "${@:3}"
}

node() { # NAME UNITS DEVICES
        printf '{"kind":"Node","metadata":{"name":"%s"},"status":{"allocatable":{"sublet.dev/gpu-mem":"%s","sublet.dev/gpu-count":"%s"}}}' "$@"
}

pod() { # NAME MEMORY... of a container each
        local name=$1 containers='' i=0
        shift
        for m in "$@"; do
                containers+=",{\"name\":\"c$i\",\"resources\":{\"limits\":{\"sublet.dev/gpu-mem\":\"$m\"}}}"
                i=$((i + 1))
        done
        printf '{"kind":"Pod","metadata":{"name":"%s","namespace":"default","uid":"uid-%s"},"spec":{"containers":[%s]}}' \
                "$name" "$name" "${containers:1}"
}

put() { # OBJECT...
        local IFS=,
        api /fake/objects -d "[$*]" > /dev/null
}

knows() { ask "$1" /inspect | jq -e "$2"; }
args() { printf '{"Pod":%s,"NodeNames":[%s]}' "$1" "$2"; }
bind() { # NAME POD NODE
        ask "$1" /bind -d "{\"PodName\":\"$2\",\"PodNamespace\":\"default\",\"PodUID\":\"uid-$2\",\"Node\":\"$3\"}"
}
used() { ask "$1" /inspect | jq -c --arg n "$2" '.nodes[] | select(.name == $n) | [.devs[].usedGPU]'; }
is_used() { [ "$(used "$1" "$2")" = "$3" ]; }

@test "a pod goes where its memory is free on one device, and the reason is said where it is not" {
        put "$(node big 160 2)" "$(node small 20 2)" "$(node none 0 0)" "$(pod a 30)"
        extender x && within ready x
        run ask x /filter -d "$(args "$(pod a 30)" '"big","small","none","unheard-of"')"
        [ "$(jq -c .NodeNames <<< "$output")" = '["big"]' ]
        [[ $(jq -r .FailedNodes.small <<< "$output") == "30 GiB of GPU memory asked for on one device, its largest healthy one has 10 GiB" ]]
        [ "$(jq -r .FailedAndUnresolvableNodes.none <<< "$output")" = "it has no GPU memory to rent" ]
        run bind x a big
        [ "$output" = '{"Error":""}' ]
        run api /api/v1/namespaces/default/pods/a
        [ "$(jq -r .spec.nodeName <<< "$output")" = big ]
        [ "$(jq -r '.metadata.annotations["sublet.dev/allocation"] | fromjson | .containers.c0.mem_bytes' <<< "$output")" = 32212254720 ]
        is_used x big '[30,0]'
        # the second does not fit beside 60 of 80; the scheduler may ask with whole nodes, too
        put "$(pod b 60)" && run ask x /filter -d "{\"Pod\":$(pod b 81),\"Nodes\":{\"items\":[$(node big 160 2)]}}"
        [ "$(jq -c '[.Nodes.items, .NodeNames]' <<< "$output")" = '[[],[]]' ]
}

@test "binpack fills what is begun, spread what is empty, also in the scores" {
        put "$(node n1 80 1)" "$(node n2 80 1)" "$(pod a 20)" "$(pod b 20)"
        extender x && extender y --policy spread && within ready x && within ready y
        bind x a n1 && within is_used y n1 '[20]'
        run ask x /prioritize -d "$(args "$(pod b 20)" '"n1","n2"')"
        [ "$output" = '[{"Host":"n1","Score":5},{"Host":"n2","Score":2}]' ]
        run ask y /prioritize -d "$(args "$(pod b 20)" '"n1","n2"')"
        [ "$output" = '[{"Host":"n1","Score":5},{"Host":"n2","Score":7}]' ]
}

@test "a container on two devices gets neighbours of NVLink, and each of them is counted" {
        devices='[{"index":0,"mem_bytes":17179869184,"nvlink":[1]},{"index":1,"mem_bytes":17179869184,"nvlink":[0]},{"index":2,"mem_bytes":17179869184,"nvlink":[3]},{"index":3,"mem_bytes":17179869184,"nvlink":[2]}]'
        of_two() { jq -c '.metadata.annotations["sublet.dev/gpu-counts"] = "{\"c0\":2}"' <<< "$(pod "$@")"; }
        put "$(jq -nc --arg devices "$devices" '{kind: "Node", metadata: {name: "n1", annotations: {"sublet.dev/devices": $devices}}}')" \
                "$(pod one 4)" "$(of_two two 16)" "$(of_two three 28)" "$(of_two four 26)"
        extender x && within ready x
        [ "$(bind x one n1)" = '{"Error":""}' ] && is_used x n1 '[4,0,0,0]'
        # 8 of each: binpack alone would take device 0 and a neighbour of nobody's; three then has a pair of its own
        [ "$(bind x two n1)" = '{"Error":""}' ] && is_used x n1 '[12,8,0,0]'
        [ "$(bind x three n1)" = '{"Error":""}' ] && is_used x n1 '[12,8,14,14]'
        run api /api/v1/namespaces/default/pods/three
        [ "$(jq -c '.metadata.annotations["sublet.dev/allocation"] | fromjson | .containers.c0 | [.mem_bytes, [.devices[].device]]' <<< "$output")" = '[15032385536,[2,3]]' ]
        run ask x /filter -d "$(args "$(of_two four 26)" '"n1"')"
        [[ $(jq -r .FailedNodes.n1 <<< "$output") == "13 GiB of GPU memory asked for on one device, the most free is 8 GiB (device 1)" ]]
        run ask x /filter -d "$(args "$(of_two four 10)" '"n1"')"
        [[ $(jq -r .FailedNodes.n1 <<< "$output") == "2 devices asked for, fewer have 5 GiB of GPU memory free" ]]
        kill "$extender_process" && wait "$extender_process" || true # what is written is what the next one counts
        extender y && within ready y && within is_used y n1 '[12,8,14,14]'
}

@test "two GPU containers of one pod each have their own place, and both are written down" {
        put "$(node n1 48 2)" "$(pod two 20 20)" "$(pod three 8 8 8)"
        extender x && within ready x
        [ "$(bind x two n1)" = '{"Error":""}' ]
        run api /api/v1/namespaces/default/pods/two
        [ "$(jq -c '.metadata.annotations["sublet.dev/allocation"] | fromjson | [.containers[].device] | sort' <<< "$output")" = '[0,1]' ]
        is_used x n1 '[20,20]'
        run bind x three n1
        [[ $output == *"node n1: 8 GiB of GPU memory asked for on one device, the most free is 4 GiB"* ]]
        is_used x n1 '[20,20]'
}

@test "of a burst on the last gap one is bound, and no device is ever promised twice" {
        put "$(node n1 10 1)" "$(pod p1 6)" "$(pod p2 6)" "$(pod p3 6)" "$(pod p4 6)" "$(pod p5 6)" "$(pod p6 6)"
        extender x && within ready x
        for i in 1 2 3 4 5 6; do bind x p$i n1 > "$dir/said$i" & bursts[i]=$!; done
        wait "${bursts[@]}"
        [ "$(grep -l '{"Error":""}' "$dir"/said? | wc -l)" -eq 1 ]
        is_used x n1 '[6]'
}

@test "asked again for what it did, it says the same; for another node, the truth" {
        put "$(node n1 10 1)" "$(node n2 10 1)" "$(pod a 6)"
        extender x && within ready x
        [ "$(bind x a n1)" = '{"Error":""}' ]
        [ "$(bind x a n1)" = '{"Error":""}' ]
        [[ $(bind x a n2) == *"on n1 already"* ]]
        is_used x n1 '[6]' && is_used x n2 '[0]'
}

@test "a binding that the API server refuses takes the decision back; one that nobody answers is looked at" {
        put "$(node n1 10 1)" "$(pod a 6)" "$(pod b 6)"
        extender x && within ready x
        api '/fake/fault?kind=403&path=/binding&n=1' -d '' > /dev/null
        [[ $(bind x a n1) == *"the API server says 403"* ]]
        is_used x n1 '[0]'
        api '/fake/fault?kind=429&path=/binding&n=1' -d '' > /dev/null
        [ "$(bind x a n1)" = '{"Error":""}' ]
        is_used x n1 '[6]'
        put "$(node n1 20 2)" && within is_used x n1 '[6,0]'
        api '/fake/fault?kind=hang&path=/binding&n=1' -d '' > /dev/null
        [[ $(bind x b n1) == *imed*out* || $(bind x b n1) == *'{"Error":""}'* ]]
        within is_used x n1 '[6,6]' || is_used x n1 '[6,0]'
        [ "$(bind x b n1)" = '{"Error":""}' ]
        is_used x n1 '[6,6]'
}

@test "a pod that ends, or goes, gives back what it had, also when nobody was watching" {
        put "$(node n1 10 1)" "$(pod a 6)" "$(pod b 4)"
        extender x && within ready x
        bind x a n1 && bind x b n1
        within is_used x n1 '[10]'
        api /api/v1/namespaces/default/pods/a -X DELETE
        within is_used x n1 '[4]'
        # until all is forgotten: a stream that came back before, on a busy machine, would have seen the pod go
        api '/fake/fault?kind=500&path=/api/v1/pods&n=100000' -d '' && api /fake/cut -d '' && sleep 0.2
        api /api/v1/namespaces/default/pods/b -X DELETE && api /fake/forget -d '' && api '/fake/fault?n=0' -d ''
        within is_used x n1 '[0]'
        # what it has counted so far may be of the event; the list comes when it is answered again
        within eval '[ "$(ask x /metrics | sed -n "s/^sublet_extender_lists_total{path=.\/api\/v1\/pods.} //p")" -ge 2 ]'
}

@test "a list may take the server longer than a call whose answer somebody waits for" {
        put "$(node n1 10 1)" "$(pod a 6)"
        api '/fake/fault?kind=slow&path=/api/v1/pods&n=1000&seconds=6' -d ''
        extender x && within ready x
        [ "$(bind x a n1)" = '{"Error":""}' ]
}

@test "a token that is rotated is taken up" {
        put "$(node n1 10 1)" "$(pod a 6)"
        extender x && within ready x
        printf 'second-token' > "$dir/token"
        [ "$(bind x a n1)" = '{"Error":""}' ]
}

@test "the extender is ready within 3 s of the API server's return, however long that was away" {
        put "$(node n1 10 1)" "$(pod a 6)"
        extender x --lease sublet/extender && within ready x
        api '/fake/fault?kind=500&path=/api&n=1000000' -d '' && api /fake/cut -d '' && api /fake/forget -d ''
        sleep 14 # the time itself is tested: pauses have grown, and the lease is no longer held
        run ! ready x
        api '/fake/fault?kind=500&path=/api&n=0' -d ''
        back=$(date +%s%N)
        within ready x
        took=$((($(date +%s%N) - back) / 1000000))
        echo "ready after $took ms"
        [ "$took" -lt 3000 ] || [ "${SUBLET_SANITIZER:-none}" != none ]
        [ "$(bind x a n1)" = '{"Error":""}' ]
}

@test "who reaches the port binds no pod to a cordoned node, and none that does not rent" {
        put "$(node n1 10 1 | jq -c '.spec.unschedulable = true')" "$(node n2 10 1)" "$(pod a 6)" \
                "$(pod b 1 | jq -c 'del(.spec.containers[0].resources)')" \
                "$(pod c 4 | jq -c '.spec.tolerations = [{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]')"
        extender x && within ready x
        [[ $(bind x a n1) == *"node n1 is cordoned"* ]]
        [ "$(bind x c n1)" = '{"Error":""}' ]
        [ "$(bind x a n2)" = '{"Error":""}' ]
        [[ $(bind x b n2) == *"asks for no GPU memory"* ]]
        [ "$(api /api/v1/namespaces/default/pods/b | jq -r .spec.nodeName)" = null ]
}

@test "an extender that begins anew knows what was given" {
        put "$(node n1 10 1)" "$(pod a 6)" "$(pod b 6)"
        extender x && within ready x
        bind x a n1
        kill -9 "$extender_process"
        extender y && within ready y
        is_used y n1 '[6]'
        [[ $(bind y b n1) == *"the most free is 4 GiB"* ]]
}

@test "of two extenders one decides; the other takes over when it is gone" {
        put "$(node n1 10 1)" "$(pod a 6)" "$(pod b 4)"
        extender x --lease sublet/extender && within ready x
        first=$extender_process
        extender y --lease sublet/extender
        within grep -q listening "$dir/y.log"
        sleep 0.5
        [[ $(bind y a n1) == *"another extender decides"* ]]
        run ! ready y
        [ "$(bind x a n1)" = '{"Error":""}' ]
        kill "$first"
        within ready y
        is_used y n1 '[6]'
        [ "$(bind y b n1)" = '{"Error":""}' ]
}

holder() { api /apis/coordination.k8s.io/v1/namespaces/sublet/leases/extender | jq -r .spec.holderIdentity; }

@test "an extender that is told to end gives the lease up when what it began is over, not before" {
        put "$(node n1 10 1)" "$(pod a 6)"
        extender x --lease sublet/extender && within ready x
        api '/fake/fault?kind=slow&path=/binding&n=1' -d '' > /dev/null
        (bind x a n1 || true) > /dev/null 2>&1 &
        sleep 0.5
        kill "$extender_process"
        within eval '[ "$(holder)" = "" ]'
        [ "$(api /api/v1/namespaces/default/pods/a | jq -r .spec.nodeName)" = n1 ]
}

@test "gpushare's words and paths work: all of a pod on one device, annotations, inspect, a status of 500" {
        put '{"kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"aliyun.com/gpu-mem":"32","aliyun.com/gpu-count":"2"}}}' \
                "$(pod a 5 5 | sed 's/sublet.dev/aliyun.com/g')" "$(pod b 17 | sed 's/sublet.dev/aliyun.com/g')"
        extender x && within ready x
        run ask x /gpushare-scheduler/bind -d '{"PodName":"a","PodNamespace":"default","PodUID":"uid-a","Node":"n1"}'
        [ "$output" = '{"Error":""}' ]
        run api /api/v1/namespaces/default/pods/a
        [ "$(jq -c '.metadata.annotations | [.ALIYUN_COM_GPU_MEM_IDX, .ALIYUN_COM_GPU_MEM_POD, .ALIYUN_COM_GPU_MEM_DEV, .ALIYUN_COM_GPU_MEM_ASSIGNED]' <<< "$output")" = '["0","10","16","true"]' ]
        run ask x /gpushare-scheduler/inspect/n1
        [ "$(jq -c '.nodes[0] | [.totalGPU, .usedGPU, .devs[0].pods[0].name]' <<< "$output")" = '[32,10,"a"]' ]
        run ask x /gpushare-scheduler/bind -o /dev/null -w '%{http_code}' -d '{"PodName":"b","PodNamespace":"default","PodUID":"uid-b","Node":"n1"}'
        [ "$output" = 500 ]
}

@test "a pod that the webhook translated from gpushare is on one device, with its annotations" {
        together() { pod "$@" | jq -c '.metadata.annotations = {"sublet.dev/vocabulary": "aliyun"}'; }
        put "$(node n1 32 2)" "$(pod z 14)" "$(together a 5 5)" "$(together b 9 9)"
        extender x && within ready x
        bind x z n1
        [ "$(bind x a n1)" = '{"Error":""}' ]
        run api /api/v1/namespaces/default/pods/a
        [ "$(jq -c '.metadata.annotations | [.ALIYUN_COM_GPU_MEM_IDX, .ALIYUN_COM_GPU_MEM_POD, .ALIYUN_COM_GPU_MEM_DEV, .ALIYUN_COM_GPU_MEM_ASSIGNED]' <<< "$output")" = '["1","10","16","true"]' ]
        [ "$(jq -c '.metadata.annotations["sublet.dev/allocation"] | fromjson | [.containers[].device]' <<< "$output")" = '[1,1]' ]
        [[ $(bind x b n1) == *"18 GiB of GPU memory asked for on one device, its largest healthy one has 16 GiB"* ]]
}

@test "preemption: who must leave is on one device, of lower priority, and no more than needed" {
        put "$(node n1 20 2)" "$(pod a 6)" "$(pod b 7)" "$(pod c 4)"
        extender x && within ready x
        bind x a n1 && bind x b n1 && bind x c n1 # a and c on device 0, b on 1
        want=$(pod d 9 | jq -c '.spec.priority = 10')
        run ask x /preempt -d "{\"Pod\":$want,\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[{\"UID\":\"uid-c\"}],\"NumPDBViolations\":0},\"gone\":{\"Pods\":[]}}}"
        [ "$(jq -c '.NodeNameToMetaVictims | keys' <<< "$output")" = '["n1"]' ]
        [ "$(jq -c '[.NodeNameToMetaVictims.n1.Pods[].UID] | sort' <<< "$output")" = '["uid-b","uid-c"]' ]
        run ask x /preempt -d "{\"Pod\":$(pod d 9),\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[]}}}"
        [ "$(jq -c .NodeNameToMetaVictims <<< "$output")" = '{}' ]
}

@test "hundreds of large pods, which anybody may make, do not keep the extender from its list" {
        /usr/bin/python3 - > "$dir/large" << 'END'
import json
pods = [{"kind": "Pod", "metadata": {"name": f"large-{i}", "namespace": "default", "uid": f"uid-large-{i}"},
         "spec": {"containers": [{"name": "c", "args": ["x" * (1400 << 10)]}]}} for i in range(50)]
print(json.dumps(pods))
END
        curl -sS -H "Authorization: Bearer first-token" "$api/fake/objects" --data-binary "@$dir/large" > /dev/null
        put "$(node n1 80 1)" "$(pod a 8)"
        extender x
        within ready x
        run bind x a n1
        [ "$output" = '{"Error":""}' ]
        [ "$(awk '/^VmHWM/ { print $2 }' "/proc/$extender_process/status")" -lt $((200 * 1024)) ] || [ "${SUBLET_SANITIZER:-none}" != none ]
}

@test "who asks to bind what is no pod writes no lines of his own into the log" {
        put "$(node n1 80 1)"
        extender x
        within ready x
        ask x /bind -d '{"PodName":"a\nsublet extender: forged","PodNamespace":"\u001b[2J","PodUID":"u","Node":"n1"}' > /dev/null
        within grep -q 'binding ?/?: ' "$dir/x.log"
        run -1 grep '^sublet extender: forged' "$dir/x.log"
}

# secret SECRET KEY FILE: of what deploy/kubernetes/scheduler-certificate printed into $dir/yaml
secret() { sed -n "/name: $1,/,/^data/s/^data: .*[{ ]$2: \\([^,}]*\\).*/\\1/p" "$dir/yaml" | base64 -d > "$dir/$3"; }

# certificates [OPTION...]: new ones; the extender's are in place last, together
certificates() {
        "$BATS_TEST_DIRNAME/../../../deploy/kubernetes/scheduler-certificate" "$@" > "$dir/yaml"
        secret scheduler-certificate tls.crt scheduler.crt && secret scheduler-certificate tls.key scheduler.key && secret scheduler-certificate ca.crt ca.crt
        for file in callers.crt tls.key tls.crt; do
                secret extender-certificate $file new && mv "$dir/new" "$dir/extender.$file"
        done
}

tls() { # CERTIFICATE PATH [CURL OPTION...]: the answer's body and, in a line of its own, its status; CERTIFICATE "": none is shown
        curl -sS --max-time 10 --cacert "$dir/ca.crt" ${1:+--cert "$dir/$1.crt" --key "$dir/$1.key"} --unix-socket "$dir/x" -w '\n%{http_code}\n' "https://extender.sublet.svc$2" "${@:3}"
}
status() { tls "$@" | tail -1; }

@test "with certificates only the scheduler is answered, and before anybody else's body is read" {
        certificates && cp "$dir/extender.tls.crt" "$dir/first.crt" && put "$(node big 160 2)" "$(pod a 30)"
        extender x --cert "$dir/extender.tls.crt" --key "$dir/extender.tls.key" --host extender.sublet.svc --callers "$dir/extender.callers.crt" --caller sublet-scheduler
        body='{"PodName":"a","PodNamespace":"default","PodUID":"uid-a","Node":"big"}'
        within eval '[ "$(status "" /readyz)" = 200 ]' # kubelet shows none
        for path in /healthz /metrics /version; do [ "$(status "" $path)" = 200 ]; done
        for path in /bind /filter /prioritize /preempt /gpushare-scheduler/bind; do [ "$(status "" $path -d "$body")" = 403 ]; done
        for path in /inspect /inspect/big /gpushare-scheduler/inspect //inspect /healthz/ /anything; do [ "$(status "" $path)" = 403 ]; done
        head -c 2000000 /dev/zero > "$dir/zeros"
        [ "$(status "" /filter --data-binary "@$dir/zeros")" = 403 ]
        # another authority's; the same authority's for another name, and one of its for servers
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=sublet-scheduler -keyout "$dir/own.key" -out "$dir/own.crt" 2> /dev/null
        signed() { # FILE NAME PURPOSE
                openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$dir/$1.key" -out "$dir/request" 2> /dev/null
                openssl x509 -req -in "$dir/request" -CA "$dir/extender.tls.crt" -CAkey "$dir/extender.tls.key" -CAcreateserial -days 2 \
                        -extfile <(printf 'extendedKeyUsage=%s\n' "$3") -out "$dir/$1.crt" 2> /dev/null
        }
        signed other sublet-scheduler2 clientAuth && signed server sublet-scheduler serverAuth && signed good sublet-scheduler clientAuth
        for who in own other server; do [ "$(status $who /bind -d "$body")" = 403 ]; done
        run api /api/v1/namespaces/default/pods/a
        [ "$(jq -r .spec.nodeName <<< "$output")" = null ]
        [ "$(status good /inspect)" = 200 ]
        [ "$(tls scheduler /bind -d "$body" | head -1)" = '{"Error":""}' ]
        run api /api/v1/namespaces/default/pods/a
        [ "$(jq -r .spec.nodeName <<< "$output")" = big ]
}

@test "a new authority: extender and scheduler take both until the scheduler has its new certificate" {
        certificates
        extender x --cert "$dir/extender.tls.crt" --key "$dir/extender.tls.key" --host extender.sublet.svc --callers "$dir/extender.callers.crt" --caller sublet-scheduler
        within eval '[ "$(status scheduler /inspect)" = 200 ]'
        for file in crt key; do cp "$dir/scheduler.$file" "$dir/old.$file"; done
        cp "$dir/extender.tls.crt" "$dir/authority" && certificates --also "$dir/authority"
        within grep -q 'loaded the new certificate' "$dir/x.log"
        within eval '[ "$(status scheduler /inspect)" = 200 ]' # ca.crt is both
        [ "$(status old /inspect)" = 200 ]
        cp "$dir/extender.tls.crt" "$dir/new" && mv "$dir/new" "$dir/extender.callers.crt" # the old one is taken away
        within eval '[ "$(status old /inspect)" = 403 ]'
        [ "$(status scheduler /inspect)" = 200 ]
}

@test "certificates are asked for over HTTPS only, and of an authority that is there" {
        run -2 "$sublet" extender --listen "unix:$dir/y" --server "$api" --callers "$dir/ca.crt"
        [[ $output == *"--host and --callers are for HTTPS: give --cert and --key"* ]]
        certificates
        run -2 "$sublet" extender --listen "unix:$dir/y" --server "$api" --cert "$dir/extender.tls.crt" --key "$dir/extender.tls.key" --caller me
        [[ $output == *"--caller needs --callers"* ]]
        run -1 "$sublet" extender --listen "unix:$dir/y" --server "$api" --cert "$dir/extender.tls.crt" --key "$dir/extender.tls.key" --callers "$dir/nothing"
        [[ $output == *"reading $dir/nothing"* ]]
}
