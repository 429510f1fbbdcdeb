# SPDX-License-Identifier: Apache-2.0
# Helpers of every integration test: a simulated machine of its own, tenants on it, and their reports.
# shellcheck shell=bash disable=SC2034,SC2154  # read by tests, set by bats sets
#
# tests/run says which build is tested. In a build with sanitizers only `sublet` itself is one of
# those; the machine and the programs come from the plain build beside it.
build=${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}
plain=${SUBLET_PLAIN:-$build}
sublet=$build/src/sublet
families=$plain/tests/gpu/gpu-families
memb=$plain/tests/gpu/gpu-memb
race=$plain/tests/gpu/gpu-race
raw=$plain/tests/gpu/gpu-raw
MIB=1048576
report=${BATS_TEST_TMPDIR:-/tmp}/report

# machine_start [OPTION...]: a machine that lives until machine_end; `on` and `tenant` are on it.
machine_start() {
        machine=$(mktemp -d /tmp/sublet-test-XXXXXX)
        # shellcheck disable=SC2016  # for the inner shell
        "$plain/src/sublet" sim --dir "$machine" "$@" -- sh -c \
                'printf "%s\n" "$SUBLET_SIM" "$LD_PRELOAD" "$LD_LIBRARY_PATH" > "$1/env.new" && mv "$1/env.new" "$1/env"; exec sleep 600' \
                - "$machine" 3>&- > /dev/null 2> "$machine/said" &
        machine_process=$!
        wait_for eval '[ -e "$machine/env" ] || ! kill -0 "$machine_process"'
        [ -e "$machine/env" ] || { cat "$machine/said"; return 1; }
        { read -r machine_dir; read -r machine_preload; read -r machine_libraries; } < "$machine/env"
}

machine_end() {
        [ -n "${machine_process:-}" ] || return 0
        kill "$machine_process" 2> /dev/null || true
        wait "$machine_process" 2> /dev/null || true
        rm -rf "$machine"
        machine_process=''
}

# on COMMAND...: on the machine, not supervised
on() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries "$@"
}

# tenant [OPTION...] -- COMMAND...: sublet run on the machine; its ledger is written to $report
tenant() {
        on "$sublet" run --json --report "$report" "$@"
}

# tenant_start ...: the same in the background; $supervisor is the process of sublet itself
tenant_start() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" run --json --report "$report" "$@" < /dev/null 3>&- &
        supervisor=$!
}

# field NAME [FILE]: the first number of that name in a report
field() {
        if [[ $(< "${2:-$report}") =~ \"$1\":([0-9]+) ]]; then echo "${BASH_REMATCH[1]}"; fi
}

# value NAME TEXT...: the value of the first word NAME=value
value() {
        # Tests ask thousands of times: no process, and few commands (untraced).
        if [[ " ${*:2}" =~ [[:space:]]"$1"=([^[:space:]]*) ]]; then echo "${BASH_REMATCH[1]}"; fi
}

# untraced COMMAND...: bats notes each command of a test and of what it calls, which costs 0.2 ms a command. A loop does
# without; what fails in there is told with the line of the test.
untraced() {
        local -
        set +T
        "$@"
}

# wait_for COMMAND...: until it succeeds, at most $patience (90) s of wall-clock time. The limit ends a failing test;
# it is not a measurement. Who has waited long asks less often: a question costs a processor up to 50 ms, and other
# tests run beside this one.
wait_for() {
        untraced wait_until "$@"
}

wait_until() {
        local since=$SECONDS pause=20
        until "$@" > /dev/null 2>&1; do
                [ $((SECONDS - since)) -lt "${patience:-90}" ] || return 1
                sleep "0.$(printf %03d "$pause")"
                [ "$pause" -ge "${pause_most:-200}" ] || pause=$((pause * 3 / 2))
        done
}

# free_mib [N]: free memory of device N in MiB, as an unsupervised program sees it
free_mib() {
        value free_mib "$(CUDA_VISIBLE_DEVICES=${1:-0} on "$families" meminfo)"
}

books_are_empty() {
        [ "$(grep -o '"held_bytes":[0-9]*' "$report" | sort -u)" = '"held_bytes":0' ]
}

# one_line_and_2 PATTERN: the last `run` exited with 2 and printed one line that matches PATTERN
one_line_and_2() {
        [ "$status" -eq 2 ] || { echo "status $status: $output"; return 1; }
        [ "${#lines[@]}" -eq 1 ] || { echo "not one line: $output"; return 1; }
        [[ $output =~ ^sublet:\ .*$1 ]] || { echo "does not say $1: $output"; return 1; }
}
