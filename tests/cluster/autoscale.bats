#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The example of deploy/ for autoscalers, as it is: the router says what is wanted, Debian's Prometheus reads that, KEDA
# (tests/cluster/keda/build) wakes a model that has no pod, and from one pod on Kubernetes' own autoscaler decides by
# KEDA's metrics. The pods rent; instead of an engine the test replica answers. Only in a cluster of today.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

models() { kubectl -n models "$@"; }

keda_certificate() {
        mkdir "$cluster/keda"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=keda -addext "subjectAltName=IP:$address,DNS:keda-metrics-apiserver.keda.svc" \
                -keyout "$cluster/keda/tls.key" -out "$cluster/keda/tls.crt" 2> /dev/null
        cp "$cluster/keda/tls.crt" "$cluster/keda/ca.crt"
}

# KEDA's two programs as processes of the node, with the administrator's rights
keda_start() {
        local as=(env "KUBECONFIG=$cluster/admin.kubeconfig" POD_NAMESPACE=keda WATCH_NAMESPACE= KEDA_CLUSTER_OBJECT_NAMESPACE=keda) option access=()
        for option in authentication authorization lister; do access+=("--$option-kubeconfig=$cluster/admin.kubeconfig"); done
        kubectl create namespace keda
        kubectl create -f "$SUBLET_KEDA/crd" # apply has no room for them
        until_ok 30 kubectl get scaledobjects
        keda_certificate
        part_start keda-operator "${as[@]}" "$SUBLET_KEDA/operator" --cert-dir="$cluster/keda" --metrics-service-bind-address="$address:9666"
        part_start keda-adapter "${as[@]}" "$SUBLET_KEDA/adapter" --secure-port=6443 --port=8082 --metrics-service-address="$address:9666" \
                --cert-dir="$cluster/keda" --tls-cert-file="$cluster/keda/tls.crt" --tls-private-key-file="$cluster/keda/tls.key" "${access[@]}"
        kubectl apply -f - <<Y
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {ports: [{name: https, port: 443, targetPort: 6443}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: keda-metrics-apiserver, namespace: keda}
subsets: [{addresses: [{ip: $address}], ports: [{name: https, port: 6443}]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec: {service: {name: keda-metrics-apiserver, namespace: keda}, group: external.metrics.k8s.io, version: v1beta1, insecureSkipTLSVerify: true,
        groupPriorityMinimum: 100, versionPriority: 100}
Y
        until_ok 60 kubectl get --raw /apis/external.metrics.k8s.io/v1beta1
}

# The router with what the head of the example says, and who reads its figures
router_start() {
        kubectl create namespace models
        cp "$cluster/extender.token" "$cluster/router.token"
        kubectl create clusterrolebinding router --clusterrole=view --serviceaccount=sublet:extender
        cat > "$cluster/route.yaml" <<Y
listen: 127.0.0.1:8088
metrics: 127.0.0.1:9145
user: root
workers: 1
hold: 5m
kubernetes:
- {service: chat, namespace: models, models: [chat], capacity: 16, api: "https://$address", token: $cluster/router.token, ca: $cluster/certificates/apiserver.crt}
Y
        part_start router "$sublet" route --dir "$cluster/route" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$cluster/route.yaml"
        until_ok 30 curl -sf http://127.0.0.1:9145/metrics
        printf 'global: {scrape_interval: 1s}\nscrape_configs: [{job_name: router, static_configs: [{targets: ["127.0.0.1:9145"]}]}]\n' > "$cluster/prometheus.yaml"
        part_start prometheus prometheus --config.file="$cluster/prometheus.yaml" --storage.tsdb.path="$cluster/prometheus" --web.listen-address="$address:9090"
        until_ok 30 curl -sf "http://$address:9090/-/ready"
}

missing() {
        [ -n "${SUBLET_TODAY:-}" ] || { echo 'the example is for Kubernetes 1.23 and later' && return; }
        [ -n "${SUBLET_KEDA:-}" ] || { echo 'no KEDA: tests/cluster/keda/build makes it' && return; }
        command -v prometheus > /dev/null || echo 'no prometheus (Debian: prometheus)'
}

setup_file() {
        [ -z "$(missing)" ] || return 0
        keda_start
        router_start
        models create -f - <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 0
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: localhost/gpu:1
        imagePullPolicy: Never
        command: [sh, -c, "gpu-load -t 900 idle & exec replica --model chat --listen 0.0.0.0:8000"]
        ports: [{name: http, containerPort: 8000}]
        readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1}
        resources: {limits: {sublet.dev/gpu-mem: "4", sublet.dev/gpu-share: "10"}}
---
apiVersion: v1
kind: Service
metadata: {name: chat}
spec: {selector: {app: chat}, ports: [{name: http, port: 8000}]}
Y
        # Where Prometheus is, and a minute instead of ten until nobody is needed; the rest is the example's.
        sed -e '/^---/,$d' -e "s#prometheus.monitoring:9090#$address:9090#" -e 's/cooldownPeriod: 600/cooldownPeriod: 20/' \
                "$root/deploy/kubernetes/examples/autoscale.yaml" | kubectl create -f -
}

teardown_file() {
        [ -z "$(missing)" ] || return 0
        models delete scaledobject chat --timeout=60s
        kubectl delete apiservice v1beta1.external.metrics.k8s.io
        for part in keda-adapter keda-operator prometheus router; do part_end "$part"; done
        kubectl delete namespace models keda --wait=false
        kubectl delete clusterrolebinding router
        until_ok 90 has_tenants 0
}

setup() {
        [ -z "$(missing)" ] || skip "$(missing)"
}

teardown() {
        [ -z "$(missing)" ] || return 0
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                models get all,scaledobjects -o wide
                models describe scaledobject,hpa | tail -n 60
                curl -s http://127.0.0.1:9145/metrics | grep -e held -e inflight
                tail -n 12 "$cluster"/log/{keda-operator,keda-adapter,router,prometheus}
        }
}

replicas() { models get deployment chat -o 'jsonpath={.spec.replicas}'; }
# asks TOKENS: the status of one request
asks() {
        curl -s -o /dev/null --max-time 240 -w '%{http_code}\n' http://127.0.0.1:8088/v1/chat/completions -H 'Content-Type: application/json' \
                -d "{\"model\": \"chat\", \"max_tokens\": $1, \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}"
}

@test "a model that nobody asks has no pod; a request is held, KEDA wakes one, and it answers" {
        until_ok 60 eval '[ "$(models get scaledobject chat -o "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}")" = True ]'
        [ "$(replicas)" = 0 ]
        has_tenants 0
        since=$SECONDS
        [ "$(asks 8)" = 200 ]
        echo "# the first request of a model without a pod was answered after $((SECONDS - since)) s" >&3
        [ "$(replicas)" = 1 ]
        "$sublet" ps --json | jq -e 'length == 1 and .[0].devices[0].quota_bytes == 4294967296 and .[0].container.namespace == "models"'
}

@test "forty requests at once are three replicas of sixteen, by Kubernetes' autoscaler, and all are answered" {
        local i
        for ((i = 0; i < 40; i++)); do asks 6000 >> "$BATS_TEST_TMPDIR/answers" & done
        until_ok 120 eval '[ "$(models get deployment chat -o "jsonpath={.status.readyReplicas}")" = 3 ]'
        models get hpa -o json | jq -e '.items[0].status | .desiredReplicas == 3 and .currentMetrics[0].type == "External"'
        has_tenants 3
        wait
        [ "$(sort "$BATS_TEST_TMPDIR/answers" | uniq -c | tr -s ' ')" = ' 40 200' ]
}

@test "when nobody has asked for the cool-down, nothing of it is left" {
        until_ok 120 eval '[ "$(replicas)" = 0 ]'
        until_ok 60 has_tenants 0
}
