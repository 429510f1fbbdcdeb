#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The chart makes the objects of the manifests, and values change what they say they change. Helm is no package of
# Debian: `tests/all helm` builds it as a module of Go, and without it this is skipped.
# later: because helm has to be built
# variants: plain, because it is about files
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..

setup() {
        export HOME=$BATS_TEST_TMPDIR
        command -v helm > /dev/null || skip "no helm: tests/all helm builds it"
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        there=$BATS_TEST_TMPDIR
}

# chart VERSION [OPTION...]: what the chart makes for that Kubernetes, in $made
chart() {
        made=$there/chart-$1.yaml
        helm template sublet "$root/deploy/helm" --kube-version "$1" "${@:2}" 2> "$there/said" > "$made" || { cat "$there/said"; return 1; }
}

# value FILTER: of $made, each object a line for jq
value() {
        /usr/bin/python3 -c 'import json, sys, yaml
for one in filter(None, yaml.safe_load_all(sys.stdin)): print(json.dumps(one))' < "$made" | jq -rc "$1"
}

@test "the chart is one that helm finds nothing wrong with" {
        helm lint --strict "$root/deploy/helm" --kube-version 1.34
}

@test "the chart's objects are those of the manifests and of the certificates' scripts" {
        kubectl kustomize "$root/deploy/kubernetes" > "$there/all" || skip "this kubectl's kustomize is older than 4.1"
        kubectl kustomize "$root/deploy/kubernetes/guard" > "$there/guard"
        "$root/deploy/kubernetes/certificate" > "$there/webhook"
        "$root/deploy/kubernetes/certificate" --before-1.28 > "$there/before"
        "$root/deploy/kubernetes/scheduler-certificate" > "$there/scheduler"
        same() { /usr/bin/python3 "$root/tests/fakes/objects.py" "$@"; }
        chart 1.34
        same "$there/all,$there/guard,$there/webhook,$there/scheduler" "$made"
        chart 1.29
        same "$there/all,$there/webhook,$there/scheduler" "$made"
        chart 1.27
        same "$there/all,$there/before,$there/scheduler" "$made"
        chart 1.34 --set guard=false --set certificates.create=false
        same "$there/all" "$made"
        run -1 same "$there/all,$there/guard" "$made" # the comparison sees what is missing
        [[ $output == *PodDisruptionBudget* ]]
}

@test "with cert-manager the webhook's certificate is its, and the rest is as ever" {
        kubectl kustomize "$root/deploy/kubernetes-cert-manager" > "$there/all" || skip "this kubectl's kustomize is older than 4.1"
        kubectl kustomize "$root/deploy/kubernetes/guard" > "$there/guard"
        "$root/deploy/kubernetes/certificate" --cert-manager > "$there/webhook"
        "$root/deploy/kubernetes/scheduler-certificate" > "$there/scheduler"
        chart 1.34 --set certificates.certManager=true
        /usr/bin/python3 "$root/tests/fakes/objects.py" "$there/all,$there/guard,$there/webhook,$there/scheduler" "$made"
        [ "$(value 'select(.webhooks).webhooks[].clientConfig.caBundle')" = "$(printf 'null\nnull')" ]
        helm lint --strict "$root/deploy/helm" --kube-version 1.34 --set certificates.certManager=true
        run -1 chart 1.34 --set certificates.certManager=always
}

@test "the authorities are the webhook's and the extender's, and the scheduler's certificate is for callers" {
        chart 1.34
        data() { value "select(.kind == \"Secret\" and .metadata.name == \"$1\").data[\"$2\"]" | base64 -d > "$there/$3"; }
        data extender-certificate tls.crt authority
        data scheduler-certificate tls.crt scheduler
        openssl verify -purpose sslclient -CAfile "$there/authority" "$there/scheduler"
        [[ $(openssl x509 -in "$there/scheduler" -noout -subject -nameopt RFC2253) = *CN=sublet-scheduler ]]
        data daemon-certificate tls.crt daemon
        data metrics-certificate tls.crt metrics
        openssl verify -purpose sslserver -verify_hostname daemon.sublet.svc -CAfile "$there/authority" "$there/daemon"
        openssl verify -purpose sslclient -CAfile "$there/authority" "$there/metrics"
        data daemon-certificate callers.crt callers
        cmp "$there/callers" "$there/authority"
        data webhook-certificate tls.crt cert
        data webhook-certificate tls.key key
        openssl x509 -in "$there/cert" -noout -text | grep -q CA:TRUE
        value 'select(.webhooks).webhooks[].clientConfig.caBundle' | sort -u | base64 -d | cmp - "$there/cert"
}

@test "values: image, nodes, more arguments, containerd's directory" {
        chart 1.34 --set-string image.repository=registry.example/sublet,image.tag=9 --set-json 'nodeSelector={"gpu":"yes","sublet.dev/gpu":null}' \
                --set containerdState=/run/k3s/containerd --set-json 'webhook.extraArgs=["--device-memory=80G"]' \
                --set-json 'devicePlugin.resources={"limits":{"memory":"1Gi"}}' --set networkPolicies=false
        [ "$(value '.spec.template.spec.containers[]?.image' | sort -u)" = registry.example/sublet:9 ]
        [ "$(value 'select(.kind == "DaemonSet").spec.template.spec.nodeSelector, select(.kind == "RuntimeClass").scheduling.nodeSelector' | sort -u)" = '{"gpu":"yes"}' ]
        [ "$(value 'select(.metadata.name == "daemon").spec.template.spec | .volumes[], .containers[].volumeMounts[] | select(.name == "runtime") | .hostPath.path // .mountPath' | sort -u)" = /run/k3s/containerd ]
        [ "$(value 'select(.kind == "Deployment" and .metadata.name == "webhook").spec.template.spec.containers[0].args[-1]')" = --device-memory=80G ]
        [ "$(value 'select(.metadata.name == "device-plugin" and .kind == "DaemonSet").spec.template.spec.containers[0].resources')" = '{"limits":{"memory":"1Gi"}}' ]
        [ "$(value 'select(.kind == "NetworkPolicy").kind')" = '' ]
        run -1 chart 1.34 --set imgae.tag=9
        [[ $output == *"imgae is not allowed"* ]]
        run -1 chart 1.34 --set containerdState=run/containerd
        run -1 chart 1.34 --set guard=perhaps
}

@test "with a scheduler's image the chart runs a second one, as the manifest beside the others" {
        mkdir "$there/second"
        cp "$root/deploy/kubernetes/second-scheduler/deployment.yaml" "$there/second/"
        printf '%s\n' 'namespace: sublet' 'resources: [deployment.yaml]' 'labels: [{pairs: {app.kubernetes.io/name: sublet}}]' \
                'images: [{name: kube-scheduler, newName: registry.example/kube-scheduler, newTag: v1}]' > "$there/second/kustomization.yaml"
        kubectl kustomize "$root/deploy/kubernetes" > "$there/all" || skip "this kubectl's kustomize is older than 4.1"
        kubectl kustomize "$there/second" > "$there/more"
        chart 1.29 --set certificates.create=false --set scheduler.image=registry.example/kube-scheduler:v1
        /usr/bin/python3 "$root/tests/fakes/objects.py" "$there/all,$there/more" "$made"
        chart 1.29 --set certificates.create=false
        [ -z "$(value 'select(.kind == "Deployment" and .metadata.name == "scheduler").kind')" ]
}

@test "installed in the namespace sublet itself, the chart leaves that to helm" {
        helm template sublet "$root/deploy/helm" -n sublet 2> /dev/null > "$there/out"
        run ! grep -q '^kind: Namespace$' "$there/out"
}
