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

@test "make install PREFIX=/x after make puts everything below /x, and make uninstall takes it away" {
        cd "$BATS_TEST_DIRNAME/../../.."
        copy=$BATS_TEST_TMPDIR/build
        meson setup "$copy" -Dtests=false > /dev/null # a build of its own: this one's prefix is read by other tests
        # Only the order of words is new here: what is installed is linked in the build's own folder.
        run -0 make -n install BUILD="$copy" PREFIX="$BATS_TEST_TMPDIR/x"
        [[ $output == *"meson configure"*"--prefix=$BATS_TEST_TMPDIR/x"* ]]
        meson configure "$copy" --prefix="$BATS_TEST_TMPDIR/x"
        meson setup --reconfigure "$copy" > /dev/null
        [ "$(tools/prefix "$copy")" = "$BATS_TEST_TMPDIR/x" ]
        [ "$(meson introspect --installed "$copy" | jq -r '.[]' | grep -cv "^$BATS_TEST_TMPDIR/x/")" -eq 0 ]
}

@test "uninstall takes away what was installed, and directories of ours only" {
        cd "$BATS_TEST_DIRNAME/../../.."
        mkdir -p "$BATS_TEST_TMPDIR/b/meson-logs" "$BATS_TEST_TMPDIR/p/lib/sublet/sim" "$BATS_TEST_TMPDIR/p/share/man/man1"
        touch "$BATS_TEST_TMPDIR/p/lib/sublet/sim/a.so" "$BATS_TEST_TMPDIR/p/share/man/man1/sublet.1" "$BATS_TEST_TMPDIR/p/lib/other"
        printf '%s\n' '# a comment' "$BATS_TEST_TMPDIR/p/lib/sublet/sim/a.so" "$BATS_TEST_TMPDIR/p/share/man/man1/sublet.1" > "$BATS_TEST_TMPDIR/b/meson-logs/install-log.txt"
        run -0 tools/uninstall "$BATS_TEST_TMPDIR/b"
        [ "$output" = 'removed 2 files' ]
        [ ! -e "$BATS_TEST_TMPDIR/p/lib/sublet" ] && [ -e "$BATS_TEST_TMPDIR/p/lib/other" ] && [ -d "$BATS_TEST_TMPDIR/p/share/man/man1" ]
}

@test "completions are there for three shells, and each shell can read its own" {
        share=${bin%/bin}/share
        bash -n "$share/bash-completion/completions/sublet"
        ! command -v zsh > /dev/null || zsh -n "$share/zsh/site-functions/_sublet"
        ! command -v fish > /dev/null || fish -n "$share/fish/vendor_completions.d/sublet.fish"
}

@test "each manual page is clean, and has its verb's options and keys" {
        for page in "${bin%/bin}"/share/man/man*/*; do
                ! command -v mandoc > /dev/null || mandoc -Tlint -Wwarning "$page" > "$BATS_TEST_TMPDIR/lint" || { cat "$BATS_TEST_TMPDIR/lint"; return 1; }
        done
        for option in $("$bin/sublet" daemon --help | grep -oE -- '^  +(-[a-z], )?--[a-z]+' | grep -oE -- '--[a-z]+'); do
                man=$(sed 's/\\-/-/g' "${bin%/bin}/share/man/man8/sublet-daemon.8")
                [[ $man == *"$option"* ]] || { echo "$option"; return 1; }
        done
        grep -q '^.It Cm tls_listen$' "${bin%/bin}/share/man/man5/sublet-route.yaml.5"
}
