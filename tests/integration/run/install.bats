#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What `make install` installs is whole: it needs nothing of the build's folder.
# variants: plain, because it is what would be shipped
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$BATS_TEST_DIRNAME/../../../build}}

setup() {
        root=$BATS_TEST_TMPDIR/root
        DESTDIR=$root meson install -C "$build" --no-rebuild --quiet > /dev/null
        bin=$root$(meson introspect --buildoptions "$build" | jq -r '.[] | select(.name == "prefix").value')/bin
        cp "$build/tests/gpu/gpu-families" "$BATS_TEST_TMPDIR/program" # which finds a libcuda beside it where it was built
        unset LD_LIBRARY_PATH SUBLET_SIM
}

@test "the simulated machine has its libcuda, and a tenant there its quota: under the gate, and inside" {
        for way in --audit=1000 --preload; do
                run -0 "$bin/sublet" sim --memory 16G -- "$bin/sublet" run "$way" --no-daemon --mem 2G -- "$BATS_TEST_TMPDIR/program" alloc 256
                echo "$output"
                [[ $output == *"last=CUDA_ERROR_OUT_OF_MEMORY total_mib=2048 "* ]]
        done
}

@test "doctor misses nothing that is ours, and kubectl finds its plugin" {
        run -0 "$bin/sublet" sim -- "$bin/sublet" doctor
        echo "$output"
        grep -q '^ok  *green ' <<< "$output"
        run -0 "$bin/kubectl-sublet" --help
        [[ $output == "usage: kubectl sublet "* ]]
}
