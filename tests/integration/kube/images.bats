#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The image is made without a network, of this build and the Debian packages that it was linked with; its verbs run
# from it.
# variants: plain, because it is what would be shipped
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}

setup_file() {
        [ "$(id -u)" = 0 ] || skip 'containers need root'
        for program in podman runc; do command -v $program > /dev/null || skip "no $program here: tools/deps containers"; done
        work=$(mktemp -d /tmp/sublet-image-XXXXXX)
        export work
        "$root/deploy/images/root" "$build" "$work/root"
        declare -f podman_ > "$work/engine"
        echo 'podman_ "$@"' >> "$work/engine"
        ENGINE="bash $work/engine" "$root/deploy/images/build" "$build" localhost/sublet:test > "$work/said"
}

teardown_file() {
        [ -n "${work:-}" ] || return 0
        podman_ rmi -f --all > /dev/null 2>&1 || true
        umount -l "$work"/* 2> /dev/null || true
        rm -rf "$work"
}

podman_() {
        # shellcheck disable=SC2016 # for the inner shell
        unshare -m -n -- sh -c 'umount /sys/fs/cgroup/unified 2> /dev/null; exec podman "$@"' - \
                --root "$work/store" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime runc "$@"
}

image() { # COMMAND of the image
        podman_ run --rm --network none --read-only --cap-drop ALL --ulimit nofile=1024:1024 --ulimit nproc=5000:5000 \
                localhost/sublet:test "$@"
}

@test "every verb that the manifests start runs from the image, with nothing else in it" {
        run image --version
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == sublet\ * ]]
        run podman_ run --rm --network none --read-only --cap-drop ALL --ulimit nofile=1024:1024 --ulimit nproc=5000:5000 \
                --entrypoint /usr/local/bin/sublet localhost/sublet:test device-plugin --help
        [ "$status" -eq 0 ]
        [[ $output == *"--unit"* ]]
        for verb in daemon keepers extender webhook; do
                chroot "$work/root" /usr/local/bin/sublet $verb --help > /dev/null
        done
}

@test "the command that makes it says how large it is" {
        [[ $(cat "$work/said") =~ ^localhost/sublet:test:\ ([0-9]+)\.[0-9]\ MB,\ ([0-9]+)\.[0-9]\ MB\ to\ fetch ]]
        [ "${BASH_REMATCH[1]}" -lt 64 ] && [ "${BASH_REMATCH[2]}" -lt "${BASH_REMATCH[1]}" ]
        run -2 "$root/deploy/images/build"
        [[ $output == "usage: deploy/images/build BUILD"* ]]
}

@test "what is in it is said: each library's package, version and licence" {
        [ "$(wc -l < "$work/root/usr/share/doc/sublet/packages")" -ge 20 ]
        grep -q '^libc6:amd64 2\.' "$work/root/usr/share/doc/sublet/packages"
        while read -r package version; do
                [ -n "$version" ] && [ -s "$work/root/usr/share/doc/${package%%:*}/copyright" ] || { echo "$package"; return 1; }
        done < "$work/root/usr/share/doc/sublet/packages"
        [ "$(du -sm "$work/root" | cut -f1)" -lt 64 ]
}
