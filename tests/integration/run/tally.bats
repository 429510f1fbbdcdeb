#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The adding up itself: a test that cannot fail the sum is worth nothing.
# variants: plain, because it is about a script
bats_require_minimum_version 1.5.0

setup() {
        source "$BATS_TEST_DIRNAME/../../tap.sh"
        recorded=$BATS_TEST_TMPDIR/recorded
}

# counts SCRIPT "PASSED FAILED SKIPPED"
counts() {
        rm -rf "$recorded"
        run_recorded "$recorded" program 2 bash -c "$1"
        local found
        found=$(tally "$recorded")
        echo "$1: $found, not $2"
        [ "$found" = "$2" ]
}

@test "what passed, failed and was skipped is counted" {
        counts 'echo 1..2; echo ok 1; echo ok 2' '2 0 0'
        counts 'echo 1..2; echo ok 1; echo not ok 2; exit 1' '1 1 0'
        counts 'echo 1..2; echo "ok 1 # skip no GPU"; echo ok 2' '1 0 1'
        counts 'echo "1..0 # SKIP no GPU"' '0 0 1'
        counts 'echo 1..2; echo "not ok 1 # SKIP one"; echo ok 2' '1 0 1' # as cmocka says it
        counts 'echo ok - one; echo ok - two; echo 1..2' '2 0 0'
}

@test "a planned test that never reported has failed" {
        counts 'echo 1..3; echo ok 1' '1 2 0'
        counts 'echo 1..2; echo ok 1; sleep 9' '1 1 0'
        counts 'echo 1..3; echo ok 1; kill -SEGV $$' '1 2 0'
}

@test "a program that ended badly after its last test has failed" {
        counts 'echo 1..2; echo ok 1; echo ok 2; exit 1' '2 1 0'
        counts 'echo 1..2; echo ok 1; echo ok 2; kill -SEGV $$' '2 1 0'
        counts 'echo 1..1; echo ok 1; sleep 9' '1 1 0'
        counts 'echo 1..2; echo ok 1; echo not ok 2; kill -ABRT $$' '1 2 0'
        counts 'echo 1..2; echo "ok 1 # skip"; echo ok 2; exit 3' '1 1 1'
}

@test "without a plan, or with one too small, it has failed" {
        counts 'echo ok 1' '1 1 0'
        counts 'exit 0' '0 1 0'
        counts 'echo 1..1; echo ok 1; echo ok 2' '2 1 0'
        counts 'echo 1..1; echo ok 1; echo Bail out!' '1 1 0'
}

@test "a run that was never made has failed" {
        [ "$(tally "$BATS_TEST_TMPDIR/nothing")" = '0 1 0' ]
}

@test "the verdict is the last line, and fails when something did or nothing passed" {
        run -0 verdict 3 0 0
        [ "$output" = '3 passed, 0 failed' ]
        run -1 verdict 3 1 2
        [ "$output" = '3 passed, 1 failed, 2 skipped' ]
        run -1 verdict 0 0 4
}

@test "a verdict is read back, and one that is missing is a failure" {
        verdict 3 1 2 > "$BATS_TEST_TMPDIR/said" || true
        [ "$(verdict_of "$BATS_TEST_TMPDIR/said")" = '3 1 2' ]
        echo 'Segmentation fault' >> "$BATS_TEST_TMPDIR/said"
        [ "$(verdict_of "$BATS_TEST_TMPDIR/said")" = '0 1 0' ]
}

@test "what was skipped is told with its reason" {
        run_recorded "$recorded" program 2 bash -c 'echo 1..2; echo ok 1 a; echo "ok 2 the device # skip no GPU"'
        run -0 add_up "$recorded"
        [[ $output == *"skip no GPU  (the device )"* ]]
        rm -rf "$recorded"
        run_recorded "$recorded" program 2 bash -c 'echo "1..0 # SKIP no kernel"'
        run -0 add_up "$recorded"
        [[ $output == *"SKIP no kernel"* ]]
}

@test "a test says which builds it is for, and every word of that is known" {
        cd "$BATS_TEST_DIRNAME/.."
        run grep -HnE '^# *(variants|alone|later)' ./*/*.bats
        [ "$status" -eq 0 ]
        run grep -vE ':# variants: plain( address)?( thread)?, because .|:# (alone|later): because .' <<< "$output"
        [ "$status" -eq 1 ] || { echo "$output"; false; }
}

@test "what make test leaves for later, tests/all runs" {
        local file name
        cd "$BATS_TEST_DIRNAME/.."
        grep -l '^# later: ' ./*/*.bats > "$BATS_TEST_TMPDIR/later"
        while read -r file; do
                name=$(basename "$file" .bats)
                grep -qE "^[^#]*((beside|alone)\+=\(.*\b$name( |\))|tests/run build $name )" "$BATS_TEST_DIRNAME/../../all" || { echo "$name: not in tests/all"; return 1; }
        done < "$BATS_TEST_TMPDIR/later"
}
