#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What happens to pods that run: one is changed by its annotations; one loses its device, and the others do not notice.
# The daemon and its tenants, the device plugin and the extender are real; kubelet, the API server and the runtime are
# fakes.
# shellcheck disable=SC2086,SC2119,SC2154 # resources; daemon_start without options; what the helpers set
bats_require_minimum_version 1.5.0

setup() {
        source "$BATS_TEST_DIRNAME/../machine.bash"
        source "$BATS_TEST_DIRNAME/../daemon.bash"
        source "$BATS_TEST_DIRNAME/../kubelet.bash"
        supervisors=()
        started=()
        machine_start --gpus 2 --memory 16G
        daemon_start
        kubelet_start
        printf token > "$machine/token"
        "$plain/tests/fakes/apiserver" --token-file "$machine/token" "$machine/port" 3>&- &
        started+=($!)
        wait_for [ -s "$machine/port" ]
        api=http://127.0.0.1:$(cat "$machine/port")
        put '{"kind":"Node","metadata":{"name":"n1"}}'
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        kubelet_end
        node_end
        machine_end
}

api() { curl -sS --max-time 10 -H 'Authorization: Bearer token' "$api$1" "${@:2}"; }

put() { api /fake/objects -d "[$1]" > /dev/null; }

# pod NAME DEVICE GIB ANNOTATIONS: on this node, placed
pod() {
        put "$(jq -cn --arg name "$1" --argjson device "$2" --argjson gib "$3" --argjson more "${4:-{\}}" '{kind: "Pod", metadata: {name: $name,
                namespace: "shop", uid: "u-\($name)", annotations: ($more + {"sublet.dev/allocation":
                ({node: "n1", containers: {main: {device: $device, uuid: "", mem_bytes: ($gib * 1073741824), share_permille: 0}}} | tojson)})},
                spec: {nodeName: "n1", containers: [{name: "main", resources: {limits: {"sublet.dev/gpu-mem": "\($gib)"}}}]}, status: {phase: "Running"}}')"
}

# container NAME COMMAND...: of the pod, as the runtime would start it
container() {
        local name=$1 state
        shift
        mkdir -p "$machine/$name.bundle"
        printf '{"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]}}' > "$machine/$name.bundle/config.json"
        state=$(jq -cn --arg name "$name" --arg bundle "$machine/$name.bundle" '{ociVersion: "1.0.2", fds: ["seccompFd"], pid: "@PID@",
                metadata: "sublet/4 580.159.04", state: {ociVersion: "1.0.2", id: "c-\($name)", status: "creating", pid: "@PID@", bundle: $bundle,
                annotations: {"io.kubernetes.cri.sandbox-uid": "u-\($name)", "io.kubernetes.cri.sandbox-namespace": "shop",
                "io.kubernetes.cri.sandbox-name": $name, "io.kubernetes.cri.container-name": "main", "io.kubernetes.cri.container-type": "container"}}}' |
                sed 's/"@PID@"/@PID@/g')
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$plain/tests/fakes/runtime" "$SUBLET_DIR/seccomp.sock" "$state" "$@" < /dev/null > "$machine/$name.out" 2>&1 3>&- &
        started+=($!)
}

# ids DEVICE N: of memory
ids() {
        local i uuid=$first
        [ "$1" = 0 ] || uuid=$second
        for ((i = 0; i < $2; i++)); do printf '%s-_-%d\n' "$uuid" "$i"; done
}

# kubelet_has POD DEVICE N SHARE...: kubelet's whole table, in groups of four
kubelet_has() {
        local rows='[]'
        while [ $# -gt 0 ]; do
                rows=$(jq -c --arg pod "u-$1" --argjson ids "$(ids "$2" "$3" | jq -Rsc 'split("\n")[:-1]')" --argjson share "$4" '. +
                        [{PodUID: $pod, ContainerName: "main", ResourceName: "sublet.dev/gpu-mem", DeviceIDs: {"0": $ids}}] +
                        (if $share > 0 then [{PodUID: $pod, ContainerName: "main", ResourceName: "sublet.dev/gpu-share", DeviceIDs: {"0": [range($share) | "s-\(.)"]}}] else [] end)' <<< "$rows")
                shift 4
        done
        jq -cn --argjson rows "$rows" '{Data: {PodDeviceEntries: $rows, RegisteredDevices: {}}, Checksum: 0}' > "$folder/checkpoint.new"
        mv "$folder/checkpoint.new" "$folder/kubelet_internal_checkpoint"
}

# its POD FILTER: of its tenant
its() { "$sublet" ps --json | jq -ce --arg t "shop.$1.main" '.[] | select(.tenant == $t) | '"$2"; }

said() { api /api/v1/events | jq -r --arg pod "$1" --arg reason "$2" '.items[] | select(.involvedObject.name == $pod and .reason == $reason) | .message'; }

@test "a running pod is changed by its annotations, up to what it was given and no further; its events say so" {
        pod web 1 8
        plugin_start --placed --node n1 --server "$api" --token-file "$machine/token"
        ask wait $memory
        kubelet_has web 1 8 40
        container web sh -c 'exec sleep 300'
        wait_for its web .tenant
        [ "$(its web '[.share_asked_permille, .class, .devices[0].quota_bytes]')" = '[400,"normal",8589934592]' ]
        pod web 1 8 '{"sublet.dev/share":"25","sublet.dev/cap":"50","sublet.dev/class":"batch","sublet.dev/mem":"2G"}'
        wait_for eval '[ "$(its web "[.share_asked_permille, .class, .devices[0].quota_bytes, .devices[0].cap_permille]")" = "[250,\"batch\",2147483648,500]" ]'
        wait_for eval '[[ $(said web Resized) == *"container main: "*"\"share\":\"25\""* ]]'
        # asked again for the same, whatever else is new on the pod: done already, and no second event
        pod web 1 8 '{"sublet.dev/share":"25","sublet.dev/cap":"50","sublet.dev/class":"batch","sublet.dev/mem":"2G","other":"1"}'
        sleep 2.5
        [ "$(said web Resized | wc -l)" -eq 1 ]
        # and it may say when it sleeps
        pod web 1 8 '{"sublet.dev/sleep-after":"90s"}'
        wait_for eval '[ "$(its web .sleep_after_us)" = 90000000 ]'
        pod web 1 8 '{"sublet.dev/sleep-after":"soon","sublet.dev/class":"normal"}'
        wait_for eval '[[ $(said web NotResized) == *"sleep-after=soon: a time from 1s to 7d"* ]]'
        [ "$(its web '[.class, .sleep_after_us]')" = '["batch",90000000]' ]
        pod web 1 8 '{"sublet.dev/sleep-after":"none"}'
        wait_for eval '[ "$(its web .sleep_after_us)" = null ]'
        # back to all that it was given
        pod web 1 8 '{"sublet.dev/mem":"8G"}'
        wait_for eval '[ "$(its web ".devices[0].quota_bytes")" = 8589934592 ]'
        # and no further: nothing of it is done
        pod web 1 8 '{"sublet.dev/mem":"9G","sublet.dev/class":"latency"}'
        wait_for eval '[[ $(said web NotResized) == *"container main: mem=9G: 8 GiB are allocated to it (sublet.dev/gpu-mem); more takes a new pod"* ]]'
        [ "$(its web '[.class, .devices[0].quota_bytes]')" = '["batch",8589934592]' ]
        # one that is started anew has it again, also from a plugin that is
        pod web 1 8 '{"sublet.dev/mem":"3G"}'
        wait_for eval '[ "$(its web ".devices[0].quota_bytes")" = 3221225472 ]'
        kill "${started[-1]}"
        wait_for eval '! its web .tenant'
        plugin_end
        container web sh -c 'exec sleep 300'
        wait_for its web .tenant
        [ "$(its web '.devices[0].quota_bytes')" = 8589934592 ]
        plugin_start --placed --node n1 --server "$api" --token-file "$machine/token"
        wait_for eval '[ "$(its web ".devices[0].quota_bytes")" = 3221225472 ]'
}

@test "a device that is lost takes its own pods with it, gets no new ones, and the other one's do not notice" {
        "$sublet" extender --listen "unix:$machine/extender" --server "$api" --token-file "$machine/token" < /dev/null 3>&- 2> "$machine/extender.log" &
        started+=($!)
        extender() { curl -sS --max-time 10 --unix-socket "$machine/extender" "http://extender$1" "${@:2}"; }
        waiting() { jq -cn --arg name "$1" --argjson gib "$2" '{kind: "Pod", metadata: {name: $name, namespace: "shop", uid: "u-\($name)"},
                spec: {containers: [{name: "main", resources: {limits: {"sublet.dev/gpu-mem": "\($gib)"}}}]}}'; }
        passes() { [ "$(extender /filter -d "{\"Pod\":$(waiting "$1" "$2"),\"NodeNames\":[\"n1\"]}" | jq -c .NodeNames)" = '["n1"]' ]; }
        pod stays 0 8
        pod goes 1 4
        plugin_start --placed --node n1 --server "$api" --token-file "$machine/token"
        ask wait $memory
        kubelet_has stays 0 8 0 goes 1 4 0
        container stays "$load_program" -t 300 -k 500 deep
        container goes sh -c 'exec sleep 300'
        wait_for eval '[ "$(its stays ".devices[0].held_bytes")" -gt 0 ]'
        wait_for its goes .tenant
        wait_for passes new 12
        lists $memory '32 32'
        "$plain/src/sublet" sim --dir "$machine" --fault lost-gpu=1
        lists $memory '32 16'
        wait_for eval '! passes new 12' # device 0 has 8 of 16 free, and the other one is lost
        passes new 8
        run extender /filter -d "{\"Pod\":$(waiting new 12),\"NodeNames\":[\"n1\"]}"
        [[ $(jq -r .FailedNodes.n1 <<< "$output") == '12 GiB of GPU memory asked for on one device, the most free is 8 GiB (device 0)' ]]
        put "$(waiting new 8)"
        wait_for eval '[ "$(extender /bind -d "{\"PodName\":\"new\",\"PodNamespace\":\"shop\",\"PodUID\":\"u-new\",\"Node\":\"n1\"}")" = "{\"Error\":\"\"}" ]'
        [ "$(api /api/v1/namespaces/shop/pods/new | jq -c '.metadata.annotations["sublet.dev/allocation"] | fromjson | .containers.main.device')" = 0 ]
        # the other device's pod goes on: it is served, and has the device to itself
        kill -0 "${started[-2]}"
        before=$("$sublet" usage --json | jq '[.[] | select(.tenant == "shop.stays.main") | .gpu_seconds] | add')
        wait_for eval '"$sublet" usage --json | jq -e --argjson before "$before" "[.[] | select(.tenant == \"shop.stays.main\") | .gpu_seconds] | add > \$before"'
        [ "$(its stays .state)" = '"running"' ]
        "$sublet" events --json | jq -se 'any(.name == "DEVICE_LOST") and all(.tenant != "shop.stays.main" or .name == "TENANT_STARTED")'
}
