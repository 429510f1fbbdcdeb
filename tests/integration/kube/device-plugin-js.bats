#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The device plugin at a kubelet of grpc-js, of pinned versions from the registry: another HTTP/2 and another protobuf
# than kubelet.py's, and the names of kubelet's own api.proto, cdi_devices among them.
# shellcheck disable=SC2086,SC2119  # lists of ids; daemon_start without options
# waits: for a registry
# variants: plain, because the plugin's gRPC is under a sanitizer in device-plugin.bats
bats_require_minimum_version 1.5.0

setup_file() {
        export node_dir kubelet_program=kubelet.js missing=''
        [ -n "$(command -v npm)" ] || { missing='no npm' && return 0; }
        node_dir=$(mktemp -d /tmp/sublet-grpc-XXXXXX)
        export NODE_PATH=$node_dir/node_modules
        timeout 120 npm install --prefix "$node_dir" --no-audit --no-fund --ignore-scripts --loglevel=error \
                @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.0 > "$node_dir/said" 2>&1 3>&- || missing='the registry does not give grpc-js'
}

teardown_file() {
        rm -rf "${node_dir:-}"
}

# A skip in setup_file is a failure of bats 1.8.
setup() {
        [ -z "$missing" ] || skip "$missing"
        source "$BATS_TEST_DIRNAME/../machine.bash"
        source "$BATS_TEST_DIRNAME/../daemon.bash"
        source "$BATS_TEST_DIRNAME/../kubelet.bash"
        supervisors=()
        machine_start --gpus 2 --memory 16G
        daemon_start
        kubelet_start
}

teardown() {
        [ -z "$missing" ] || return 0
        kubelet_end
        node_end
        machine_end
}

# says FILTER: of the last answer, as JSON
says() { jq -e "$1" <<< "$answer" > /dev/null || { echo "$answer" >&2; return 1; }; }

@test "it registers, says what it can do, and lists what there is" {
        plugin_start
        ask wait $memory
        [ "$answer" = ok ]
        ask options $memory
        says '.pre_start_required and .get_preferred_allocation_available'
        ask wait $share
        lists $memory '32 32'
        lists $share '200 200'
}

@test "an allocation has environment, annotations and CDI devices, a container for each that was asked for" {
        plugin_start --inject cdi
        ask wait $memory
        ask allocate $memory $second-_-0,$second-_-7 $first-_-3
        says 'length == 2'
        says ".[0].cdi_devices == [{\"name\":\"sublet.dev/gpu=$second\"}] and .[1].cdi_devices == [{\"name\":\"sublet.dev/gpu=$first\"}]"
        says '.[0].envs.SUBLET_MEM == "2147483648" and .[1].envs.SUBLET_MEM == "1073741824"'
        says ".[0].annotations[\"sublet.dev/device\"] == \"$second\" and .[0].annotations[\"sublet.dev/mem-bytes\"] == \"2147483648\""
        says 'all(.[]; .devices == null)' # by CDI, and not twice
}

@test "it prefers one device; what it cannot give is an error with its reason" {
        plugin_start
        ask wait $memory
        ask prefer $memory 3
        read -r -a ids <<< "$answer"
        [ ${#ids[@]} -eq 3 ]
        [ "$(printf '%s\n' "${ids[@]%-_-*}" | sort -u | wc -l)" -eq 1 ]
        ask allocate $memory $first-_-1,$second-_-1
        [[ $answer = 'error 9 '*several* ]] # FAILED_PRECONDITION
        ask allocate $memory GPU-nobody-_-1
        [[ $answer = 'error 5 '* ]] # NOT_FOUND
        ask prestart $memory $first-_-1
        [ "$answer" = ok ]
}

@test "many calls at once on one connection are all answered" {
        plugin_start
        ask wait $memory
        ask storm $memory 200 $first-_-1 $first-_-2
        [ "$answer" = 200 ]
}

@test "a stream that is cancelled and begun anew, a kubelet that restarts, a daemon that is gone" {
        plugin_start
        ask wait $memory
        for _ in 1 2 3; do
                ask cancel $memory
                [ "$answer" = ok ]
        done
        ask restart
        ask wait $memory 2
        [ "$answer" = ok ]
        daemon_end TERM
        lists $memory '32 0'
        ask prestart $memory $first-_-1
        [[ $answer = 'error 14 '* ]] # UNAVAILABLE
}
