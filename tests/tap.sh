# What tests/run, tests/all and tools/lint share: keeping what a TAP program said, and adding it up.
# shellcheck shell=bash
#
# A kept run is a folder: out and err (what it said), rc (how it ended), name. The rules:
#   T1  a test that was planned and never reported has failed;
#   T2  so has a program that ended badly although none of its tests did, or that a signal or the
#       clock ended in any case;
#   T3  a program without a plan has failed; a skip is neither passed nor failed.

# keep FOLDER NAME SECONDS COMMAND...
keep() {
        local folder=$1 seconds=$3 rc=0
        mkdir -p "$folder"
        printf '%s\n' "$2" > "$folder/name"
        shift 3
        { timeout -k 5 "$seconds" "$@" > "$folder/out" 2> "$folder/err" < /dev/null; } 2> /dev/null || rc=$?
        printf '%s\n' "$rc" > "$folder/rc"
}

# "PASSED FAILED SKIPPED" of one kept run.
tally() {
        local rc
        rc=$(cat "$1/rc" 2> /dev/null)
        awk -v rc="${rc:-none}" '
                /^1\.\.[0-9]+/     { planned = substr($1, 4) + 0; has_plan = 1; whole = /# *[Ss][Kk][Ii][Pp]/; next }
                /^not ok( |$)/        { reported++; if (/# *(TODO|SKIP)/) skipped++; else failed++; next } # cmocka skips so
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

# What failed, in full: everything but the tests that passed, and how it ended.
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

# Adds up all kept runs below FOLDER..., a line for each; failures in full. Sets PASSED FAILED SKIPPED.
add_up() {
        local kept p f s
        for kept in "$@"; do
                [ -f "$kept/name" ] || continue
                read -r p f s <<< "$(tally "$kept")"
                PASSED=$((${PASSED:-0} + p)) FAILED=$((${FAILED:-0} + f)) SKIPPED=$((${SKIPPED:-0} + s))
                if [ "$f" -gt 0 ]; then
                        printf 'FAILED  %-34s %4d passed, %d failed\n' "$(cat "$kept/name")" "$p" "$f"
                        explain "$kept"
                elif [ -z "${BRIEF:-}" ]; then
                        printf 'ok      %-34s %4d passed%s\n' "$(cat "$kept/name")" "$p" "$([ "$s" -gt 0 ] && echo ", $s skipped")"
                fi
                # What was not seen is said, with the reason.
                [ "$s" -eq 0 ] || sed -nE 's/^(not ok|ok|1\.\.0) *([0-9]+ *)?(.*)# *([Ss][Kk][Ii][Pp].*)$/        \4  (\3)/p' "$kept/out"
        done
}

# The verdict line at the end of a file: "PASSED FAILED SKIPPED"; a file without one is a failure.
verdict_of() {
        tail -n 1 "$1" 2> /dev/null | awk '
                /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { print $1, $3, $5 + 0; found = 1 }
                END { if (!found) print 0, 1, 0 }'
}
