# SPDX-License-Identifier: Apache-2.0
# Shared by tests/run, tests/all and tools/lint: recording the output of TAP programs, and adding it up.
# shellcheck shell=bash
#
# A recorded run is a folder: out and err (its output), rc (its exit status), name. The rules:
#   T1  a test that was planned and never reported has failed;
#   T2  so has a program whose exit status is bad although none of its tests failed, and one that a signal or
#       the time limit ended;
#   T3  a program without a plan has failed; a skip is neither passed nor failed.

# run_recorded FOLDER NAME SECONDS COMMAND...
run_recorded() {
        local folder=$1 seconds=$3 rc=0
        mkdir -p "$folder"
        printf '%s\n' "$2" > "$folder/name"
        shift 3
        { timeout -k 5 "$seconds" "$@" > "$folder/out" 2> "$folder/err" < /dev/null; } 2> /dev/null || rc=$?
        printf '%s\n' "$rc" > "$folder/rc"
}

# "PASSED FAILED SKIPPED" of one recorded run.
tally() {
        local rc
        rc=$(cat "$1/rc" 2> /dev/null)
        awk -v rc="${rc:-none}" '
                /^1\.\.[0-9]+/     { planned = substr($1, 4) + 0; has_plan = 1; whole = /# *[Ss][Kk][Ii][Pp]/; next }
                /^not ok( |$)/        { reported++; if (/# *(TODO|SKIP)/) skipped++; else failed++; next } # how cmocka skips
                /^ok( |$)/        { reported++; if (/# *([Ss][Kk][Ii][Pp]|TODO)/) skipped++; else passed++; next }
                /^Bail out!/       { bailed = 1 }
                END {
                        if (whole && !planned) skipped++
                        if (reported < planned) { failed += planned - reported; missing = 1 }           # T1
                        if (has_plan && reported > planned) failed += reported - planned
                        if (!has_plan || bailed) failed++                                               # T3
                        badly = rc == "none" || rc >= 124
                        if (badly && !missing && !bailed || rc != 0 && !failed) failed++                # T2
                        print passed + 0, failed + 0, skipped + 0
                }' "$1/out" 2> /dev/null || echo 0 1 0
}

# All output but the tests that passed, and the exit status.
explain() {
        local rc
        rc=$(cat "$1/rc" 2> /dev/null || echo 'never')
        printf -- '---- %s (exit status %s)\n' "$(cat "$1/name")" "$rc"
        awk '/^ok( |$)/ { passing = 1; next } /^1\.\./ { next } /^[^#]/ { passing = 0 } !passing' "$1/out" | head -400
        [ -s "$1/err" ] && tail -n 200 "$1/err" | sed 's/^/      | /'
        case $rc in
        124 | 137) echo "      it ran out of time, or was killed" ;;
        esac
        echo "----"
}

# verdict PASSED FAILED SKIPPED: the last line
verdict() {
        printf '%d passed, %d failed' "$1" "$2"
        [ "$3" -gt 0 ] && printf ', %d skipped' "$3"
        printf '\n'
        [ "$2" -eq 0 ] && [ "$1" -gt 0 ]
}

# Adds up the recorded runs in FOLDER..., a line for each; failures in full. Sets PASSED FAILED SKIPPED.
add_up() {
        local recorded p f s
        for recorded in "$@"; do
                [ -f "$recorded/name" ] || continue
                read -r p f s <<< "$(tally "$recorded")"
                PASSED=$((${PASSED:-0} + p)) FAILED=$((${FAILED:-0} + f)) SKIPPED=$((${SKIPPED:-0} + s))
                if [ "$f" -gt 0 ]; then
                        printf 'FAILED  %-34s %4d passed, %d failed\n' "$(cat "$recorded/name")" "$p" "$f"
                        explain "$recorded"
                elif [ -z "${BRIEF:-}" ]; then
                        printf 'ok      %-34s %4d passed%s\n' "$(cat "$recorded/name")" "$p" "$([ "$s" -gt 0 ] && echo ", $s skipped")"
                fi
                # Skipped tests are listed with their reasons.
                [ "$s" -eq 0 ] || sed -nE 's/^(not ok|ok|1\.\.0) *([0-9]+ *)?(.*)# *([Ss][Kk][Ii][Pp].*)$/        \4  (\3)/p' "$recorded/out"
        done
}

# The verdict line at the end of a file: "PASSED FAILED SKIPPED"; a file without one is a failure.
verdict_of() {
        tail -n 1 "$1" 2> /dev/null | awk '
                /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { print $1, $3, $5 + 0; found = 1 }
                END { if (!found) print 0, 1, 0 }'
}
