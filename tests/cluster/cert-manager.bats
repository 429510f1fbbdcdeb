#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What deploy/kubernetes-cert-manager says, by cert-manager's own definitions. cert-manager itself is not here: files as
# it writes them take the place of its certificate.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

has_definitions() { [ -n "${SUBLET_TODAY:-}" ] && [ -n "${SUBLET_CERT_MANAGER:-}" ]; }

setup_file() {
        has_definitions || return 0
        kubectl create -f "$SUBLET_CERT_MANAGER/cert-manager.io_certificates.yaml" -f "$SUBLET_CERT_MANAGER/cert-manager.io_issuers.yaml"
        until_ok 30 kubectl wait --for=condition=Established --timeout=1s crd/certificates.cert-manager.io crd/issuers.cert-manager.io
}

setup() {
        [ -n "${SUBLET_TODAY:-}" ] || skip "kubectl of 1.20 does not check so"
        has_definitions || skip "the definitions of cert-manager could not be had"
}

teardown_file() {
        ! has_definitions || kubectl delete --ignore-not-found crd certificates.cert-manager.io issuers.cert-manager.io
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || explain
}

@test "the API server takes issuers and certificates by cert-manager's definitions, and the configurations that it fills in" {
        kubectl kustomize "$root/deploy/kubernetes-cert-manager" > "$BATS_TEST_TMPDIR/all"
        until_ok 30 kubectl apply --dry-run=server --validate=strict -f "$BATS_TEST_TMPDIR/all"
        kubectl apply --dry-run=server --validate=strict -f "$BATS_TEST_TMPDIR/all" | grep -c 'cert-manager.io' | grep -qx 4
        "$root/deploy/kubernetes/certificate" --cert-manager | kubectl apply --dry-run=server --validate=strict -f -
        sed 's/isCA: true/isAuthority: true/' "$BATS_TEST_TMPDIR/all" > "$BATS_TEST_TMPDIR/wrong" # it is checked
        run -1 kubectl apply --dry-run=server --validate=strict -f "$BATS_TEST_TMPDIR/wrong"
        [[ $output = *'isAuthority'* ]]
}

@test "the webhook serves a certificate of an authority, as cert-manager would write it, and pods are translated and refused as ever" {
        local was
        mkdir "$BATS_TEST_TMPDIR/made"
        cd "$BATS_TEST_TMPDIR/made" || return 1
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj '/CN=sublet webhook authority' -keyout ca.key -out ca.crt 2> /dev/null
        openssl req -newkey rsa:2048 -nodes -subj / -keyout tls.key -out request 2> /dev/null
        openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 9 -out tls.crt \
                -extfile <(printf 'subjectAltName=critical,DNS:webhook.sublet.svc\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n') 2> /dev/null
        was=$(cat "$cluster/parts/webhook")
        part_end webhook
        sed "s#$cluster/webhook\\.#$PWD/tls.#g; s# --host webhook.sublet.svc##" <<< "$was" > "$cluster/parts/webhook"
        part_start webhook
        until_ok 20 curl -skf https://127.0.0.1:8443/healthz
        kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration sublet -o json > before.json
        # what the injector does
        jq --arg ca "$(base64 -w 0 ca.crt)" '.items[].webhooks[].clientConfig.caBundle = $ca | del(.items[].metadata | .resourceVersion, .managedFields)' before.json | kubectl replace -f -
        with=.
        until_ok 30 eval 'pod one "$(rents main 2 10 true)"' || { echo "$said"; return 1; }
        [ "$(kubectl get pod one -o 'jsonpath={.spec.runtimeClassName}')" = sublet ]
        with='.spec.hostPID = true'
        refused two "$(rents main 2 10 true)"
        [[ $said = *hostPID* ]]
        with=.
        gone
        part_end webhook
        echo "$was" > "$cluster/parts/webhook"
        part_start webhook
        jq 'del(.items[].metadata | .resourceVersion, .managedFields)' before.json | kubectl replace -f -
        until_ok 30 eval 'pod one "$(rents main 2 10 true)"'
        gone
}
