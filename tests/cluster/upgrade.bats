#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The manifests of deploy/ themselves, as pods of the image that deploy/images makes, where the processes were until
# now; this file is the last. Of a real node only the GPU is missing: daemon and shims get the simulator's directory as
# pods that rent do.
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

setup() {
        with=.
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                kubectl -n sublet get pods -o wide
                kubectl -n sublet describe pods | grep -A8 '^Events:'
                for name in $(kubectl -n sublet get pods -o name); do
                        echo "-- $name"
                        kubectl -n sublet logs "$name" --tail=5
                done
                explain
        }
}

# What is in FILE, as JSON with the image that is here; daemon and shims on the machine with the simulated GPUs
manifests() {
        kubectl create -n sublet --dry-run=client -o json -f "$root/deploy/kubernetes/$1" | jq -c --arg dir "$machine_dir" --arg preload "$machine_preload" \
                --arg libraries "$machine_libraries" --arg mps "$root/tests/fakes/mps" '
                ([$dir, ($preload | sub("/[^/]*$"; "")), ($libraries | split(":")[])] | unique | to_entries) as $folders |
                (.spec.template.spec.containers // empty | .[].image) = "localhost/sublet:0.1.0" |
                if .kind == "DaemonSet" and .metadata.name != "device-plugin" then .spec.template.spec |= (
                        .containers[0].env += [{name: "SUBLET_SIM", value: $dir}, {name: "LD_PRELOAD", value: $preload}, {name: "LD_LIBRARY_PATH", value: $libraries},
                                {name: "PATH", value: ($mps + ":/usr/local/bin:/usr/bin:/bin")}] |
                        .containers[0].volumeMounts += [$folders[] | {name: "sim\(.key)", mountPath: .value}] |
                        .volumes += [$folders[] | {name: "sim\(.key)", hostPath: {path: .value}}]) else . end'
}

# Not by `rollout status`, which has no answer where pods are replaced OnDelete.
is_ready() { # KIND/NAME
        kubectl -n sublet get "$1" -o json |
                jq -e '.status | (.numberReady // .readyReplicas // 0) as $n | $n > 0 and $n == (.desiredNumberScheduled // .replicas)'
}

@test "daemon, shim spawner and device plugin run as their manifests say" {
        gone
        part_end plugin
        part_end daemon
        manifests node.yaml | kubectl apply -n sublet -f -
        for name in daemon keepers device-plugin; do
                until_ok 90 is_ready "daemonset/$name"
        done
        until_ok 90 has_tenants 0
        until_ok 90 eval '[ "$(kubectl get node "$node" -o "jsonpath={.status.allocatable.sublet\.dev/gpu-mem}")" = 32 ]'
}

# daemon_says PATH [CURL OPTION...]: the status of its port's answer, asked by its address as Prometheus does
daemon_says() {
        local ip
        ip=$(kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o 'jsonpath={.items[0].status.podIP}')
        curl -s --max-time 10 --cacert "$cluster/scheduler-certificate/ca.crt" "${@:2}" -o /dev/null -w '%{http_code}' \
                --resolve "daemon.sublet.svc:9180:$ip" -H "Host: $ip:9180" "https://daemon.sublet.svc:9180$1"
}

@test "the daemon's port answers who has a certificate of ours, and to others says only how it is; kubectl sublet sees through the pod" {
        local name
        mkdir -p "$cluster/metrics-certificate"
        for name in tls.crt tls.key; do kubectl -n sublet get secret metrics-certificate -o json | jq -r ".data[\"$name\"]" | base64 -d > "$cluster/metrics-certificate/$name"; done
        [ "$(daemon_says /v1/tenants --cert "$cluster/metrics-certificate/tls.crt" --key "$cluster/metrics-certificate/tls.key")" = 200 ]
        [ "$(daemon_says /metrics --cert "$cluster/metrics-certificate/tls.crt" --key "$cluster/metrics-certificate/tls.key")" = 200 ]
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=sublet-metrics -addext extendedKeyUsage=clientAuth -keyout "$cluster/mine.key" -out "$cluster/mine.crt" 2> /dev/null
        for name in / /metrics /v1/tenants /v1/events; do
                [ "$(daemon_says "$name")" = 403 ]
                [ "$(daemon_says "$name" --cert "$cluster/mine.crt" --key "$cluster/mine.key")" = 403 ]
        done
        [ "$(daemon_says /healthz)" = 200 ]
        # what scrapes the daemons decides nothing: its certificate is not the scheduler's
        [ "$(curl -s --cacert "$cluster/extender-certificate/callers.crt" --cert "$cluster/metrics-certificate/tls.crt" --key "$cluster/metrics-certificate/tls.key" -o /dev/null -w '%{http_code}' \
                --resolve extender.sublet.svc:12345:127.0.0.1 -d '{}' https://extender.sublet.svc:12345/bind)" = 403 ]
        pod one "$(rents main 4 "" 'gpu-families alloc 8; exec gpu-load -t 600 idle')"
        phase one Running
        ln -sf "$sublet" "$cluster/kubectl-sublet"
        until_ok 60 eval '"$cluster/kubectl-sublet" | grep "default/one:main 4 GiB" | grep -qv " - "' || { "$cluster/kubectl-sublet"; return 1; } # what it holds
        gone
}

@test "a pod under them sees its quota and is stopped at it" {
        pod one "$(rents main 4 "" 'gpu-families alloc 32')"
        phase one Succeeded
        [ "$(word one total_mib)" = 4096 ]
        [ "$(word one last)" = CUDA_ERROR_OUT_OF_MEMORY ]
        gone
}

@test "the daemon's pod is replaced, and a tenant does not notice" {
        pod one "$(rents main 6 30 'exec gpu-load -t 900 -k 20000 sync')"
        until_ok 90 eval '[ "$(tenant one main held_bytes)" -gt 0 ]'
        shim=$(tenant one main keeper)
        old=$(kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o name)
        kubectl -n sublet delete --wait=false "$old"
        until_ok 90 eval '[ "$(kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o name)" != "'"$old"'" ]'
        until_ok 90 is_ready daemonset/daemon
        until_ok 90 has_tenants 1
        [ "$(tenant one main keeper)" = "$shim" ]
        phase_is one Running
        grows one
        agree
        gone
}

# as_client GROUP: a filter for $with: a pod of that group, with what the fake in MPS's place needs to run in it
as_client() {
        printf '%s' '.metadata.annotations = {"sublet.dev/group": "'"$1"'"} |
                .spec.volumes = [{name: "usr", hostPath: {path: "/usr"}}, {name: "lib", hostPath: {path: "/lib"}}, {name: "lib64", hostPath: {path: "/lib64"}},
                        {name: "f", hostPath: {path: "'"$root/tests/fakes/mps"'"}}] |
                .spec.containers[].volumeMounts = [.spec.volumes[] | {name, mountPath: ("/" + .name), readOnly: true}]'
}

has_clients() { "$sublet" ps --json | jq -e --arg want "$1" '[.[].group] | sort | join(" ") == $want'; }

@test "pods of a group have one MPS server, of the node's own files: it outlives the daemon's pod, and ends after the last of them" {
        local name place control
        with=$(as_client chat)
        for name in a b; do pod $name "$(rents main 2 20 'exec /usr/bin/python3 /f/nvidia-cuda-mps-control client wait')" || { echo "$said"; return 1; }; done
        with=$(as_client other)
        pod c "$(rents main 2 20 'exec /usr/bin/python3 /f/nvidia-cuda-mps-control client wait')"
        for name in a b c; do says $name client=; done
        has_clients 'chat chat other'
        for name in a b c; do [ "$(word $name group) $(word $name channel)" = '0x0 0x0' ]; done
        [ "$(kubectl exec a -- cat /tmp/nvidia-mps/server)" = "$(kubectl exec b -- cat /tmp/nvidia-mps/server)" ]
        [ "$(kubectl exec a -- cat /tmp/nvidia-mps/server)" != "$(kubectl exec c -- cat /tmp/nvidia-mps/server)" ]
        place=$(grep -lF "$(kubectl exec a -- cat /tmp/nvidia-mps/server)" /run/sublet/mps/*/pipe/server)
        place=${place%/pipe/server}
        control=$(cut -d' ' -f1 "$place/control")
        [ "$(tr '\0' '\n' < "/proc/$control/cmdline" | sed -n 2p)" = "$root/tests/fakes/mps/nvidia-cuda-mps-control" ]
        [ ! -e "/proc/$control/root/host" ] # no image's root
        old=$(kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o name)
        kubectl -n sublet delete --wait=false "$old"
        until_ok 90 eval '[ "$(kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o name)" != "'"$old"'" ]'
        until_ok 90 is_ready daemonset/daemon
        until_ok 60 has_clients 'chat chat other'
        [ "$(cut -d' ' -f1 "$place/control")" = "$control" ]
        kubectl exec a -- /usr/bin/python3 /f/nvidia-cuda-mps-control client | grep group=0x0
        gone
        until_ok 30 test ! -e "$place"
        [ ! -e "/proc/$control" ]
}

@test "extender and webhook run as their manifests say, and one extender decides" {
        part_end extender
        manifests extender.yaml | kubectl apply -n sublet -f -
        kubectl -n sublet delete --ignore-not-found service,endpoints webhook
        part_end webhook
        manifests webhook.yaml | kubectl apply -n sublet -f -
        until_ok 90 is_ready deployment/webhook
        until_ok 90 eval '[ "$(kubectl -n sublet get endpoints extender -o "jsonpath={.subsets[0].addresses[*].ip}" | wc -w)" = 1 ]'
        with='.spec.containers[0].securityContext = {privileged: true}'
        until_ok 60 eval 'refused privileged "$(rents main 2 "" true)" && [[ $said = *"no seccomp filter reaches it"* ]]' || { echo "$said"; return 1; }
}

# The address of the extender that decides, once there is one
decides() { kubectl -n sublet get endpoints extender -o 'jsonpath={.subsets[*].addresses[*].ip}'; }

# shellcheck disable=SC2120  # the other call is in eval
asked() { # [CURL OPTION...]: the status of its answer, to /inspect
        curl -s --max-time 10 --cacert "$cluster/scheduler-certificate/ca.crt" --resolve "extender.sublet.svc:12345:$(decides)" "$@" \
                -o /dev/null -w '%{http_code}' https://extender.sublet.svc:12345/inspect
}

@test "a new version of the extender takes over, though the second of two is never ready, and answers the scheduler only" {
        old=$(decides)
        kubectl -n sublet patch deployment extender -p '{"spec":{"template":{"metadata":{"annotations":{"a":"new"}}}}}'
        until_ok 90 eval 'kubectl -n sublet get deployment extender -o json |
                jq -e ".status.observedGeneration == .metadata.generation and .status.updatedReplicas == 2 and .status.replicas == 2"'
        until_ok 90 eval '[ "$(asked --cert "$cluster/scheduler-certificate/tls.crt" --key "$cluster/scheduler-certificate/tls.key")" = 200 ]'
        [ "$(asked)" = 403 ]
        [ "$(decides)" != "$old" ]
}

@test "the webhook scaled to 0: a hundred of a hundred pods that rent nothing are created; one that rents is not" {
        with=.
        kubectl create namespace plain
        until_ok 30 kubectl -n plain get serviceaccount default
        kubectl -n sublet scale deployment webhook --replicas=0
        until_ok 60 eval '[ -z "$(kubectl -n sublet get endpoints webhook -o "jsonpath={.subsets[*].addresses[*].ip}")" ]'
        [ "$(plain $(seq -f p%g 100) | grep -c created)" = 100 ]
        refused late "$(rents main 2 10 true)"
        [[ $said = *webhook* ]]
        kubectl -n sublet scale deployment webhook --replicas=1
        until_ok 90 is_ready deployment/webhook
        until_ok 60 pod late "$(rents main 2 10 true)" # whom nobody places: the scheduler's extender is a pod by now
        kubectl delete namespace plain --wait=false
        gone
}
