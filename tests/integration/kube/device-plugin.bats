#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The device plugin between a real daemon and a kubelet that is gRPC's own library (tests/fakes/kubelet.py).
# shellcheck disable=SC2086,SC2119  # lists of ids; daemon_start without options
bats_require_minimum_version 1.5.0

setup() {
        source "$BATS_TEST_DIRNAME/../machine.bash"
        source "$BATS_TEST_DIRNAME/../daemon.bash"
        source "$BATS_TEST_DIRNAME/../kubelet.bash"
        supervisors=()
        machine_start --gpus 2 --memory 16G --nvlink
        daemon_start
        kubelet_start
}

teardown() {
        kubelet_end
        node_end
        machine_end
}

@test "memory, share and number of the devices are what kubelet counts" {
        plugin_start
        for resource in $memory $share sublet.dev/gpu-count; do
                ask wait $resource
                [ "$answer" = ok ]
        done
        lists $memory '32 32'
        lists $share '200 200'
        lists sublet.dev/gpu-count '2 2'
        [ "$(stat -c %a "$folder/sublet.dev_gpu-mem.sock")" = 600 ]
}

@test "an allocation says how much, and of which device" {
        plugin_start --inject cdi,nodes
        ask wait $memory
        ask wait $share
        ask allocate $memory $second-_-0 $second-_-7
        [[ $answer = *env:SUBLET_MEM=2147483648* ]]
        [[ $answer = *env:SUBLET_DEVICE=$second* && $answer = *env:NVIDIA_VISIBLE_DEVICES=$second\ * ]]
        [[ $answer = *annotation:sublet.dev/mem-bytes=2147483648* && $answer = *annotation:sublet.dev/device=$second* ]]
        [[ $answer = *cdi:sublet.dev/gpu=$second* && $answer = *node:/dev/nvidia1=* && $answer != */dev/nvidia0* ]]
        ask allocate $share $first-_-3 $first-_-4 $first-_-5
        [[ $answer = *annotation:sublet.dev/share-permille=30* ]]
}

@test "what this node does not have, or has twice, or has on two devices, is not allocated" {
        plugin_start
        ask wait $memory
        ask allocate $memory GPU-nobody-_-1
        [[ $answer = 'error NOT_FOUND'*"nothing that this node has"* ]]
        ask allocate $memory $first-_-16
        [[ $answer = 'error NOT_FOUND'* ]]
        ask allocate $memory $first-_-1 $first-_-1
        [[ $answer = 'error INVALID_ARGUMENT'*twice* ]]
        ask allocate $memory $first-_-1 $second-_-1
        [[ $answer = 'error FAILED_PRECONDITION'*several* ]]
        ask allocate $memory $first-_-1
        [[ $answer = *SUBLET_MEM=1073741824* ]]
}

# cluster_start: an API server; pod NAME UID DEVICE BYTES puts a pod on this node
cluster_start() {
        printf token > "$machine/token"
        "$plain/tests/fakes/apiserver" --token-file "$machine/token" "$machine/port" 3>&- &
        apiserver=$!
        wait_for [ -s "$machine/port" ]
        api=http://127.0.0.1:$(cat "$machine/port")
        pod web u-web 1 4294967296
}

pod() {
        jq -cn --arg name "$1" --arg uid "$2" --argjson device "$3" --argjson bytes "$4" '[{kind: "Node", metadata: {name: "n1"}},
                {kind: "Pod", metadata: {name: $name, namespace: "shop", uid: $uid, annotations: {"sublet.dev/allocation":
                ({node: "n1", containers: {main: {device: $device, uuid: "", mem_bytes: $bytes, share_permille: 0}}} | tojson)}},
                spec: {nodeName: "n1"}, status: {phase: "Pending"}}]' |
                curl -sf -H "Authorization: Bearer token" "$api/fake/objects" --data-binary @-
}

# told FILTER: what the daemon was told, until jq finds that true
told() {
        local i
        for ((i = 0; i < 400; i++)); do
                curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/v1/allocations > "$machine/told"
                jq -e "$1" "$machine/told" > /dev/null && return 0
                sleep 0.05
        done
        cat "$machine/told" "$machine/plugin"
        return 1
}

# sent_again: how often the plugin has sent the whole table on a new connection. The regular repetition is not logged.
sent_again() { grep -c 'all allocations are sent again' "$machine/plugin" || true; }

@test "the daemon is told which container of which pod has what, as soon as kubelet has written it down" {
        plugin_start
        ask wait $memory
        checkpoint u-web $second-_-0 $second-_-7
        told '.[0] | .pod == "u-web" and .container == "main" and .device == 1 and .mem_bytes == 2147483648'
        checkpoint u-other $first-_-0
        told 'length == 1 and .[0].pod == "u-other" and .[0].device == 0'
        daemon_end KILL
        daemon_start
        told '.[0].pod == "u-other"' # another daemon, which knew nothing
        before=$(sent_again)
        kill -STOP "$plugin" # and one that came while the plugin did not look
        daemon_end KILL
        daemon_start
        kill -CONT "$plugin"
        wait_for eval '[ "$(sent_again)" -gt "$before" ]'
        told '.[0].pod == "u-other"'
        plugin_end
        checkpoint u-late $first-_-1
        plugin_start
        told '.[0].pod == "u-late"'
}

@test "a checkpoint that is none changes nothing" {
        plugin_start
        ask wait $memory
        checkpoint u-web $second-_-0
        told '.[0].pod == "u-web"'
        echo '{"Data":' > "$folder/kubelet_internal_checkpoint"
        wait_for grep -q kubelet_internal_checkpoint "$machine/plugin"
        told '.[0].pod == "u-web"'
}

@test "where the extender places, ids are an amount, and the pod says on which device" {
        cluster_start
        plugin_start --placed --node n1 --server "$api" --token-file "$machine/token"
        ask wait $memory
        ask allocate $memory $first-_-1 $second-_-1
        [[ $answer = *SUBLET_MEM=2147483648* && $answer != *SUBLET_DEVICE* && $answer != *sublet.dev/device* ]]
        checkpoint u-web $first-_-0 $first-_-1 $first-_-2 $first-_-3 $first-_-4
        told '.[0] | .name == "web" and .namespace == "shop" and .device == 1 and .mem_bytes == 4294967296'
        wait_for grep -q 'the smaller counts' "$machine/plugin"
        pod web u-web 0 4294967296
        told '.[0].device == 0'
        # on two devices: each has half of what kubelet counted
        api_pod='{"node":"n1","containers":{"main":{"device":1,"mem_bytes":2147483648,"devices":[{"device":1},{"device":0}]}}}'
        jq -nc --arg a "$api_pod" '[{kind: "Pod", metadata: {name: "two", namespace: "shop", uid: "u-two", annotations: {"sublet.dev/allocation": $a}},
                spec: {nodeName: "n1"}, status: {phase: "Pending"}}]' |
                curl -sf -H "Authorization: Bearer token" "$api/fake/objects" --data-binary @-
        checkpoint u-two $first-_-0 $first-_-1 $first-_-2 $first-_-3
        told 'map([.name, .device, .mem_bytes]) == [["two", 0, 2147483648], ["two", 1, 2147483648]]'
        checkpoint u-nobody $first-_-0 # no such pod: no row
        told 'length == 0'
        kill "$apiserver"
}

@test "the node says which devices it has, and which of them are sick" {
        cluster_start
        plugin_start --node n1 --server "$api" --token-file "$machine/token"
        node_says() {
                curl -sf -H "Authorization: Bearer token" "$api/api/v1/nodes/n1" |
                        jq -e ".metadata.annotations[\"sublet.dev/devices\"] | fromjson | $1"
        }
        wait_for node_says "length == 2 and .[1].uuid == \"$second\" and .[1].index == 1 and .[1].mem_bytes == 17179869184 and .[1].healthy"
        node_says 'map(.nvlink) == [[1], [0]]'
        "$plain/src/sublet" sim --dir "$machine" --fault lost-gpu=1
        wait_for node_says '.[0].healthy and (.[1].healthy | not)'
        kill "$apiserver"
}

@test "the host's memory for swap counts in ids where the extender places, once the node says how much it is, and nowhere else" {
        daemon_end TERM
        daemon_start --swap 20G
        cluster_start
        plugin_start # kubelet chooses by itself: an id is memory of its device
        lists $memory '32 32'
        plugin_end
        plugin_start --placed --node n1 --server "$api" --token-file "$machine/token"
        lists $memory '52 52'
        lists $share '200 200'
        curl -sf -H "Authorization: Bearer token" "$api/api/v1/nodes/n1" |
                jq -e '.metadata.annotations["sublet.dev/devices"] | fromjson | map([.mem_bytes, .swap_bytes]) == [[17179869184, 21474836480], [17179869184, 21474836480]]'
        # whether a container has swap is what the extender has counted, also of ids that are not offered any more
        checkpoint u-web $first-_-25
        told '.[0] | .mem_bytes == 1073741824 and .swap == "false"'
        jq -nc --arg a '{"node":"n1","containers":{"main":{"device":1,"mem_bytes":2147483648,"swap":true}}}' '[{kind: "Pod",
                metadata: {name: "web", namespace: "shop", uid: "u-web", annotations: {"sublet.dev/allocation": $a}},
                spec: {nodeName: "n1"}, status: {phase: "Pending"}}]' |
                curl -sf -H "Authorization: Bearer token" "$api/fake/objects" --data-binary @-
        told '.[0].swap == "true"'
        daemon_end TERM
        daemon_start
        lists $memory '32 32'
        told '.[0].swap == "true"'
        kill "$apiserver"
}

@test "memory is packed on the device that has least left, and enough" {
        plugin_start
        ask wait $memory
        ask ids $memory 20 12 # all but four of the second
        ask prefer $memory 4 $answer
        [ "$answer" = "$second-_-0 $second-_-1 $second-_-2 $second-_-3" ]
        ask ids $memory 20 12
        ask prefer $memory 5 $answer
        [[ $answer = "$first-_-0 "*"$first-_-4" ]]
}

@test "a kubelet that begins anew finds the plugin again, and so does one from before 1.26" {
        plugin_start
        ask wait $memory
        for ((n = 2; n <= 4; n++)); do
                ask restart
                ask wait $memory $n
                [ "$answer" = ok ]
                lists $memory '32 32'
        done
        ask authority $memory
        [ "$answer" = 4 ]
}

@test "a kubelet that refuses is asked again, and what it said is said" {
        ask refuse $memory
        plugin_start
        ask wait $memory
        [ "$answer" = ok ]
        grep -q "$memory: kubelet refused (14): not now" "$machine/plugin"
}

@test "a plugin that begins anew registers again" {
        plugin_start
        ask wait $memory
        plugin_end
        [ ! -e "$folder/sublet.dev_gpu-mem.sock" ]
        plugin_start
        ask wait $memory 2
        lists $memory '32 32'
}

@test "the daemon's restart is not seen; its absence makes everything unhealthy, and its return healthy" {
        plugin_start
        ask wait $memory
        daemon_end TERM
        daemon_start
        sleep 3
        ask lists $memory
        [ "$answer" = 1 ]
        daemon_end TERM
        lists $memory '32 0'
        ask allocate $memory $first-_-1
        [[ $answer = 'error UNAVAILABLE'*daemon* ]]
        ask prestart $memory $first-_-1
        [[ $answer = 'error UNAVAILABLE'* ]]
        daemon_start
        lists $memory '32 32'
        ask prestart $memory $first-_-1
        [ "$answer" = ok ]
}

@test "every call is answered: unknown, garbage, too large" {
        plugin_start
        ask wait $memory
        ask call $memory Nothing
        [[ $answer = 'error UNIMPLEMENTED'* ]]
        for method in Allocate GetPreferredAllocation PreStartContainer; do
                ask call $memory $method ffffff
                [[ $answer = 'error INVALID_ARGUMENT'* ]]
        done
        ask lists $memory
        [ "$answer" = 1 ]
}

@test "gpushare's words: its resources, and its variables in the container" {
        plugin_start --aliyun
        ask wait aliyun.com/gpu-mem
        ask wait aliyun.com/gpu-count
        lists aliyun.com/gpu-count '2 2'
        ask allocate aliyun.com/gpu-mem $second-_-1 $second-_-2
        [[ $answer = *ALIYUN_COM_GPU_MEM_CONTAINER=2* && $answer = *ALIYUN_COM_GPU_MEM_IDX=1* ]]
        [[ $answer = *ALIYUN_COM_GPU_MEM_DEV=16* ]]
        [ ! -e "$folder/sublet.dev_gpu-mem.sock" ]
}

@test "NVIDIA's configuration file: replicas, their name, and one for each container where it says so" {
        printf 'version: v1\nflags: {plugin: {deviceListStrategy: envvar}}\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n    resources: [{name: nvidia.com/gpu, replicas: 10}]\n' > "$folder.yaml"
        plugin_start --config-file "$folder.yaml"
        ask wait nvidia.com/gpu.shared
        lists nvidia.com/gpu.shared '20 20'
        ask allocate nvidia.com/gpu.shared $first-_-9
        [ "$answer" = "env:NVIDIA_VISIBLE_DEVICES=$first" ]
        ask allocate nvidia.com/gpu.shared $first-_-0 $second-_-0
        [[ $answer = 'error FAILED_PRECONDITION'*"2 of nvidia.com/gpu.shared: a container has one at most here"* ]]
        # one plugin of ours to a node: another's resource would book the same devices
        run -1 "$sublet" device-plugin --dir "$dir" --kubelet "$folder"
        [[ $output == *"another device plugin of Sublet offers the GPUs of this node: a device would be booked twice"* ]]
        [ ! -e "$folder/sublet.dev_gpu-mem.sock" ]
        plugin_end
        sed -i 's/timeSlicing/mps/; /failRequests/d' "$folder.yaml"
        run -2 "$sublet" device-plugin --dir "$dir" --kubelet "$folder" --config-file "$folder.yaml"
        [[ $output == *"sharing.mps needs --mps DIR"* ]]
        run -2 "$sublet" device-plugin --dir "$dir" --kubelet "$folder" --config-file "$folder.yaml" --seats 4
        [[ $output == *"--config-file says what is offered"* ]]
        sed -i 's/mps:/mig:/' "$folder.yaml"
        run -2 "$sublet" device-plugin --dir "$dir" --kubelet "$folder" --config-file "$folder.yaml"
        [[ $output == *"$folder.yaml:4: mig: not a key of version v1 that is known here" ]]
        rm "$folder.yaml"
}

@test "plain seats are spread over the devices, and MPS gets its pipe and its bounds" {
        plugin_start --seats 4
        ask wait nvidia.com/gpu.shared
        lists nvidia.com/gpu.shared '8 8'
        ask prefer nvidia.com/gpu.shared 2
        [ "$answer" = "$first-_-0 $second-_-0" ]
        ask allocate nvidia.com/gpu.shared $first-_-0
        [ "$answer" = "env:NVIDIA_VISIBLE_DEVICES=$first" ]
        plugin_end
        plugin_start --seats 4 --mps /run/mps --seats-name example.com/gpu
        ask wait example.com/gpu
        ask allocate example.com/gpu $second-_-1
        [[ $answer = *env:CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25* && $answer = *env:CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M* ]]
        [[ $answer = *env:CUDA_MPS_PIPE_DIRECTORY=/run/mps* && $answer = *mount:/run/mps=/run/mps* ]]
}

@test "a unit that makes more ids than kubelet takes is refused, with one that would do" {
        plugin_start --unit 1M # 32768 ids are few enough
        ask wait $memory
        lists $memory '32768 32768'
        plugin_end
        node_end
        machine_end
        machine_start --gpus 2 --memory 140G
        daemon_start
        folder=$machine/kubelet
        mkdir "$folder"
        run -1 timeout 20 "$sublet" device-plugin --kubelet "$folder" --unit 1M
        [[ $output = *'4 MiB'*'try a unit of 8 MiB'* ]]
}

@test "bad use is refused in one line" {
        run -2 "$sublet" device-plugin --unit 1000
        [[ $output = *'--unit 1000'* ]]
        run -2 "$sublet" device-plugin --mps /run/mps
        [[ $output = *seats* ]]
        run -2 "$sublet" device-plugin --inject everything
        run -2 "$sublet" device-plugin --placed
        [[ $output = *--server* ]]
        run -2 env -u NODE_NAME "$sublet" device-plugin --placed --server http://127.0.0.1:1
        [[ $output = *--node* ]]
        run -1 "$sublet" device-plugin --kubelet "$machine/nowhere"
        [[ $output = *"kubelet's directory"* ]]
}
