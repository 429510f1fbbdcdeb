# SPDX-License-Identifier: Apache-2.0
# Helpers of integration tests with a container runtime, besides machine.bash and daemon.bash: a root directory with
# the test programs, bundles made by our own generators, and checks of what this machine lacks.
# shellcheck shell=bash disable=SC2034,SC2154  # read by tests, set by bats and machine.bash set

# needs PROGRAM...: skips with the reason where a program of `tools/deps containers` is missing or containers cannot run
needs() {
        local program
        [ "$(id -u)" = 0 ] || skip 'containers need root'
        for program in "$@" busybox jq; do
                command -v "$program" > /dev/null || skip "no $program here: tools/deps containers"
        done
}

# A root directory for all tests of the file: busybox, and the libraries of the test programs (which are mounted on /t).
rootfs_make() {
        local file
        rootfs=${BATS_FILE_TMPDIR:-$BATS_TEST_TMPDIR}/rootfs
        [ ! -d "$rootfs" ] || return 0
        mkdir -p "$rootfs"/{bin,dev,etc,proc,sys,t,tmp}
        cp "$(command -v busybox)" "$rootfs/bin/busybox"
        for file in sh sleep cat ls env grep id kill mkdir; do
                ln -s busybox "$rootfs/bin/$file"
        done
        ldd "$plain"/tests/gpu/gpu-{families,load,memb} "$plain"/src/sim/libsublet-sim.so "$plain"/src/sim/*/lib*.so.1 |
                grep -o '/[^ ]*' | grep '^/lib\|^/usr/lib' | sort -u | while read -r file; do
                mkdir -p "$rootfs${file%/*}" && cp -L "$file" "$rootfs$file"
        done
}

# On the machine, with the daemon's directory: our generators.
generate() {
        on "$sublet" "$@" --dir "$SUBLET_DIR"
}

# bundle NAME JQ-EDIT COMMAND...: $bundles/NAME, a bundle as docs/containers.md makes one for plain runc and crun
bundle() {
        local name=$1 edit=$2
        shift 2
        bundles=$BATS_TEST_TMPDIR/bundles
        mkdir -p "$bundles/$name"
        (cd "$bundles/$name" && rm -f config.json && runc spec) || return 1
        generate cdi generate --no-hook > "$bundles/$name/cdi.json" || return 1
        generate oci spec --runtime "$bundles/$name/config.json" > "$bundles/$name/ours.json" || return 1
        jq --slurpfile cdi "$bundles/$name/cdi.json" --arg root "$rootfs" --arg programs "$plain/tests/gpu" '
                ($cdi[0].devices[] | select(.name == "all") | .containerEdits) as $device
                | $cdi[0].containerEdits as $common
                | .process.env += ($common.env // []) + ($device.env // [])
                | .mounts += [$common.mounts[] | {destination: .containerPath, source: .hostPath, type: "bind", options: .options}]
                | .mounts += [{destination: "/t", source: $programs, type: "bind", options: ["ro", "rbind"]}]
                | .root = {path: $root, readonly: false} | .process.terminal = false
                | .process.args = $ARGS.positional
                | '"$edit"' | .annotations["run.oci.hooks.stderr"] = "/dev/stderr"' \
                "$bundles/$name/ours.json" --args -- "$@" > "$bundles/$name/config.json"
}

# A private place for crun, which refuses the hybrid layout of control groups; the machine keeps its own.
in_own_mounts() {
        unshare -m -- sh -c 'umount /sys/fs/cgroup/unified 2> /dev/null; exec "$@"' - "$@"
}

# the tenants that the daemon knows now
has_tenants() {
        [ "$("$sublet" ps -q | wc -l)" -eq "$1" ]
}
