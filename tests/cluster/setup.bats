#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A bare node gets ready without a shell: deploy/kubernetes/node-setup, as its manifest says, on a containerd that has
# never heard of us; and it is as it was when the label says so. The simulator's nodes and libraries, which the base
# specification of a real node has no need of, are mounted by the pods themselves.
# shellcheck disable=SC2034,SC2154  # $with and $said are of pod, in pods.bash
bats_require_minimum_version 1.5.0
load pods

folders=(/opt/sublet /etc/containerd /etc/cdi /etc/kubernetes)

# What stands for systemd: containerd is started whenever it has ended.
keep_alive() {
        while [ -e "$cluster/keeps_alive" ]; do
                part_is_alive containerd || part_start containerd
                sleep 0.2
        done
}

containerd_with() { # FILE
        part_end containerd
        part_start containerd containerd -c "$1"
        until_ok 60 ctr -a "$cluster/containerd.sock" version
        until_ok 60 eval 'kubectl get node "$node" | grep -q " Ready"'
}

setup_file() {
        local folder
        gone
        for folder in "${folders[@]}"; do
                mkdir -p "$folder" "$cluster/bare$folder"
                mount --bind "$cluster/bare$folder" "$folder"
        done
        sed '/runtimes.sublet/,$d' "$cluster/containerd.toml" > /etc/containerd/config.toml
        cp /etc/containerd/config.toml "$cluster/bare.toml"
        containerd_with /etc/containerd/config.toml
        touch "$cluster/keeps_alive"
        keep_alive 3>&- &
}

teardown_file() {
        local folder
        kubectl delete -n sublet -f "$root/deploy/kubernetes/node-setup/setup.yaml" --ignore-not-found > /dev/null
        kubectl label node "$node" sublet.dev/setup- > /dev/null
        gone
        rm -f "$cluster/keeps_alive"
        sleep 1
        containerd_with "$cluster/containerd.toml"
        for folder in "${folders[@]}"; do umount -l "$folder"; done
}

setup() {
        # shellcheck disable=SC2016  # jq's
        with=$(printf '.spec.containers[0].volumeMounts = [$folders[] | {name: "sim\\(.key)", mountPath: .value}] |
                .spec.volumes = [$folders[] | {name: "sim\\(.key)", hostPath: {path: .value}}]')
        with="$(folders_of) as \$folders | $with"
}

teardown() {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || {
                cat /etc/containerd/config.toml
                kubectl -n sublet describe pods -l 'app.kubernetes.io/component in (node-setup, node-removal)' | tail -n 20
                kubectl -n sublet logs -l 'app.kubernetes.io/component in (node-setup, node-removal)' --tail=20
                tail -n 20 "$cluster/log/containerd"
                explain
        }
        gone
}

# The simulator's folders, as jq reads them
folders_of() {
        jq -cn --arg dir "$machine_dir" --arg preload "$machine_preload" --arg libraries "$machine_libraries" \
                '[$dir, ($preload | sub("/[^/]*$"; "")), ($libraries | split(":")[])] | unique | to_entries'
}

on_the_machine() { echo "export SUBLET_SIM=$machine_dir LD_LIBRARY_PATH=/lib:$machine_libraries LD_PRELOAD=$machine_preload; $1"; }

# The manifest, with the image that is here, this containerd's socket, and the simulated GPUs in the place of the driver
manifest() {
        kubectl create -n sublet --dry-run=client -o json -f "$root/deploy/kubernetes/node-setup/setup.yaml" | jq -c --argjson folders "$(folders_of)" \
                --arg dir "$machine_dir" --arg preload "$machine_preload" --arg libraries "$machine_libraries" --arg socket "/host$cluster/containerd.sock" '
                .spec.template.spec |= (.containers[0] |= (.image = "localhost/sublet:0.1.0" |
                        .args |= map(if . == "/host/run/containerd/containerd.sock" then $socket else . end) |
                        .env = [{name: "SUBLET_SIM", value: $dir}, {name: "LD_PRELOAD", value: $preload}, {name: "LD_LIBRARY_PATH", value: $libraries}] |
                        .volumeMounts += [$folders[] | {name: "sim\(.key)", mountPath: .value}]) |
                        .volumes += [$folders[] | {name: "sim\(.key)", hostPath: {path: .value}}])'
}

@test "on a bare node a pod that rents is not started, because the runtime is not there" {
        pod one "$(rents main 4 30 "$(on_the_machine 'gpu-families meminfo')")" || { echo "$said"; return 1; }
        until_ok 60 eval 'kubectl describe pod one | grep -q "no runtime for \"sublet\" is configured"'
        has_tenants 0
}

@test "labelled, the node gets the program, the specification and the runtime, and containerd is started again" {
        local pid
        pid=$(cat "$cluster/pids/containerd")
        manifest | kubectl apply -n sublet -f -
        kubectl label --overwrite node "$node" sublet.dev/setup=true
        until_ok 90 test -s /opt/sublet/etc/containerd.json
        until_ok 60 eval '[ "$(cat "$cluster/pids/containerd")" != "$pid" ]'
        until_ok 60 ctr -a "$cluster/containerd.sock" version
        grep -q '/opt/sublet/etc/containerd.json' /etc/containerd/config.toml
        pid=$(cat "$cluster/pids/containerd")
        pod one "$(rents main 4 30 "$(on_the_machine 'gpu-families meminfo; exec gpu-load -t 600 -k 20000 sync')")" || { echo "$said"; return 1; }
        phase one Running
        says one total_mib=4096
        grows one
        agree
        [ "$(cat "$cluster/pids/containerd")" = "$pid" ] # once
}

@test "its pod's end leaves the node as it is; the other label takes all of it back" {
        kubectl -n sublet delete pods -l app.kubernetes.io/component=node-setup --force --grace-period=0
        test -s /opt/sublet/etc/containerd.json
        kubectl label --overwrite node "$node" sublet.dev/setup=remove
        until_ok 90 cmp "$cluster/bare.toml" /etc/containerd/config.toml
        until_ok 30 eval '[ -z "$(find /opt/sublet /etc/cdi /etc/kubernetes -mindepth 1)" ]'
        until_ok 60 ctr -a "$cluster/containerd.sock" version
        pod one "$(rents main 4 30 "$(on_the_machine 'gpu-families meminfo')")" || { echo "$said"; return 1; }
        until_ok 60 eval 'kubectl describe pod one | grep -q "no runtime for \"sublet\" is configured"'
}
