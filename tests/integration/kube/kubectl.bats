#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# kubectl sublet, with a kubectl that says what it is told to.
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
