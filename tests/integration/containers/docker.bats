#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Docker's containers rent: dockerd with `sublet oci runtime`, as docs/docker.md says. The engine is one of our own,
# beside whatever runs on this machine.
# later: because of packages that `make deps` does not install
# variants: plain, because Docker is not ours, and oci-runc runs the runtime itself with all
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container

setup() {
        needs dockerd docker runc
        rootfs_make
        machine_start --memory 24G
        daemon_start
        engine_start
}

teardown() {
        engine_end
        node_end
        machine_end
}

# dockerd with its own everything; no network, since nothing here needs one. A socket's path is short.
engine_start() {
        engine=$machine/docker
        mkdir -p "$engine"
        cat > "$engine/runc" << 'END'
#!/bin/sh
unset SUBLET_SIM LD_PRELOAD LD_LIBRARY_PATH
exec runc "$@"
END
        cat > "$engine/sublet" << END
#!/bin/sh
export SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries
exec $sublet "\$@"
END
        chmod +x "$engine"/{runc,sublet}
        # as docs/docker.md has it, but for what is simulated
        jq -n --arg path "$engine/sublet" --arg dir "$SUBLET_DIR" --arg runc "$engine/runc" \
                '["oci", "runtime", "--dir", $dir, "--runc", $runc] as $arguments
                | {runtimes: {sublet: {path: $path, runtimeArgs: $arguments},
                        "sublet-chat": {path: $path, runtimeArgs: ($arguments + ["--group", "chat"])}}}' > "$engine/daemon.json"
        dockerd --config-file "$engine/daemon.json" --data-root "$engine/data" --exec-root "$engine/exec" --pidfile "$engine/pid" \
                -H "unix://$engine/s" --storage-driver vfs --iptables=false --ip6tables=false --ip-masq=false --bridge=none \
                > "$engine/log" 2>&1 3>&- &
        dockerd=$!
        export DOCKER_HOST=unix://$engine/s DOCKER_CONFIG=$engine
        wait_for eval 'docker version || ! kill -0 "$dockerd"'
        docker version > /dev/null 2>&1 || skip "dockerd does not start here: $(grep -o 'msg=.*' "$engine/log" | tail -n 1)"
        tar -C "$rootfs" -c . | docker import - test > /dev/null
}

engine_end() {
        [ -n "${dockerd:-}" ] || return 0
        docker ps -aq | xargs -r docker rm -f > /dev/null 2>&1 || true
        kill "$dockerd" 2> /dev/null || true
        wait "$dockerd" 2> /dev/null || true
        grep "$engine/" /proc/self/mountinfo | cut -d ' ' -f 5 | sort -r | xargs -r umount -l || true
        dockerd=''
}

# rents OPTION... IMAGE COMMAND...
rents() {
        docker run --rm --network none --runtime sublet -v "$plain/tests/gpu:/t:ro" "$@" < /dev/null 3>&-
}

@test "docker run --runtime sublet -e SUBLET_MEM=1G: its quota, its tenant, its exit code" {
        run rents -e SUBLET_MEM=1G -e SUBLET_SHARE=50 test /bin/sh -c '/t/gpu-families alloc 32; exit 7'
        echo "$output"
        [ "$status" -eq 7 ]
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        wait_for has_tenants 0

        # what is put in later is the same tenant's
        id=$(rents -d -e SUBLET_MEM=2G -e SUBLET_SHARE=25 test /bin/sh -c '/t/gpu-families meminfo; exec sleep 600')
        wait_for eval 'docker logs "$id" 2>&1 | grep -q total_mib=2048'
        [ "$("$sublet" ps --json | jq -r '.[0].container.id')" = "$id" ]
        # docker exec has the image's environment, so what the simulator needs is the first process's
        # shellcheck disable=SC2016  # for the inner shell
        run -0 docker exec "$id" /bin/sh -c 'export $(busybox tr "\0" "\n" < /proc/1/environ | grep -e _SIM= -e ^LD_)
                exec /t/gpu-families meminfo'
        [ "$(value total_mib "$output")" -eq 2048 ]
        has_tenants 1
        docker rm -f "$id" > /dev/null
        wait_for has_tenants 0
        [ "$("$sublet" ps -a --json | jq -c '[.[].devices[0].held_bytes] | unique')" = '[0]' ]
}

@test "a runtime with --group NAME: its containers see their group's MPS server, and no others do" {
        daemon_end TERM
        PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH daemon_start
        id=$(rents -d --runtime sublet-chat -e SUBLET_MEM=1G test /bin/sh -c '/t/gpu-families meminfo; exec sleep 600')
        wait_for eval 'docker logs "$id" 2>&1 | grep -q total_mib=1024'
        [ "$("$sublet" ps --json | jq -r '.[0].group')" = chat ]
        run -0 docker exec "$id" ls /tmp/nvidia-mps
        [[ $output == *control* ]]
        run -0 rents -e SUBLET_MEM=1G test /bin/sh -c 'ls /tmp'
        [[ $output != *nvidia-mps* ]]
        docker rm -f "$id" > /dev/null
        wait_for has_tenants 0
}

@test "docker says why a container was not started" {
        run rents -e SUBLET_MEM=999G test /bin/sh -c 'echo it ran'
        echo "$output"
        [ "$status" -eq 125 ] # Docker's own
        [[ $output == *'999G is more than device 0 has'* && $output != *'it ran'* ]]
        run rents -e NVIDIA_VISIBLE_DEVICES=all test /bin/sh -c 'echo it ran'
        echo "$output"
        [[ $status -ne 0 && $output == *'sublet: no lease for '* && $output != *'it ran'* ]]
        mv "$machine_dir/sys/module/nvidia/version" "$machine/version" # what the profile would be written for
        run rents -e SUBLET_MEM=1G test /bin/sh -c 'echo it ran'
        mv "$machine/version" "$machine_dir/sys/module/nvidia/version"
        echo "$output"
        [[ $status -ne 0 && $output == *'OCI runtime create failed: sublet: '* && $output != *'it ran'* ]]
        daemon_end TERM
        run rents -e SUBLET_MEM=1G test /bin/sh -c 'echo it ran'
        echo "$output"
        [[ $status -ne 0 && $output == *'no daemon answers in'* && $output != *'it ran'* ]]
}

@test "deploy/compose: two services of one device, half of its time each" {
        command -v docker-compose > /dev/null || skip 'no docker-compose here: tools/deps docker'
        # What the example leaves to its images; there is no network here.
        cat > "$engine/more.yaml" << END
x-service: &service
  network_mode: none
  volumes: ["$plain/tests/gpu:/t:ro"]
  command: ["/bin/sh", "-c", "/t/gpu-families meminfo; exec sleep 600"]
services: {chat: *service, embed: *service}
END
        export CHAT_IMAGE=test EMBED_IMAGE=test
        compose=(docker-compose --ansi never -p pair -f "$BATS_TEST_DIRNAME/../../../deploy/compose/compose.yaml" -f "$engine/more.yaml")
        "${compose[@]}" up -d < /dev/null 3>&- || { tail -n 5 "$engine/log"; return 1; }
        wait_for eval '[ "$("${compose[@]}" logs 2> /dev/null | grep -c total_mib=10240)" -eq 2 ]'
        run -0 "$sublet" ps --json
        echo "$output"
        [ "$(jq -c '[.[] | [.devices[0].quota_bytes, .devices[0].share_permille]] | unique' <<< "$output")" = "[[$((10240 * MIB)),500]]" ]
        has_tenants 2
        "${compose[@]}" kill < /dev/null 3>&-
        wait_for has_tenants 0
}
