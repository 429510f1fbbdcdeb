#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet node` on directories that stand for a host: written once, again after whatever interrupted it, and taken back
# as if it had never been there. What containerd 1.6 makes of the configuration, it says itself.
# variants: plain, because the program is copied with its libraries, and a sanitizer's are no part of it
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --gpus 2
        host=$BATS_TEST_TMPDIR/host
        mkdir -p "$host/opt" "$host/etc/containerd"
        printf 'version = 2\n# mine\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "mine:1"\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n  SystemdCgroup = true' \
                > "$host/etc/containerd/config.toml"
        chmod 640 "$host/etc/containerd/config.toml"
        cp -a "$host" "$host.was"
}

teardown() {
        [ -z "${watcher:-}" ] || kill -KILL "$watcher" 2> /dev/null || true
        machine_end
}

node() {
        on "$sublet" node "$@" --host "$host"
}

# what the host has, with modes and bytes
all_of() {
        (cd "$1" && find . -printf '%p %y %m %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

is_as_it_was() {
        diff <(all_of "$host.was") <(all_of "$host")
}

@test "installed, a host has program, specification, runtime, devices and labels; twice changes nothing" {
        run node install
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == "driver 580.159.04: "*" files written"*"containerd has to be started again"* ]]
        cmp "$sublet" "$host/opt/sublet/bin/sublet"
        jq -e '.linux.seccomp.listenerPath == "/run/sublet/seccomp.sock" and .process.noNewPrivileges' "$host/opt/sublet/etc/containerd.json"
        jq -e '.syscalls' "$host/opt/sublet/etc/seccomp.json" > /dev/null
        jq -e '.kind == "sublet.dev/gpu"' "$host/etc/cdi/sublet.json"
        diff - "$host/etc/kubernetes/node-feature-discovery/features.d/sublet" << 'END'
sublet.dev/gpu=true
sublet.dev/gpu.count=2
sublet.dev/gpu.model=NVIDIA-H200
sublet.dev/gpu.memory-mib=143771
sublet.dev/driver=580.159.04
END
        all_of "$host" > "$BATS_TEST_TMPDIR/first"
        find "$host" -printf '%p %i %C@\n' > "$BATS_TEST_TMPDIR/times"
        run -0 node install
        [ "$output" = "driver 580.159.04: nothing to change" ]
        diff "$BATS_TEST_TMPDIR/first" <(all_of "$host")
        diff "$BATS_TEST_TMPDIR/times" <(find "$host" -printf '%p %i %C@\n')
}

@test "the program starts on a host that has no library, by the hook's own words" {
        node install > /dev/null
        mapfile -t words < <(jq -r '.hooks.createRuntime[0] | .path, .args[1:][]' "$host/opt/sublet/etc/containerd.json")
        run unshare -r chroot "$host" "${words[@]}" < /dev/null
        echo "$output"
        [ "$status" -ne 0 ]
        [[ $output == "sublet: hook: what is on stdin is no state of a container"* ]]
        [ "$(jq -r '.containerEdits.hooks[0].path' "$host/etc/cdi/sublet.json")" = "${words[0]}" ]
}

@test "containerd 1.6 reads version 2 with the node's own settings beside our runtime" {
        command -v containerd > /dev/null || skip "no containerd"
        node install > /dev/null
        containerd -c "$host/etc/containerd/config.toml" config dump > "$BATS_TEST_TMPDIR/dump"
        grep -q 'sandbox_image = "mine:1"' "$BATS_TEST_TMPDIR/dump"
        grep -q 'base_runtime_spec = "/opt/sublet/etc/containerd.json"' "$BATS_TEST_TMPDIR/dump"
        [ "$(grep -c 'SystemdCgroup = true' "$BATS_TEST_TMPDIR/dump")" -eq 2 ]
}

@test "version 3 gets a drop-in, in whose directory others keep theirs" {
        printf 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n' > "$host/etc/containerd/config.toml"
        mkdir "$host/etc/containerd/conf.d"
        echo 'version = 3' > "$host/etc/containerd/conf.d/mine.toml"
        rm -r "$host.was"
        cp -a "$host" "$host.was"
        node install > /dev/null
        cmp "$host/etc/containerd/config.toml" "$host.was/etc/containerd/config.toml"
        grep -q "^\[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.sublet\]$" "$host/etc/containerd/conf.d/sublet.toml"
        node remove
        is_as_it_was
}

@test "removed, the host is as it was, byte for byte; also one that had no configuration" {
        node install > /dev/null
        run -0 node remove
        [[ $output == *" files taken back"* ]]
        is_as_it_was
        run -0 node remove
        [ "$output" = "nothing is here" ]
        rm "$host/etc/containerd/config.toml" "$host.was/etc/containerd/config.toml"
        node install > /dev/null
        grep -qx 'version = 2' "$host/etc/containerd/config.toml"
        node remove > /dev/null
        is_as_it_was
}

@test "what an administrator changes meanwhile stays when ours is taken back" {
        node install > /dev/null
        sed -i 's/mine:1/mine:2/' "$host/etc/containerd/config.toml"
        echo '# later' >> "$host/etc/containerd/config.toml"
        node install > /dev/null
        node remove > /dev/null
        [ "$(tail -1 "$host/etc/containerd/config.toml")" = '# later' ]
        grep -q 'mine:2' "$host/etc/containerd/config.toml"
        run ! grep -q sublet "$host/etc/containerd/config.toml"
}

@test "killed at any moment, the next run makes it whole, or takes it back" {
        local i
        for i in $(seq 40); do
                on timeout -s KILL "0.$(printf '%03d' $((i * 7)))" "$sublet" node install --host "$host" > "$BATS_TEST_TMPDIR/said" 2>&1 || true
                if [ $((i % 2)) -eq 0 ]; then
                        node install > "$BATS_TEST_TMPDIR/said"
                        run -0 node install
                        [ "$output" = "driver 580.159.04: nothing to change" ]
                        [ -z "$(find "$host" -name '.*.new')" ]
                fi
                node remove > /dev/null
                is_as_it_was
        done
}

@test "what an interrupted run changed still asks for containerd's restart" {
        node install > /dev/null
        sed -i '1i busy' "$host/opt/sublet/state" # what a run leaves that was killed before its last step
        run -0 node install
        [ "$output" = "containerd has to be started again: systemctl restart containerd" ]
        run -0 node install
        [ "$output" = "driver 580.159.04: nothing to change" ]
}

@test "a file of others in the way, a link, an odd configuration: one line, and nothing is written" {
        refuses() {
                local before
                before=$(all_of "$host" | grep -v '/opt')
                run -1 node install
                echo "$output"
                [ "${#lines[@]}" -eq 1 ]
                [[ $output == *"$1"* ]]
                [ "$before" = "$(all_of "$host" | grep -v '/opt')" ]
                [ -z "$(find "$host/opt" -type f)" ]
        }
        mkdir "$host/etc/cdi"
        echo '{}' > "$host/etc/cdi/sublet.json"
        refuses "/etc/cdi/sublet.json is there and not ours: move it away first"
        rm -r "$host/etc/cdi"
        printf 'version = 1\n' > "$host/etc/containerd/config.toml"
        refuses "/etc/containerd/config.toml: version 1, and 2 and 3 are known here"
        "$sublet" oci config > "$host/etc/containerd/config.toml"
        sed -i '1i version = 2' "$host/etc/containerd/config.toml"
        refuses "runtime sublet is there already"
        printf 'version = 2\nopen = "\n' > "$host/etc/containerd/config.toml"
        refuses "config.toml: line 2 is not understood"
        ln -sf config.was "$host/etc/containerd/config.toml"
        refuses "Too many levels of symbolic links"
        cp --remove-destination "$host.was/etc/containerd/config.toml" "$host/etc/containerd/config.toml"
        rm -r "$host/opt"
        run -1 node install
        [[ $output == "sublet: creating $host/opt/sublet: No such file or directory" ]]
}

@test "a directory that nobody may write gives one line, and what was written is taken back" {
        [ "$(id -u)" -eq 0 ] || skip "only root mounts"
        mkdir "$host/etc/cdi"
        # shellcheck disable=SC2016  # for the inner shell
        run on unshare -m sh -c 'mount -t tmpfs -o ro none "$2/etc/cdi" && exec "$1" node install --host "$2"' - "$sublet" "$host"
        echo "$output"
        [ "$status" -eq 1 ]
        [ "$output" = "sublet: writing $host/etc/cdi/sublet.json: Read-only file system" ]
        node remove > /dev/null
        rmdir "$host/etc/cdi"
        is_as_it_was
}

@test "watch notices another driver and a changed configuration, waits for a driver, and takes all back at its end" {
        release=$machine_dir/sys/module/nvidia/version
        mv "$release" "$release.away"
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" node watch --host "$host" --every 100ms --remove-on-exit > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
        watcher=$!
        said() { grep -q -e "$1" "$BATS_TEST_TMPDIR/said" || { sleep 0.1; return 1; }; }
        wait_for said 'no NVIDIA driver is loaded here.*; again every'
        mv "$release.away" "$release"
        wait_for said '^driver 580.159.04: .* files written$'
        echo 580.126.09 > "$release"
        wait_for said '^driver 580.126.09: '
        wait_for grep -q '^sublet.dev/driver=580.126.09$' "$host/etc/kubernetes/node-feature-discovery/features.d/sublet"
        jq -e '.linux.seccomp.listenerMetadata | endswith(" 580.126.09")' "$host/opt/sublet/etc/containerd.json"
        cp "$host.was/etc/containerd/config.toml" "$host/etc/containerd/config.toml"
        wait_for said '^driver 580.126.09: 1 file written$'
        kill -TERM "$watcher"
        wait "$watcher"
        cat "$BATS_TEST_TMPDIR/said"
        [ "$(grep -c 'no NVIDIA driver' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
        is_as_it_was
}

@test "told to, it ends the containerd of a socket, and nobody else's process" {
        command -v containerd > /dev/null || skip "no containerd"
        [ "$(id -u)" -eq 0 ] || skip "only root runs containerd"
        sock=$machine/c.sock
        printf 'version = 2\nroot = "%s/c.root"\nstate = "%s/c.state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "%s"\n' \
                "$machine" "$machine" "$sock" > "$host/etc/containerd/config.toml"
        containerd -c "$host/etc/containerd/config.toml" > "$BATS_TEST_TMPDIR/containerd" 2>&1 3>&- &
        watcher=$!
        wait_for ctr -a "$sock" version
        run node install --restart "$sock"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"containerd was ended, and its unit starts it again" ]]
        run ! kill -0 "$watcher"
        run -0 node install --restart "$sock"
        [ "$output" = "driver 580.159.04: nothing to change" ]
        run -1 node remove --restart "$machine_dir/control"
        echo "$output"
        kill -0 "$machine_process"
}

@test "the pods of node-setup run the verb with words that it takes, on labelled nodes only, and without the API" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        run -0 /usr/bin/python3 - "$BATS_TEST_DIRNAME/../../../deploy/kubernetes/node-setup/setup.yaml" << 'END'
import sys, yaml
labels = {}
for one in yaml.safe_load_all(open(sys.argv[1])):
    pod = one['spec']['template']['spec']
    [container], [volume] = pod['containers'], pod['volumes']
    assert pod['automountServiceAccountToken'] is False and volume['hostPath']['path'] == '/'
    labels[container['args'][1]] = pod['nodeSelector']['sublet.dev/setup']
    print(*container['args'])
assert labels == {'watch': 'true', 'remove': 'remove'}, labels
END
        [ "${#lines[@]}" -eq 2 ]
        for words in "${lines[@]}"; do
                # shellcheck disable=SC2086  # words
                run -0 "$sublet" $words --help
        done
}
