#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The webhook, asked as the API server asks: over TLS, AdmissionReview v1.
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}
sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        dir=$(mktemp -d /tmp/sublet-webhook-XXXXXX)
        certificate first
        "$sublet" webhook --listen 127.0.0.1:0 --cert "$dir/cert" --key "$dir/key" --scheduler gpu-scheduler \
                --profile sublet.json --trusted system:serviceaccount:sublet:extender 3>&- 2> "$dir/log" &
        webhook=$!
        for _ in $(seq 400); do grep -q port "$dir/log" && break; sleep 0.05; done
        port=$(sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$dir/log")
}

teardown() {
        kill "$webhook" 2> /dev/null || true
        wait "$webhook" 2> /dev/null || true
        rm -rf "$dir"
}

certificate() { # NAME
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -addext subjectAltName=DNS:webhook \
                -keyout "$dir/key.new" -out "$dir/cert.new" 2> /dev/null
        mv "$dir/key.new" "$dir/key" && mv "$dir/cert.new" "$dir/cert"
}

ask() { # PATH BODY
        curl -sS --max-time 10 --cacert "$dir/cert" --resolve "webhook:$port:127.0.0.1" "https://webhook:$port$1" -d "$2"
}

review() { # POD [OPERATION] [OLD] [USER]
        printf '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","operation":"%s","userInfo":{"username":"%s"},"object":%s,"oldObject":%s}}' \
                "${2:-CREATE}" "${4:-alice}" "$1" "${3:-null}"
}

pod() { # CONTAINER-FIELDS [SPEC-FIELDS] [ANNOTATIONS]
        printf '{"metadata":{"generateName":"a-","annotations":{%s}},"spec":{"containers":[{"name":"main","resources":{"limits":{"sublet.dev/gpu-mem":"8"}}%s}]%s}}' \
                "${3:-}" "${1:-}" "${2:-}"
}
good=',"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"sublet.json"}}'
class=',"runtimeClassName":"sublet"'
patches() { jq -r .response.patch | base64 -d; }
verdict() { ask /validate "$(review "$@")" | jq -r '.response | "\(.allowed) \(.status.message // "")"'; }

@test "a pod that rents gets its scheduler, class and profile, and loses what only we may say" {
        run ask /mutate "$(review "$(pod ',"env":[{"name":"A","value":"1"},{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"},{"name":"SUBLET_DIR","value":"/x"}]' '' '"sublet.dev/allocation":"{}","ALIYUN_COM_GPU_MEM_IDX":"0","mine":"1"')")"
        [ "$(jq -c '[.response.uid, .response.allowed, .response.patchType]' <<< "$output")" = '["r1",true,"JSONPatch"]' ]
        run patches <<< "$output"
        [ "$(jq -c '[.[] | select(.op == "remove").path]' <<< "$output")" = '["/metadata/annotations/sublet.dev~1allocation","/metadata/annotations/ALIYUN_COM_GPU_MEM_IDX","/spec/containers/0/env/2","/spec/containers/0/env/1"]' ]
        [ "$(jq -c '[.[] | select(.op == "add") | .value]' <<< "$output")" = '["gpu-scheduler","sublet",{"seccompProfile":{"type":"Localhost","localhostProfile":"sublet.json"}}]' ]
}

@test "a pod that does not rent is left alone, but for our annotations" {
        run ask /mutate "$(review '{"metadata":{"name":"b"},"spec":{"containers":[{"name":"main","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}]}}')"
        [ "$(jq -c '[.response.allowed, .response.patch]' <<< "$output")" = '[true,null]' ]
        [ "$(verdict '{"metadata":{"name":"b"},"spec":{"containers":[]}}')" = "true " ]
}

@test "what would get round the gate is refused, with the reason" {
        [ "$(verdict "$(pod "$good" "$class")")" = "true " ]
        [[ $(verdict "$(pod "$good")") == "false a pod that rents a GPU runs in runtime class sublet" ]]
        [[ $(verdict "$(pod ',"securityContext":{"privileged":true}' "$class")") == "false container main is privileged"* ]]
        [[ $(verdict "$(pod ',"securityContext":{"seccompProfile":{"type":"Unconfined"}}' "$class")") == *"another seccomp profile"* ]]
        [[ $(verdict "$(pod "$good,\"env\":[{\"name\":\"SUBLET_X\",\"value\":\"1\"}]" "$class")") == *"sets SUBLET_X"* ]]
        sidecar=$(pod "$good" "$class" | jq -c '.spec.initContainers = [{"name": "i", "securityContext": {"privileged": true}}]')
        [[ $(verdict "$sidecar") == "false container i is privileged"* ]]
}

@test "a container beside one that rents is under the gate, too: descriptors can be handed to it" {
        beside() { pod "$good" "$class" | jq -c --argjson c "$1" ".spec.${2:-containers} += [\$c]"; }
        default='{"name":"b","securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}'
        [[ $(verdict "$(beside "$default")") == "false container b of a pod that rents a GPU is under another"* ]]
        [[ $(verdict "$(beside "$default" initContainers)") == "false container b of a pod"* ]]
        [[ $(verdict "$(beside "$default" ephemeralContainers)") == "false container b of a pod"* ]]
        [ "$(verdict "$(beside '{"name":"b"}')")" = "true " ]
        run patches <<< "$(ask /mutate "$(review "$(beside "$default" initContainers)")")"
        [ "$(jq -c '[.[] | select(.path | test("secc|securityContext")).path]' <<< "$output")" = '["/spec/containers/0/securityContext/seccompProfile","/spec/initContainers/0/securityContext/seccompProfile"]' ]
}

@test "a container beside one that rents is given no device, whatever its image says" {
        beside=$(pod "$good" "$class" | jq -c '.spec.containers += [{"name":"b","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}] | .spec.initContainers = [{"name":"i"}]')
        run patches <<< "$(ask /mutate "$(review "$beside")")"
        [ "$(jq -c '[.[] | select(.path | test("env")) | [.op, .path, .value]]' <<< "$output")" = '[["remove","/spec/containers/1/env/0",null],["add","/spec/containers/1/env/-",{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}],["add","/spec/initContainers/0/env",[{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]]]' ]
        with() { jq -c --arg value "$1" '.spec.containers[1].env[0].value = $value' <<< "$beside"; } # VALUE
        [ "$(verdict "$(with void)")" = "true " ]
        [[ $(verdict "$(with all)") == "false container b sets NVIDIA_VISIBLE_DEVICES"* ]]
        [[ $(verdict "$(pod "$good,\"env\":[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"void\"}]" "$class")") == "false container main sets"* ]]
}

@test "a seccomp profile is not changed by the annotations that older kubelets read" {
        of=container.seccomp.security.alpha.kubernetes.io
        plain=$(pod "$good" "$class" '"mine":"1"')
        with() { jq -c --arg key "$1" --arg value "$2" '.metadata.annotations[$key] = $value' <<< "$plain"; }
        [[ $(verdict "$(with $of/b runtime/default)" UPDATE "$plain") == "false the seccomp annotations of a pod that rents"* ]]
        [[ $(verdict "$plain" UPDATE "$(with seccomp.security.alpha.kubernetes.io/pod localhost/sublet.json)") == "false the seccomp annotations"* ]]
        [[ $(verdict "$(with $of/debugger runtime/default)") == "false annotation $of/debugger of a pod that rents a GPU names another"* ]]
        # what the API server writes itself beside the field; others' annotations; pods that rent nothing
        [ "$(verdict "$(with $of/main localhost/sublet.json)")" = "true " ]
        [ "$(verdict "$(with mine 2)" UPDATE "$plain")" = "true " ]
        idle='{"metadata":{"name":"b"},"spec":{"containers":[]}}'
        [ "$(verdict "$(jq -c --arg of $of/b '.metadata.annotations[$of] = "runtime/default"' <<< "$idle")" UPDATE "$idle")" = "true " ]
}

@test "what can never be placed is refused before it waits for ever" {
        [[ $(verdict "$(pod "$good" "$class" | sed 's/gpu-mem":"8"/gpu-mem":"8","sublet.dev\/gpu-share":"101"/')") == *"more than 100 %"* ]]
        [[ $(verdict "$(pod "$good" "$class" | sed 's/gpu-mem/gpu-share/')") == *"without sublet.dev/gpu-mem"* ]]
        [[ $(verdict "$(pod "$good" "$class" | sed 's/"8"/"8.5"/')") == *"not a whole number"* ]]
        [[ $(verdict "$(pod "$good" "$class" | sed 's/"8"/"0"/')") == "false a container asks for 0 of GPU memory"* ]]
        [[ $(verdict "$(pod "$good" "$class" | sed 's/gpu-mem":"8"/gpu-count":"2"/')") == "false gpu-count is 2 to 16 devices"* ]]
        [[ $(verdict "$(pod "$good" "$class" | sed 's/gpu-mem":"8"/gpu-mem":"8","sublet.dev\/gpu-count":"17"/')") == "false gpu-count is 2 to 16 devices"* ]]
}

@test "whether a pod has swap is said at its creation, by one of two words" {
        swaps() { jq -c --arg swap "$1" '.metadata.annotations["sublet.dev/swap"] = $swap' <<< "$(pod "$good" "$class")"; }
        [ "$(verdict "$(swaps true)")" = "true " ]
        [[ $(verdict "$(swaps 20G)") == 'false its annotation sublet.dev/swap is neither "true" nor "false"'* ]]
        [ "$(verdict "$(swaps true)" UPDATE "$(swaps true)")" = "true " ]
        [[ $(verdict "$(swaps false)" UPDATE "$(swaps true)") == "false you may not change sublet.dev/allocation"*"sublet.dev/swap"* ]]
        [[ $(verdict "$(swaps true)" UPDATE "$(pod "$good" "$class")") == "false you may not change"* ]]
}

@test "nobody but the scheduler says on which node a pod that rents is" {
        on=$(pod "$good" "$class,\"nodeName\":\"n1\"")
        [[ $(verdict "$on") == "false a pod that rents a GPU is placed by scheduler gpu-scheduler"* ]]
        debugged=$(jq -c '.spec.ephemeralContainers = [{"name": "d"}]' <<< "$on") # by then it is bound
        [ "$(ask /validate "$(review "$debugged" UPDATE "$on" | jq -c '.request.subResource = "ephemeralcontainers"')" | jq .response.allowed)" = true ]
        [ "$(verdict '{"metadata":{"name":"b"},"spec":{"nodeName":"n1","containers":[]}}')" = "true " ]
}

@test "where a pod's memory is, only the extender may change" {
        old=$(pod "$good" "$class" '"sublet.dev/allocation":"here"') new=$(pod "$good" "$class" '"sublet.dev/allocation":"there"')
        [[ $(verdict "$new" UPDATE "$old") == "false you may not change "* ]]
        [[ $(verdict "$(pod "$good" "$class")" UPDATE "$old") == "false "* ]]
        [ "$(verdict "$old" UPDATE "$old")" = "true " ]
        [ "$(verdict "$new" UPDATE "$old" system:serviceaccount:sublet:extender)" = "true " ]
}

patched() { # POD: as the API server stores it
        ask /mutate "$(review "$1")" | /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/patched.py" "$1"
}
others() { # LIMITS [SPEC-FIELDS]: a pod as others' users write it
        printf '{"metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"main","resources":{"limits":{%s},"requests":{%s}}}]%s}}' "$1" "$1" "${2:-}"
}

@test "a pod written for gpushare gets its four variables, on one device, and rents by our words" {
        stored=$(patched "$(others '"aliyun.com/gpu-mem":3')")
        [ "$(jq -c '.spec.containers[0].resources' <<< "$stored")" = '{"limits":{"sublet.dev/gpu-mem":"3"},"requests":{"sublet.dev/gpu-mem":"3"}}' ]
        [ "$(jq -c '.metadata.annotations' <<< "$stored")" = '{"sublet.dev/vocabulary":"aliyun"}' ]
        [ "$(jq -c '[.spec.containers[0].env[] | [.name, .value // .valueFrom.fieldRef.fieldPath]]' <<< "$stored")" = \
                '[["ALIYUN_COM_GPU_MEM_CONTAINER","3"],["ALIYUN_COM_GPU_MEM_IDX","metadata.annotations['"'ALIYUN_COM_GPU_MEM_IDX'"']"],["ALIYUN_COM_GPU_MEM_POD","metadata.annotations['"'ALIYUN_COM_GPU_MEM_POD'"']"],["ALIYUN_COM_GPU_MEM_DEV","metadata.annotations['"'ALIYUN_COM_GPU_MEM_DEV'"']"]]' ]
        [ "$(jq -r '.spec.runtimeClassName, .spec.schedulerName' <<< "$stored")" = $'sublet\ngpu-scheduler' ]
        [ "$(verdict "$stored")" = "true " ]
        [ "$(patched "$stored")" = "$stored" ] # what is written again from what kubectl shows is the same
        [[ $(verdict "$(jq -c 'del(.metadata.annotations)' <<< "$stored")" UPDATE "$stored") == "false you may not change"* ]]
        forged=$(jq -c '.spec.containers[0].env[1] = {"name": "ALIYUN_COM_GPU_MEM_IDX", "value": "7"}' <<< "$stored")
        [[ $(verdict "$forged") == "false container main sets ALIYUN_COM_GPU_MEM_IDX"* ]]
}

@test "a pod written for HAMi rents as much, of each GPU; what cannot be said in our words is refused" {
        stored=$(patched "$(others '"nvidia.com/gpu":2,"nvidia.com/gpumem":3000,"nvidia.com/gpucores":30,"nvidia.com/priority":1')")
        [ "$(jq -c '.spec.containers[0].resources.limits' <<< "$stored")" = '{"sublet.dev/gpu-mem":"6","sublet.dev/gpu-share":"60"}' ]
        [ "$(jq -c '[.metadata.annotations, .spec.containers[0].env]' <<< "$stored")" = '[{"sublet.dev/gpu-counts":"{\"main\":2}"},[{"name":"SUBLET_CLASS","value":"batch"}]]' ]
        [ "$(verdict "$stored")" = "true " ]
        [ "$(patched "$stored" | jq -c .spec)" = "$(jq -c .spec <<< "$stored")" ]
        percent=$(others '"nvidia.com/gpumem-percentage":50')
        [ "$(patched "$percent")" = "$(jq . <<< "$percent" | /usr/bin/python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))')" ]
        [[ $(verdict "$percent") == "false container main: how much memory a GPU has is not known here"*"--device-memory SIZE" ]]
        [[ $(verdict "$(others '"sublet.dev/gpu-mem":8,"nvidia.com/gpu":1')") == "false container main asks in sublet.dev/gpu-mem and in nvidia.com/gpu: a device would be booked twice, ask in one of them" ]]
        left=$(others '"nvidia.com/gpu":1,"nvidia.com/gpumem":3000' ',"schedulerName":"hami-scheduler"')
        [ "$(ask /mutate "$(review "$left")" | jq -c .response.patch)" = null ]
        [ "$(verdict "$left")" = "true " ]
}

@test "whose words are translated, and of what size, is the administrator's" {
        run -2 "$sublet" webhook --translate volcano
        [[ $output == *"--translate volcano: aliyun, hami, or none"* ]]
        run -2 "$sublet" webhook --unit 1500K
        [[ $output == *"--unit 1500K: a size of whole MiB, as 1G"* ]]
        kill "$webhook" && wait "$webhook" || true
        "$sublet" webhook --listen "127.0.0.1:$port" --cert "$dir/cert" --key "$dir/key" --translate hami --unit 512M \
                --device-memory 80G 3>&- 2> "$dir/log" &
        webhook=$!
        for _ in $(seq 400); do grep -q port "$dir/log" && break; sleep 0.05; done
        [ "$(patched "$(others '"nvidia.com/gpumem-percentage":50')" | jq -c '.spec.containers[0].resources.limits')" = '{"sublet.dev/gpu-mem":"80"}' ]
        [ "$(patched "$(others '"aliyun.com/gpu-mem":3')" | jq -c '.spec.containers[0].resources.limits')" = '{"aliyun.com/gpu-mem":3}' ]
}

@test "a certificate that is renewed is served without a restart" {
        [[ $(openssl s_client -connect "127.0.0.1:$port" < /dev/null 2> /dev/null) == *"CN = first"* ]]
        certificate second
        for _ in $(seq 200); do
                [[ $(openssl s_client -connect "127.0.0.1:$port" < /dev/null 2> /dev/null) == *"CN = second"* ]] && break
                sleep 0.1
        done
        [[ $(openssl s_client -connect "127.0.0.1:$port" < /dev/null 2> /dev/null) == *"CN = second"* ]]
        [ "$(verdict "$(pod "$good" "$class")")" = "true " ]
}

# authority NAME: a new one, in $dir/NAME, and to the webhook's files, as a Secret is replaced
authority() {
        "$BATS_TEST_DIRNAME/../../../deploy/kubernetes/certificate" > "$dir/yaml"
        sed -n 's/^data: {tls.crt: \([^,]*\), tls.key: .*/\1/p' "$dir/yaml" | base64 -d > "$dir/$1"
        sed -n 's/^data: .* tls.key: \([^}]*\)}/\1/p' "$dir/yaml" | base64 -d > "$dir/key.new"
        cp "$dir/$1" "$dir/cert.new"
        mv "$dir/key.new" "$dir/key" && mv "$dir/cert.new" "$dir/cert"
}
trusts() { # BUNDLE: a new connection, which verifies name and time, as the API server's
        curl -sSf --max-time 10 --cacert "$dir/$1" --resolve "webhook.sublet.svc:$port:127.0.0.1" -o /dev/null "https://webhook.sublet.svc:$port/healthz"
}
leaf() { openssl s_client -connect "127.0.0.1:$port" < /dev/null 2> /dev/null | openssl x509 -noout -serial; }

@test "from its own authority it makes its certificates and renews them, and no caller is refused meanwhile" {
        kill "$webhook" && wait "$webhook" || true
        authority old
        "$sublet" webhook --listen "127.0.0.1:$port" --cert "$dir/cert" --key "$dir/key" --host webhook.sublet.svc --life 9s \
                3>&- 2> "$dir/log" &
        webhook=$!
        for _ in $(seq 400); do grep -q port "$dir/log" && break; sleep 0.05; done
        first=$(leaf) seen=1 last=$first
        for _ in $(seq 200); do # three leaves, of which each would be over long before the last
                trusts old
                now=$(leaf)
                [ "$now" = "$last" ] || { last=$now && seen=$((seen + 1)); }
                [ $seen -lt 3 ] || break
                sleep 0.1
        done
        [ $seen -eq 3 ]
        # the authority itself: who is told to trust both is served before, while and after the webhook changes
        authority new
        cat "$dir/new" "$dir/old" > "$dir/both"
        for _ in $(seq 200); do
                trusts both
                ! trusts new 2> /dev/null || break
                sleep 0.05
        done
        trusts new
        run ! trusts old
}

@test "what is no authority is not made certificates from, and half of a new one leaves the old in place" {
        run -2 "$sublet" webhook --listen 127.0.0.1:0 --cert /dev/null --key /dev/null --host webhook.sublet.svc
        [[ $output == *"no certificate with its key"* ]]
        printf rubbish > "$dir/cert.new" && cp "$dir/cert" "$dir/kept" && mv "$dir/cert.new" "$dir/cert"
        for _ in $(seq 200); do grep -q 'does not start' "$dir/log" && break; sleep 0.05; done
        [[ $(openssl s_client -connect "127.0.0.1:$port" < /dev/null 2> /dev/null) == *"CN = first"* ]]
}

@test "what is not a review is answered with a refusal" {
        [ "$(ask /validate 'no json' | jq -c .response.allowed)" = false ]
        [ "$(ask /mutate '{"request":{"uid":"u","object":[]}}' | jq -c '[.response.allowed,.response.uid]')" = '[false,"u"]' ]
}

@test "an address that takes every connection it gets leaves some to others, and bodies do not add up without end" {
        run -0 /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/crowd.py" "$port" "$dir/cert"
        echo "$output"
        [ "${lines[0]}" = "kept=128 other=yes" ]
        [[ ${lines[1]} =~ 200 && ${lines[1]} =~ (429|closed) ]] # there is room for some, and not for all
        most=$(awk '/^VmHWM/ { print $2 }' "/proc/$webhook/status")
        echo "at most $most kB"
        [ -n "${SUBLET_SANITIZER:-}" ] && [ "$SUBLET_SANITIZER" != none ] || [ "$most" -lt $((300 * 1024)) ]
        ask /validate "$(review '{"metadata":{"name":"b"},"spec":{"containers":[]}}')" | grep -q '"allowed":true'
}

@test "an address whose bodies trickle takes nothing from another, which is answered at once" {
        run -0 timeout 60 /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/crowd.py" "$port" "$dir/cert" trickle
        echo "$output"
        [[ $output =~ ^other=200\ stays=[0-9]+$ ]]
}

@test "a small body that would be many values is refused before it is read" {
        /usr/bin/python3 -c 'print("[" + "[]," * (4 << 20) + "0]", end="")' > "$dir/many" # 12 MiB; 600 as values
        [ "$(curl -sS --max-time 20 --cacert "$dir/cert" --resolve "webhook:$port:127.0.0.1" -o /dev/null -w '%{http_code}' "https://webhook:$port/validate" --data-binary "@$dir/many")" = 413 ]
        most=$(awk '/^VmHWM/ { print $2 }' "/proc/$webhook/status")
        echo "at most $most kB"
        [ -n "${SUBLET_SANITIZER:-}" ] && [ "$SUBLET_SANITIZER" != none ] || [ "$most" -lt $((100 * 1024)) ]
        [ "$(verdict "$(pod "$good" "$class")")" = "true " ] # and what it took is free again
}
