# SPDX-License-Identifier: Apache-2.0
# A fake kubelet on gRPC's own library (tests/fakes/kubelet.py, or $kubelet_program) with the device plugin; besides
# daemon.bash.
# shellcheck shell=bash disable=SC2034,SC2154  # read by tests, set by bats and machine.bash set
memory=sublet.dev/gpu-mem
share=sublet.dev/gpu-share
first=GPU-7375626c-6574-4073-806d-000000000000
second=GPU-7375626c-6574-4073-806d-000000000001

kubelet_start() {
        folder=$machine/kubelet
        mkdir "$folder"
        coproc kubelet { exec "$BATS_TEST_DIRNAME/../../fakes/${kubelet_program:-kubelet.py}" "$folder" 2> "$machine/kubelet.said" 3>&-; }
        kubelet_process=$kubelet_PID
        exec {to}>&"${kubelet[1]}" {from}<&"${kubelet[0]}"
        read -r -t 20 answer <&"$from"
        [ "$answer" = ready ]
        plugin=''
}

# The plugin, too.
kubelet_end() {
        [ -z "${plugin:-}" ] || plugin_end
        [ -z "${kubelet_process:-}" ] || kill "$kubelet_process" 2> /dev/null || true
}

plugin_start() {
        "$sublet" device-plugin --kubelet "$folder" "$@" < /dev/null > "$machine/plugin" 2>&1 3>&- &
        plugin=$!
}

plugin_end() {
        kill "$plugin" 2> /dev/null || true
        wait "$plugin" 2> /dev/null || true
        plugin=''
}

# ask COMMAND...: one command to the kubelet; its line is $answer
ask() {
        echo "$*" >&"$to"
        read -r -t 30 answer <&"$from"
        echo "$*: $answer"
}

# lists RESOURCE "TOTAL HEALTHY": waits until kubelet has received that
lists() {
        local i
        for ((i = 0; i < 600; i++)); do
                ask list "$1" > /dev/null
                [ "$answer" = "$2" ] && return 0
                sleep 0.05
        done
        echo "$1: $answer, not $2"
        cat "$machine/plugin"
        return 1
}

# checkpoint UID ID...: kubelet has allocated these IDs to the pod's container main
checkpoint() {
        jq -cn --arg uid "$1" '{Data: {PodDeviceEntries: [{PodUID: $uid, ContainerName: "main", ResourceName: "sublet.dev/gpu-mem",
                DeviceIDs: {"0": $ARGS.positional}}]}, Checksum: 1}' --args "${@:2}" > "$machine/checkpoint"
        mv "$machine/checkpoint" "$folder/kubelet_internal_checkpoint"
}
