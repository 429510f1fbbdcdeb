#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A kubelet that is killed while a runtime makes a container leaves its first process behind, which nobody starts. The
# container's tenant ends when kubelet's table has been without it for 25 s; a container that runs does not.
# variants: plain, because what a sanitizer would see of ours oci-runc.bats shows it
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
load ../machine
load ../daemon
load ../container

setup() {
        needs runc crun
        rootfs_make
        machine_start --memory 24G
        daemon_start
}

teardown() {
        [ -z "${reports:-}" ] || kill "$reports" || true
        local id
        for id in lost kept runs; do
                runc --root "$machine/runc" delete -f "$id" 2> /dev/null || true
        done
        in_own_mounts crun --root "$machine/crun" delete -f forked 2> /dev/null || true
        node_end
        machine_end
}

# pod_bundle NAME: of container NAME of pod u-NAME, which has 1 GiB by the table
pod_bundle() {
        bundle "$1" '.annotations = {"io.kubernetes.cri.sandbox-uid": "u-'"$1"'", "io.kubernetes.cri.sandbox-namespace": "shop",
                "io.kubernetes.cri.sandbox-name": "web", "io.kubernetes.cri.container-name": "'"$1"'"}' \
                /bin/sh -c 'exec sleep 300'
}

# report NAME...: the whole table
report() {
        local name rows=''
        for name; do
                rows+="${rows:+,}{\"pod\":\"u-$name\",\"namespace\":\"shop\",\"name\":\"web\",\"container\":\"$name\",\"device\":0,\"mem_bytes\":1073741824}"
        done
        curl -sS --max-time 10 --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/v1/allocations -X PUT -d "{\"allocations\":[$rows]}"
}

# made NAME: by runc, and not started
made() {
        pod_bundle "$1"
        runc --root "$machine/runc" create -b "$bundles/$1" "$1" < /dev/null > "$machine/$1" 2>&1 3>&-
}

is_there() {
        "$sublet" ps -q | grep -qx "shop.web.$1"
}

told() {
        "$sublet" events --json | jq -se --arg t "shop.web.$1" 'any(.name == "GHOST_ENDED" and .tenant == $t)' > /dev/null
}

@test "a container that was made and never started ends after its pod; one that runs, or is still allocated, does not" {
        report lost kept runs forked
        made lost
        made kept
        made runs
        runc --root "$machine/runc" start runs
        pod_bundle forked
        in_own_mounts crun --root "$machine/crun" create -b "$bundles/forked" forked < /dev/null > "$machine/forked" 2>&1 3>&-
        for name in lost kept runs forked; do
                wait_for is_there "$name"
        done
        (while report kept > /dev/null; do sleep 2; done) 3>&- &
        reports=$!
        sleep 12
        is_there lost
        is_there forked
        wait_for eval '! is_there lost && ! is_there forked'
        told lost # forked has only a lease that was kept for it: crun installs the filter at the start
        is_there kept
        is_there runs
        run told runs
        [ "$status" -ne 0 ]
        [ "$(runc --root "$machine/runc" state runs | jq -r .status)" = running ]
        [ "$(runc --root "$machine/runc" state kept | jq -r .status)" = created ]
}
