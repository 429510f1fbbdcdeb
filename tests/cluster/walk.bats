#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Docs/kubernetes.md as one who installs reads it: out with what is there, `helm install`, the first pod that rents, an
# upgrade, out again. After upgrade.bats, whose pods it takes away; only in a cluster of today, with helm. Of a real
# cluster GPU, DNS and kube-proxy are missing: the first is the simulator, what the others would say is a host alias.
# shellcheck disable=SC2034,SC2154  # $with and $said are of pod, in pods.bash
bats_require_minimum_version 1.5.0
load pods

missing() {
        [ -n "${SUBLET_TODAY:-}" ] || { echo 'kubectl of 1.20 cannot make the manifests' && return; }
        command -v helm > /dev/null || echo 'no helm: tests/all helm builds it'
}

setup_file() {
        [ -z "$(missing)" ] || return 0
        # The cluster's own scheduler is from here on one that has never heard of us.
        part_end scheduler
        part_start scheduler kube-scheduler --kubeconfig="$cluster/scheduler.kubeconfig" --authentication-kubeconfig="$cluster/scheduler.kubeconfig" \
                --bind-address=127.0.0.1 --cert-dir="$cluster/scheduler" --leader-elect=true
        # shellcheck source=/dev/null
        . "$root/tests/cluster/images.bash"
        . "$root/tests/cluster/control.bash"
        mkdir -p "$cluster/kube-scheduler/usr/local/bin"
        cp "$SUBLET_KUBE/kube-scheduler" "$cluster/kube-scheduler/usr/local/bin/"
        image_pack "$cluster/kube-scheduler" localhost/kube-scheduler:1 kube-scheduler
        control_images "$cluster/kube-scheduler.tar"
        # What the chart makes, with daemon and shims on the machine of the simulated GPUs
        cat > "$cluster/simulated" <<'Y'
#!/bin/sh
kubectl create --dry-run=client -o json -f - | jq -c --arg dir "$machine_dir" --arg preload "$machine_preload" --arg libraries "$machine_libraries" '
        ([$dir, ($preload | sub("/[^/]*$"; "")), ($libraries | split(":")[])] | unique | to_entries) as $folders |
        if .kind == "DaemonSet" and .metadata.name != "device-plugin" then .spec.template.spec |= (
                .containers[0].env += [{name: "SUBLET_SIM", value: $dir}, {name: "LD_PRELOAD", value: $preload}, {name: "LD_LIBRARY_PATH", value: $libraries}] |
                .containers[0].volumeMounts += [$folders[] | {name: "sim\(.key)", mountPath: .value}] |
                .volumes += [$folders[] | {name: "sim\(.key)", hostPath: {path: .value}}]) else . end' | sed 's/^/---\n/'
Y
        chmod +x "$cluster/simulated"
}

setup() {
        [ -z "$(missing)" ] || skip "$(missing)"
        with=.
}

teardown() {
        [ -z "$(missing)" ] || return 0
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                kubectl -n sublet get all -o wide
                kubectl -n sublet describe pods | grep -A8 '^Events:'
                for name in $(kubectl -n sublet get pods -o name); do
                        echo "-- $name"
                        kubectl -n sublet logs "$name" --tail=8
                done
                explain
        }
}

no_trace() {
        ! kubectl get namespace sublet && ! kubectl get runtimeclass sublet &&
                ! kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration,clusterrole,clusterrolebinding -o name | grep -q /sublet
}

install() { # install|upgrade [OPTION...]
        helm "$1" sublet "$root/deploy/helm" --set scheduler.image=localhost/kube-scheduler:1 --post-renderer "$cluster/simulated" "${@:2}"
}

secrets() { kubectl -n sublet get secrets -o json | jq -S '[.items[] | select(.type == "kubernetes.io/tls") | {(.metadata.name): .data}] | add'; }

@test "uninstall is refused while a pod rents; with its pods all of it goes, and pods are created as ever" {
        pod one "$(rents main 4 "" 'exec gpu-load -t 900 idle')" || true
        run -1 "$root/deploy/kubernetes/uninstall"
        [[ $output = *'rents GPUs'* ]] || { echo "$output"; return 1; }
        "$root/deploy/kubernetes/uninstall" --with-pods
        until_ok 60 no_trace
        kubectl run plain --image=localhost/gpu:1 --image-pull-policy=Never --command -- sleep 600
        until_ok 60 phase_is plain Running
        kubectl delete pod plain --force --grace-period=0
}

@test "helm install, and the first pod that rents runs" {
        local since=$SECONDS
        install install
        until_ok 120 eval '[ -n "$(kubectl -n sublet get endpoints extender -o "jsonpath={.subsets[*].addresses[*].ip}")" ]'
        kubectl -n sublet patch deployment scheduler -p "{\"spec\":{\"template\":{\"spec\":{\"hostAliases\":[{\"hostnames\":[\"extender.sublet.svc\"],
                \"ip\":\"$(kubectl -n sublet get endpoints extender -o 'jsonpath={.subsets[*].addresses[*].ip}')\"}]}}}}"
        until_ok 90 eval 'pod first "$(rents main 8 30 "gpu-families meminfo; exec gpu-load -t 900 -k 20000 sync")"' || { echo "$said"; return 1; }
        phase first Running
        echo "# from helm install to the first Running pod: $((SECONDS - since)) s" >&3
        says first total_mib=8192
        [ "$(kubectl get pod first -o 'jsonpath={.spec.schedulerName} {.spec.runtimeClassName}')" = 'sublet-scheduler sublet' ]
        [ "$(tenant first main share_asked_permille)" = 300 ]
        # each scheduler has a lease of its own
        kubectl -n kube-system get lease kube-scheduler
        [[ $(kubectl -n sublet get lease sublet-scheduler -o 'jsonpath={.spec.holderIdentity}') = scheduler-* ]]
}

@test "helm upgrade keeps the certificates, and the tenant does not notice" {
        secrets > "$BATS_TEST_TMPDIR/before"
        [ "$(jq length "$BATS_TEST_TMPDIR/before")" = 5 ]
        shim=$(tenant first main keeper)
        install upgrade --set 'daemon.extraArgs={--patience,21s}' # the daemon's pod is replaced
        until_ok 60 eval 'kubectl -n sublet get pods -l app.kubernetes.io/component=daemon -o yaml | grep -q -e "- 21s"'
        secrets | diff "$BATS_TEST_TMPDIR/before" -
        until_ok 90 has_tenants 1
        [ "$(tenant first main keeper)" = "$shim" ]
        phase_is first Running
        grows first
}

@test "helm upgrade of a release without the daemons' certificates makes them of the authority that is there" {
        local name
        kubectl -n sublet delete secret daemon-certificate metrics-certificate
        secrets > "$BATS_TEST_TMPDIR/before"
        install upgrade
        [ "$(secrets | jq length)" = 5 ]
        part_of() { kubectl -n sublet get secret "$1" -o json | jq -r ".data[\"$2\"]" | base64 -d > "$BATS_TEST_TMPDIR/$1.$2"; }
        for name in extender daemon metrics; do part_of "$name-certificate" tls.crt; done
        openssl verify -purpose sslserver -verify_hostname daemon.sublet.svc -CAfile "$BATS_TEST_TMPDIR/extender-certificate.tls.crt" "$BATS_TEST_TMPDIR/daemon-certificate.tls.crt"
        openssl verify -purpose sslclient -CAfile "$BATS_TEST_TMPDIR/extender-certificate.tls.crt" "$BATS_TEST_TMPDIR/metrics-certificate.tls.crt"
        secrets | jq 'del(.["daemon-certificate"], .["metrics-certificate"])' | diff "$BATS_TEST_TMPDIR/before" -
}

@test "helm uninstall, after its pods, leaves nothing" {
        gone
        helm uninstall sublet
        until_ok 90 no_trace
}
