# SPDX-License-Identifier: Apache-2.0
# Helpers for tests with tests/fakes/lessor.py instead of a daemon, besides machine.bash.
# shellcheck shell=bash disable=SC2034,SC2154  # variables that tests read, and those that bats and machine.bash set

# lessor_start [OPTION...]
lessor_start() {
        rm -f "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
        mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
        SUBLET_SIM=$machine_dir /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/lessor.py" "$sublet" "$node" "$@" \
                < "$BATS_TEST_TMPDIR/in" > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/lessor.said" 3>&- &
        lessor=$!
        exec 7> "$BATS_TEST_TMPDIR/in" 8< "$BATS_TEST_TMPDIR/out"
        read -r -t 20 -u 8 answer
        [ "$answer" = ready ]
}

# tell WORDS...: one line to the lessor; its answer is in $answer
tell() {
        printf '%s\n' "$*" >&7
        read -r -t 20 -u 8 answer
}

# heard PATTERN: whether the messages of the shims since the test began match. The lessor returns each message once, and
# matching ones may be in two answers.
heard() {
        tell words
        heard_so_far+=$answer
        # shellcheck disable=SC2053  # a pattern
        [[ $heard_so_far == $1 ]]
}
heard_so_far=''

# number NAME: of the last answer, the first of that name
number() {
        printf '%s\n' "$answer" | grep -o "\"$1\": [0-9]*" | head -1 | grep -o '[0-9]*$'
}

block_has() { # NAME VALUE
        tell block && [ "$(number "$1")" = "$2" ]
}

has_channels() {
        tell block && [ "$(number n_compute)" -ge 1 ]
}

# runner_start [OPTION...] -- COMMAND...: sublet run in the background, $runner; its output is in $said
runner_start() {
        said=$BATS_TEST_TMPDIR/said
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" run --json --report "$report" "$@" < /dev/null > "$said" 2>&1 3>&- 7>&- 8>&- &
        runner=$!
}
