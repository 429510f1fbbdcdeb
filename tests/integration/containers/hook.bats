#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet hook`: what a container runtime learns before it starts a container, and what is kept for it until it has.
# waits: for containers
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G
        started=()
}

teardown() {
        kill "${started[@]}" 2> /dev/null || true
        node_end
        machine_end
}

api() {
        # shellcheck disable=SC2153 # daemon_start exports it
        curl -sS --max-time 10 --unix-socket "$SUBLET_DIR/sublet.sock" "http://sublet$1" "${@:2}"
}

# bundle MEM [LISTENER]: the bundle of a container that asks for so much
bundle() {
        mkdir -p "$machine/b$1"
        printf '{"annotations":{"sublet.dev/mem":"%s"},"linux":{"seccomp":{"listenerPath":"%s"}}}' "$1" \
                "${2:-$SUBLET_DIR/seccomp.sock}" > "$machine/b$1/config.json"
        echo "$machine/b$1"
}

# state ID BUNDLE PID [STATUS]
state() {
        printf '{"ociVersion":"1.0.2","id":"%s","status":"%s","pid":%s,"bundle":"%s"}' "$1" "${4:-creating}" "$3" "$2"
}

hook() { # STATE [ARGUMENT...]
        "$sublet" hook --dir "$SUBLET_DIR" "${@:2}" <<< "$1"
}

leased() {
        api /v1/devices | jq '.[0].leased_bytes / 1073741824'
}

# one that lives as long as a container that is being made
being() {
        sleep 60 3>&- &
        started+=($!)
}

@test "what is granted is kept for the container, and its listener gets it" {
        daemon_start
        being
        run -0 hook "$(state c1 "$(bundle 8G)" "${started[0]}")"
        [ -z "$output" ]
        [ "$(leased)" = 8 ]
        run -0 hook "$(state c1 "$(bundle 8G)" "${started[0]}")" # prestart and createRuntime both
        [ "$(leased)" = 8 ]
        [ "$("$sublet" ps --json | jq -r '.[0].state')" = starting ]
        inside='{"pid":@PID@,"metadata":"sublet/4 580.159.04","state":{"id":"c1","pid":@PID@,"bundle":"'$(bundle 8G)'"}}'
        run -0 on "$plain/tests/fakes/runtime" "$SUBLET_DIR/seccomp.sock" "$inside" "$families" meminfo
        [[ $output == *total_mib=8192* ]]
        wait_for eval '[ "$(leased)" = 0 ]'
        [ "$(api '/v1/tenants?all=1' | jq length)" = 1 ]
}

@test "what does not fit, or is asked wrongly, is refused in one line, and the runtime's exit code is 1" {
        daemon_start
        run -1 hook "$(state c1 "$(bundle 65G)" $$)"
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == 'sublet: no lease for c1: '*'is more than device 0 has'* ]]
        run -1 hook "$(state c1 "$(bundle much)" $$)"
        [[ $output == "sublet: no lease for c1: --mem much"* ]]
        [ "$(leased)" = 0 ]
        run -1 hook "$(state c1 "$(bundle 1G /run/other.sock)" $$)"
        [[ $output == 'sublet: no lease for c1: it would have its GPU without a gate'* ]]
        run -2 hook 'no state'
        [[ $output == 'sublet: hook: what is on stdin is no state'* ]]
        run -2 hook "$(state c1 "$(bundle 1G)" $$)" sometime
        [[ $output == *"'sometime' is none of createRuntime, prestart and poststop"* ]]
        daemon_end TERM
        run -1 hook "$(state c1 "$(bundle 1G)" $$)"
        [ "$output" = "sublet: no lease for c1: no daemon answers in $SUBLET_DIR: start it with 'sublet daemon'" ]
}

@test "what is kept returns when the container's first process is gone, and at poststop" {
        daemon_start
        being
        hook "$(state c1 "$(bundle 8G)" "${started[0]}")"
        [ "$(leased)" = 8 ]
        kill "${started[0]}"
        wait "${started[0]}" || true
        wait_for eval '[ "$(leased)" = 0 ]'
        being
        hook "$(state c2 "$(bundle 8G)" "${started[1]}")"
        [ "$(leased)" = 8 ]
        run -0 hook "$(state c2 "$(bundle 8G)" 0 stopped)" poststop
        [ "$(leased)" = 0 ]
        run -0 hook "$(state c3 "$(bundle 8G)" 0 stopped)" poststop
}

@test "a pod's container waits for its allocation; what nobody allocates is refused when patience ends" {
        daemon_start --patience 2s
        being
        pod='{"id":"c1","status":"creating","pid":'${started[0]}',"bundle":"'$(bundle 8G)'","annotations":{"io.kubernetes.cri.sandbox-uid":"u1","io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.container-name":"main"}}'
        run -1 hook "$pod"
        [[ $output == 'sublet: no lease for shop/web/main: nothing is allocated to it'* ]]
        daemon_end TERM
        daemon_start # 20 s of patience
        (sleep 0.7; api /v1/allocations -X PUT -d '{"allocations":[{"pod":"u1","container":"main","device":0,"mem_bytes":1073741824}]}') &
        run -0 hook "$pod"
        [ "$(leased)" = 1 ]
}

@test "a hook is not dropped while its container waits: --patience may be longer than a connection's minute" {
        [ "${SUBLET_WAITS:-}" = yes ] || skip 'it waits for more than a minute: tests/all waits'
        daemon_start --patience 80s
        sleep 300 3>&- & # as long as the container is being made
        started+=($!)
        pod='{"id":"c1","status":"creating","pid":'${started[0]}',"bundle":"'$(bundle 8G)'","annotations":{"io.kubernetes.cri.sandbox-uid":"u1","io.kubernetes.cri.container-name":"main"}}'
        (sleep 63; api /v1/allocations -X PUT -d '{"allocations":[{"pod":"u1","container":"main","device":0,"mem_bytes":1073741824}]}') &
        run -0 hook "$pod"
        [ "$(leased)" = 1 ]
}

@test "only root and the daemon's user announce containers" {
        daemon_start
        chmod a+x "$machine"
        run -1 setpriv --reuid 4711 --regid 4711 --clear-groups "$sublet" hook --dir "$SUBLET_DIR" <<< "$(state c1 "$(bundle 1G)" $$)"
        [[ $output == *'as root or as the daemon'* ]]
        [ "$(leased)" = 0 ]
}
