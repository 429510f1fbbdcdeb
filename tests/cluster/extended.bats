#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A plain resource that becomes a claim (DRA), in a cluster with that gate: SUBLET_GATES=DRAExtendedResource=true
# tests/cluster/run --today build bats .../extended.bats
# shellcheck disable=SC2034  # $with is for pod, of pods.bash
bats_require_minimum_version 1.5.0
load pods

has_gate() { [ -n "${SUBLET_TODAY:-}" ] && [[ ${SUBLET_GATES:-} = *DRAExtendedResource=true* ]]; }

setup_file() {
        has_gate || return 0
        part_end plugin
        kubectl apply -n sublet -f "$root/deploy/kubernetes-dra/access.yaml" -f "$root/deploy/kubernetes-dra/class.yaml" > /dev/null
        kubectl patch deviceclass sublet --type json -p '[{"op": "add", "path": "/spec/extendedResourceName", "value": "sublet.dev/gpu"}]'
        kubectl -n sublet create token --duration=8h dra-driver > "$cluster/dra-driver.token"
        part_start driver "$sublet" dra-driver --node "$node" --server "https://$address" --cdi '' --state "$cluster/claims.json" \
                --token-file "$cluster/dra-driver.token" --ca-file "$cluster/certificates/apiserver.crt"
        until_ok 60 grep -q 'registered with kubelet' "$cluster/log/driver"
        until_ok 60 eval '[ "$(kubectl get resourceslices -o json | jq "[.items[].spec.devices[]] | length")" = 2 ]'
}

teardown_file() {
        has_gate || return 0
        part_end driver
        kubectl delete -n sublet -f "$root/deploy/kubernetes-dra/access.yaml" -f "$root/deploy/kubernetes-dra/class.yaml" > /dev/null
        part_start plugin
}

setup() {
        has_gate || skip "not a cluster of today with DRAExtendedResource"
        with='.spec.runtimeClassName = "sublet"'
}

teardown() {
        has_gate || return 0
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                explain
                kubectl get resourceclaims -o yaml
                tail -n 20 "$cluster/log/driver" "$cluster/log/scheduler"
        }
        gone
}

# asks COUNT [NAME]: a container with so many of the plain resource
asks() {
        jq -cn --arg n "$1" --arg name "${2:-sublet.dev/gpu}" '{name: "main", image: "localhost/gpu:1", imagePullPolicy: "Never", command: ["sh", "-c", "gpu-families meminfo; exec gpu-load -t 600 idle"],
                resources: {limits: {($name): $n}}}'
}

@test "a pod with a plain sublet.dev/gpu gets a claim, and a whole GPU by it; what is full lets the next wait" {
        local name
        for name in a b; do pod $name "$(asks 1)" || { echo "$said"; return 1; }; done
        for name in a b; do says $name total_mib=16384; done
        [ "$(kubectl get pod a -o 'jsonpath={.status.extendedResourceClaimStatus.requestMappings[0].resourceName}')" = sublet.dev/gpu ]
        has_tenants 2
        [ "$(tenant a main index)" != "$(tenant b main index)" ]
        pod c "$(asks 1)"
        until_ok 60 eval 'kubectl describe pod c | grep -q "cannot allocate all claims"'
        gone a
        says c total_mib=16384
}

@test "two of it for a container are refused, and the scheduler goes on" {
        refused two "$(asks 2)"
        [[ $said = *'one GPU of class sublet'* ]] || { echo "$said"; return 1; }
        refused two "$(asks 2 deviceclass.resource.kubernetes.io/sublet)" # which needs no extendedResourceName
        [[ $said = *'one GPU of class sublet'* ]] || { echo "$said"; return 1; }
        part_is_alive scheduler
        pod one "$(asks 1)"
        says one total_mib=16384
}
