#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# runc starts tenants: with the profile and the hook that `sublet oci spec` writes, in bundles as docs/containers.md
# has them.
# variants: plain address, because src/oci has no threads, and agent.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../oci

setup() {
        needs runc
        rootfs_make
        machine_start --memory 24G
        daemon_start
        # shellcheck disable=SC2034
        started=() # processes that a test leaves, for oci.bash
}

teardown() {
        local id
        for id in a b c d e f g h; do
                runc --root "$machine/runc" delete -f "$id" 2> /dev/null || true
        done
        node_end
        machine_end
}

runtime() {
        case $1 in
        run) runc --root "$machine/runc" run -b "$2" "$3" ;;
        kill) runc --root "$machine/runc" kill "$2" "$3" ;;
        exec) runc --root "$machine/runc" exec "${@:2}" ;;
        esac
}

@test "a container sees its quota, and is stopped there" {
        sees_its_quota_and_stops_there
}

@test "it has the parts of the driver that its image names" {
        has_the_capabilities_that_its_image_names
}

@test "it is a tenant of the daemon until it ends" {
        is_a_tenant_of_the_daemon_until_it_ends
}

@test "without a lease it is not started, and the runtime says why" {
        is_not_started_without_a_lease
}

@test "a device belongs behind a gate of this driver's" {
        is_not_let_near_a_device_under_another_profile
}

@test "it does not mind being stopped in the middle of driver calls" {
        does_not_mind_being_stopped
}

@test "it does not notice that the daemon is killed and comes back" {
        outlives_the_daemon
}

@test "without a daemon it is not started" {
        is_not_started_without_a_daemon
}

@test "what is put into it later is the same tenant's" {
        execs_into_the_same_tenant
}

@test "of a trust group it is a client of the group's MPS server, and of no other" {
        shares_its_groups_server_and_no_other
}

@test "what a group cannot give it is refused" {
        is_refused_what_its_group_cannot_have
}

@test "root of a user namespace of its own is a tenant like any" {
        local dir=$rootfs
        mps_daemon_start
        bundle h '.annotations = {"sublet.dev/mem": "1G", "sublet.dev/group": "g"}
                | .linux.namespaces += [{type: "user"}]
                | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
                | .linux.gidMappings = .linux.uidMappings' \
                /bin/sh -c 'cat /proc/self/uid_map; ls /tmp/nvidia-mps; /t/gpu-families alloc 32; /t/gpu-families managed 64'
        chmod -R a+rwX "$rootfs" "$machine" 2> /dev/null || true
        while [ "$dir" != / ]; do # which that user has to pass
                chmod a+x "$dir"
                dir=$(dirname "$dir")
        done
        run runtime run "$bundles/h" h
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *100000*control*'last=CUDA_ERROR_OUT_OF_MEMORY total_mib=1024'*'family=managed'* ]]
        wait_for has_tenants 0
        [ "$("$sublet" ps -a --json | jq -c '[.[].devices[0].held_bytes] | unique')" = '[0]' ]
        "$sublet" events --json | jq -se 'all(.name != "TENANT_UNREADABLE")'
}

# ---- sublet oci runtime: the same from a bundle that knows nothing of us, as an engine makes it --------------------

# as_engine ARGUMENT...: as Docker calls a runtime; runc itself is not on the simulated machine
as_engine() {
        [ -e "$machine/runc.sh" ] || printf '#!/bin/sh\nunset SUBLET_SIM LD_PRELOAD LD_LIBRARY_PATH\nexec runc "$@"\n' > "$machine/runc.sh"
        chmod +x "$machine/runc.sh"
        on "$sublet" oci runtime --dir "$SUBLET_DIR" --runc "$machine/runc.sh" ${AS_GROUP:+--group "$AS_GROUP"} \
                --root "$machine/runc" --log "$machine/log.json" --log-format json "$@"
}

# engine_bundle NAME JQ-EDIT COMMAND...: runc's own specification, and the test programs
engine_bundle() {
        bundles=$BATS_TEST_TMPDIR/bundles
        mkdir -p "$bundles/$1"
        (cd "$bundles/$1" && rm -f config.json && runc spec)
        jq --arg root "$rootfs" --arg programs "$plain/tests/gpu" '.process.args = $ARGS.positional | .process.terminal = false
                | .mounts += [{destination: "/t", source: $programs, type: "bind", options: ["ro", "rbind"]}]
                | .root = {path: $root, readonly: false} | '"$2" "$bundles/$1/config.json" --args -- "${@:3}" > "$bundles/$1/new"
        mv "$bundles/$1/new" "$bundles/$1/config.json"
}

said_to_engine() {
        jq -rs 'map(select(.level == "error")) | last.msg' "$machine/log.json"
}

@test "sublet oci runtime: an engine's container has the quota of its environment, and runc's exit code" {
        engine_bundle a '.process.env += ["SUBLET_MEM=1G", "SUBLET_SHARE=50", "NVIDIA_VISIBLE_DEVICES=all"]' \
                /bin/sh -c 'env | grep VISIBLE; /t/gpu-families alloc 32; exit 7'
        run as_engine run --bundle "$bundles/a" a
        echo "$output"
        [ "$status" -eq 7 ]
        [[ $output == *'NVIDIA_VISIBLE_DEVICES=void'* && $output != *VISIBLE_DEVICES=all* ]]
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        wait_for has_tenants 0
        jq -S . "$bundles/a/config.json" > "$machine/once"
        run as_engine run -b "$bundles/a" a # the same bundle again
        [ "$status" -eq 7 ]
        jq -S . "$bundles/a/config.json" | cmp - "$machine/once"
}

@test "sublet oci runtime: created, started, entered and ended as by runc" {
        engine_bundle b '.process.env += ["SUBLET_MEM=1G"]' /bin/sh -c '/t/gpu-families meminfo; exec sleep 60'
        (cd "$bundles/b" && as_engine create --pid-file "$BATS_TEST_TMPDIR/pid" b < /dev/null > "$machine/b" 2>&1 3>&-)
        [ "$(as_engine state b | jq -r .status)" = created ]
        as_engine start b
        wait_for says b total_mib=1024
        run -0 as_engine exec b /t/gpu-families alloc 32
        [ "$(value total_mib "$output")" -eq 1024 ]
        as_engine kill b KILL
        wait_for eval '[ "$(as_engine state b | jq -r .status)" = stopped ]'
        as_engine delete b
        wait_for has_tenants 0
        [ "$(as_engine --version)" = "$(runc --version)" ]
        run -1 as_engine state b
        [[ $output == *'container does not exist'* ]]
}

@test "sublet oci runtime: its containers are of the group that it was given" {
        mps_daemon_start
        engine_bundle a '.process.env += ["SUBLET_MEM=1G", "SUBLET_SHARE=50", "SUBLET_GROUP=its-images"]' \
                /bin/sh -c 'ls /tmp/nvidia-mps; /t/gpu-families meminfo; exec sleep 60'
        "$sublet" oci runtime --help | grep -q -- '--group NAME'
        AS_GROUP=chat as_engine run --bundle "$bundles/a" a < /dev/null > "$machine/a" 2>&1 3>&- &
        wait_for says a total_mib=1024
        [ "$("$sublet" ps --json | jq -c '[.[] | [.tenant, .group, .share_asked_permille]]')" = '[["a","chat",500]]' ]
        says a control
        as_engine kill a KILL
        wait_for has_tenants 0
        AS_GROUP=chat engine_bundle b '.' /bin/sh -c 'ls /tmp/nvidia-mps; echo it ran'
        AS_GROUP=chat run -0 as_engine run --bundle "$bundles/b" b # it asks for nothing, and has no group either
        [[ $output == *'it ran'* && $output != *control* ]]
}

@test "sublet oci runtime: what gets no gate is not started, and the engine is told why" {
        engine_bundle c '.process.env += ["SUBLET_MEM=999G"]' /bin/sh -c 'echo it ran'
        run -1 as_engine run -b "$bundles/c" c
        [[ $(said_to_engine) == *'999G is more'* && $output != *'it ran'* ]]
        engine_bundle c '.process.env += ["NVIDIA_VISIBLE_DEVICES=all"]' /bin/sh -c 'echo it ran'
        run -1 as_engine run -b "$bundles/c" c # it expects a device and has no lease
        [[ $(said_to_engine) == *'sublet: no lease for c: '* && $output != *'it ran'* ]]
        echo '{"ociVersion": "1.0.2"' > "$bundles/c/config.json"
        run -1 as_engine run -b "$bundles/c" c
        [[ $(said_to_engine) == "sublet: $bundles/c/config.json, line "* && $output == "$(said_to_engine)" ]]
        run -1 as_engine run -b "$bundles/none" c
        [[ $(said_to_engine) == "sublet: opening $bundles/none/config.json: "* ]]
        run -1 as_engine restore -b "$bundles/c" c
        [[ $(said_to_engine) == 'sublet: restore: '*'start it' ]]
        run -1 as_engine --no-such word run -b "$bundles/c" c
        [[ $(said_to_engine) == 'sublet: --no-such: an option of another runtime'* ]]
        run -1 "$sublet" oci runtime --runc /no/runc --log "$machine/log" list
        [[ $output == 'sublet: starting /no/runc: No such file or directory' ]]
        grep -q 'level=error msg="sublet: starting /no/runc' "$machine/log"
        engine_bundle c '.process.env += ["SUBLET_MEM=1G"]' /bin/sh -c 'echo it ran'
        daemon_end TERM
        run -1 as_engine run -b "$bundles/c" c
        [[ $(said_to_engine) == *'no daemon answers in'* && $output != *'it ran'* ]]
}
