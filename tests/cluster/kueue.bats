#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kueue in front of the scheduler (tests/cluster/kueue/build): it counts what Jobs and pods rent against the quota of a
# queue and lets them in; where they are placed the extender says, as ever. Only in a cluster of today.
# shellcheck disable=SC2034,SC2154  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

idle='gpu-families meminfo; exec gpu-load -t 900 idle'

missing() {
        [ -n "${SUBLET_TODAY:-}" ] || { echo 'it wants Kubernetes 1.34' && return; }
        [ -n "${SUBLET_KUEUE:-}" ] || echo 'no Kueue: tests/cluster/kueue/build makes it'
}

# Its own manifests, but for what runs it: the process is one of the node, which its Services lead to.
manifests() {
        kubectl kustomize "$SUBLET_KUEUE/config/default" | kubectl create --dry-run=client -o json -f - |
                jq -c --arg ca "$(base64 -w 0 "$cluster/kueue/tls.crt")" --arg address "$address" '
                select(.kind | IN("Deployment", "ConfigMap", "APIService", "Secret") | not) |
                if .kind == "Service" then del(.spec.selector) else . end |
                if .webhooks then .webhooks[].clientConfig.caBundle = $ca else . end |
                if .spec.conversion?.webhook? then .spec.conversion.webhook.clientConfig.caBundle = $ca else . end |
                ., (select(.kind == "Service" and .metadata.name == "kueue-webhook-service") | {apiVersion: "v1", kind: "Endpoints",
                        metadata: {name: .metadata.name, namespace: .metadata.namespace},
                        subsets: [{addresses: [{ip: $address}], ports: [{port: 9443}]}]})'
}

setup_file() {
        [ -z "$(missing)" ] || return 0
        mkdir -p "$cluster/kueue/metrics/certs" /etc/kueue
        mount --bind "$cluster/kueue" /etc/kueue # where it looks, and nothing tells it otherwise
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kueue -addext 'subjectAltName=DNS:kueue-webhook-service.kueue-system.svc' \
                -keyout "$cluster/kueue/tls.key" -out "$cluster/kueue/tls.crt" 2> /dev/null
        cp "$cluster"/kueue/tls.* "$cluster/kueue/metrics/certs/"
        manifests | kubectl create -f - > /dev/null
        cat > "$cluster/kueue.yaml" <<Y
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:8081"}
metrics: {bindAddress: "127.0.0.1:8444"}
webhook: {port: 9443, certDir: $cluster/kueue}
internalCertManagement: {enable: false}
leaderElection: {leaderElect: false}
integrations: {frameworks: [batch/job, pod]}
Y
        part_start kueue env KUBECONFIG="$cluster/admin.kubeconfig" POD_NAMESPACE=kueue-system "$SUBLET_KUEUE/kueue" --config="$cluster/kueue.yaml" \
                --feature-gates=VisibilityOnDemand=false
        until_ok 60 curl -sf http://127.0.0.1:8081/readyz
        until_ok 60 queues
}

queues() {
        kubectl apply -f - <<'Y'
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
spec: {nodeLabels: {sublet.dev/gpu: "true"}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [sublet.dev/gpu-mem, sublet.dev/gpu-share]
    flavors:
    - name: gpus
      resources:
      - {name: sublet.dev/gpu-mem, nominalQuota: 16}
      - {name: sublet.dev/gpu-share, nominalQuota: 100}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
Y
}

teardown_file() {
        [ -z "$(missing)" ] || return 0
        kubectl delete localqueues,clusterqueues,resourceflavors --all -A > /dev/null
        manifests | kubectl delete --ignore-not-found --wait=false -f - > /dev/null
        part_end kueue
        umount -l /etc/kueue
        rmdir /etc/kueue
}

setup() {
        [ -z "$(missing)" ] || skip "$(missing)"
        with='.metadata.labels["kueue.x-k8s.io/queue-name"] = "team"'
}

teardown() {
        [ -z "$(missing)" ] || return 0
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                explain
                kubectl get workloads,jobs -o yaml | tail -n 150
                tail -n 20 "$cluster/log/kueue"
        }
        kubectl delete jobs --all --cascade=foreground --wait=false > /dev/null
        gone
        until_ok 60 eval '[ -z "$(kubectl get jobs,pods,workloads -o name)" ]'
}

# job NAME CONTAINER [FILTER]: of one pod
job() {
        jq -cn --arg name "$1" --argjson container "$2" '{apiVersion: "batch/v1", kind: "Job", metadata: {name: $name, labels: {"kueue.x-k8s.io/queue-name": "team"}},
                spec: {template: {spec: {restartPolicy: "Never", terminationGracePeriodSeconds: 1, containers: [$container]}}}}' | jq -c "${3:-.}" | kubectl create -f - > /dev/null
}

is_active() { [ "$(kubectl get job "$1" -o 'jsonpath={.status.active}')" = 1 ]; }
why() { kubectl get workloads -o json | jq -r --arg of "$1" '.items[] | select(.metadata.ownerReferences[0].name == $of) | .status.conditions[]? | .message'; }

has_the_second() { "$sublet" ps --json | jq -e 'length == 1 and (.[0] | (.container.name | startswith("second-")) and .devices[0].quota_bytes == 10737418240)'; }
has_two_of_six() { "$sublet" ps --json | jq -e 'length == 1 and ([.[0].devices[].quota_bytes] == [6442450944, 6442450944])'; }
is_held() { kubectl get pod "$1" -o json | jq -e '.status.phase == "Pending" and any(.spec.schedulingGates[]; .name == "kueue.x-k8s.io/admission")'; }

@test "Jobs wait for their queue's quota of GPU memory, not for the GPUs, and come in when there is room" {
        job first "$(rents main 10 30 "$idle")"
        until_ok 60 is_active first
        until_ok 60 has_tenants 1
        job second "$(rents main 10 30 "$idle")" # the GPUs have 22 GiB left, the queue 6
        until_ok 60 eval '[[ $(why second) = *"insufficient unused quota for sublet.dev/gpu-mem"* ]]'
        [ "$(kubectl get job second -o 'jsonpath={.spec.suspend}')" = true ]
        [ -z "$(kubectl get pods -l job-name=second -o name)" ]
        [ "$("$sublet" ps --json | jq -c '[.[].devices[0].quota_bytes]')" = '[10737418240]' ]
        agree
        kubectl delete job first --cascade=foreground --wait=false
        until_ok 90 is_active second
        until_ok 90 has_the_second
        agree
}

@test "a pod of a queue is held back by its gate, then the extender places it" {
        pod first "$(rents main 12 30 "$idle")" || { echo "$said"; return 1; }
        pod second "$(rents main 12 30 "$idle")" || { echo "$said"; return 1; }
        phase first Running
        until_ok 60 is_held second
        says first total_mib=12288
        has_tenants 1
        agree
        kubectl delete pod first --wait=false
        phase second Running
        says second total_mib=12288
        until_ok 60 has_tenants 1
        agree
}

@test "a Job on two GPUs is counted by what its template says, so its template says the sums" {
        job both "$(rents main 6 30 "$idle")" '.spec.template.spec.containers[0].resources.limits["sublet.dev/gpu-count"] = "2"'
        until_ok 60 eval '[[ $(why both) = *"resource sublet.dev/gpu-count unavailable in ClusterQueue"* ]]'
        kubectl delete job both --cascade=foreground > /dev/null
        job sums "$(rents main 12 60 "$idle")" '.spec.template.metadata.annotations = {"sublet.dev/gpu-counts": "{\"main\":2}"}'
        until_ok 60 has_two_of_six
        kubectl get workloads -o json | jq -e '[.items[].status.admission.podSetAssignments[]?.resourceUsage] == [{"sublet.dev/gpu-mem": "12", "sublet.dev/gpu-share": "60"}]'
}
