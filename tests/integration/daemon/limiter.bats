#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bench/limiter: the loads that it runs, beside a limiter of our own (tests/gpu/limiter.c). What its figures are worth
# is a question for a GPU.
# variants: plain, because no code of ours but a script is tested
bats_require_minimum_version 1.5.0
load ../machine

limiter=$BATS_TEST_DIRNAME/../../../bench/limiter
library=$plain/tests/gpu/libsublet-limiter.so

# compare OPTION...
compare() { OUT=$BATS_TEST_TMPDIR "$limiter" --build "$build" "$@" 3>&-; }

# of ROW: its figures
of() { sed -n "s/^$1  *\\([0-9.]* *[0-9.]* *[0-9.]*\\)\$/\\1/p" <<< "$output"; }

@test "the same loads run natively, under Sublet and under a preloaded limiter, which is told its limits" {
        run compare --seconds 0.3 --part 100 --percent LIMITER_PERCENT=% --mib LIMITER_MIB=% --env LIMITER_SEEN="$BATS_TEST_TMPDIR/seen" "$library"
        echo "$output"
        [ "$status" -eq 0 ]
        for row in 'start ms' 'launch us' 'launch and wait us' 'allocate 4 MiB us' 'free 4 MiB us' 'cap 10 %: has %' \
                'cap 30 %: has %' 'cap 50 %: has %' '70 : 30: first has %' 'sum of both, % of alone'; do
                [ "$(of "$row" | wc -w)" -eq 3 ]
        done
        # shellcheck disable=SC2046  # three figures
        set -- $(of 'cap 10 %: has %')
        awk -v native="$1" -v limiter="$3" 'BEGIN { exit !(limiter < native) }'
        sort -u "$BATS_TEST_TMPDIR/seen"
        [ "$(sort -u "$BATS_TEST_TMPDIR/seen" | tr '\n' ' ')" = '0 16384 10 16384 30 16384 50 16384 70 16384 ' ]
        raw=$(echo "$BATS_TEST_TMPDIR"/limiter-*.jsonl)
        jq -se 'map(select(.row == "cap 30" and .label == "limiter" and .kernels)) | length == 1' "$raw"
        [ "$(jq -r '.label // empty' "$raw" | sort | uniq -c | tr -s ' \n' ' ')" = ' 6 limiter 7 native 6 sublet ' ]
}

@test "as JSON the table is one line with the same rows" {
        run --separate-stderr compare --json --seconds 0.1 --part 200 --percent LIMITER_PERCENT=% "$library"
        echo "$output $stderr"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 1 ]
        jq -e '.rows | length == 10 and all(.native > 0 and .sublet > 0 and .limiter > 0)' <<< "$output"
        jq -e '[.rows[].row] == ["start ms", "launch us", "launch and wait us", "allocate 4 MiB us", "free 4 MiB us",
                "cap 10 %: has %", "cap 30 %: has %", "cap 50 %: has %", "70 : 30: first has %", "sum of both, % of alone"]' <<< "$output"
        [ -s "$(jq -r .raw <<< "$output")" ]
}

@test "bad use is one line and 2" {
        for bad in "" "$BATS_TEST_TMPDIR/none" "--percent NAME $library" "--seconds soon $library" "--build $BATS_TEST_TMPDIR $library"; do
                # shellcheck disable=SC2086  # words
                run "$limiter" $bad
                echo "$output"
                [ "$status" -eq 2 ]
                [ "${#lines[@]}" -eq 1 ]
        done
}
