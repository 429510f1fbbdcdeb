#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet run --record`: the calls of a run as numbers, which `sublet explain --record` reads, without a daemon and with
# one.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

engines=$plain/tests/hostile/attack-other-engines
record=$BATS_TEST_TMPDIR/record

setup() {
        machine_start
}

teardown() {
        node_end
        machine_end
}

# lacks CAPABILITY: how many different calls of the record wanted it
lacks() {
        "$sublet" explain --record "$record" --json | jq "[.calls[] | select(.needs == \"$1\")] | length"
}

@test "a record says of each call what became of it, and explain which were refused" {
        tenant --mem 1G --record "$record" -- "$engines"
        cat "$record"
        [ "$(head -1 "$record")" = 'sublet record 1' ]
        [ "$(tail -1 "$record")" = end ]
        [ "$(lacks profile)" -eq 1 ]
        [ "$(lacks video)" -eq 4 ]
        # The report counts the same calls.
        [ "$("$sublet" explain --record "$record" --json | jq '[.calls[] | select(.outcome == "lacks") | .count] | add')" \
                -eq "$(jq '[.refused[].count] | add' "$report")" ]
        run "$sublet" explain --record "$record"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *'control 0x20801346 FB_GET_FS_INFO (a control of a subdevice: video memory): 1 times, needs --capabilities profile'* ]]
}

@test "with the capabilities nothing is refused in the record" {
        tenant --mem 1G --capabilities all,profile --record "$record" -- "$engines"
        [ "$(lacks profile)" -eq 0 ]
        [ "$("$sublet" explain --record "$record" --json | jq '[.calls[] | select(.outcome == "unruled")] | length')" -eq 0 ]
}

@test "a record has no address and no handle of the program" {
        tenant --mem 1G --record "$record" -- "$families" alloc 16 64
        run ! grep -qvE '^(sublet record 1|release [0-9.]+|capabilities [a-z,]+|call [0-9]+ [A-Z_0-9?]+ 0x[0-9a-f]{1,8} [0-9]+ 0x[0-9a-f]{1,8} [0-9]+ [a-z]+( [a-z,]+)?|count [0-9]+ [0-9]+|others 0|end)$' "$record"
        # The same program makes the same record, whatever addresses it has.
        cp "$record" "$record.first"
        tenant --mem 1G --record "$record" -- "$families" alloc 16 64
        diff <(grep ^call "$record.first" | cut -d' ' -f3- | sort) <(grep ^call "$record" | cut -d' ' -f3- | sort)
}

@test "with a daemon the tenant's shim writes the record" {
        daemon_start
        tenant --mem 1G --record "$record" -- "$engines"
        cat "$record"
        [ "$(tail -1 "$record")" = end ]
        [ "$(lacks graphics)" -gt 5 ]
}

@test "what was refused shows in ps and as a metric, also after the tenant's end" {
        daemon_start
        on "$sublet" run -q --mem 1G --name looking -- sh -c '"$0"; exec sleep 600' "$engines" < /dev/null 3>&- &
        supervisors=($!)
        on "$sublet" run -q --mem 1G --name quiet -- sleep 600 < /dev/null 3>&- &
        supervisors+=($!)
        wait_for eval '[ "$("$sublet" ps --json | jq "[.[] | select(.refused_calls > 15)] | length")" -eq 1 ]'
        wait_for eval '[ "$("$sublet" ps -q | wc -l)" -eq 2 ]'
        "$sublet" ps
        [ "$("$sublet" ps | sed -n 's/^looking .*-  *\([0-9]*\) *normal .*/\1/p')" -gt 15 ]
        curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics | grep '^sublet_tenant_refused_calls_total'
        [ "$(curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics |
                sed -n 's/^sublet_tenant_refused_calls_total{tenant="quiet",[^}]*} //p')" = 0 ]
        "$sublet" end looking
        wait_for eval '[ "$("$sublet" ps -q | wc -l)" -eq 1 ]'
        [ "$("$sublet" ps -a --json | jq '.[] | select(.tenant == "looking") | .refused_calls')" -gt 15 ]
}

@test "a record that cannot be written is refused before the command starts" {
        run tenant --mem 1G --record /nonexistent/record -- touch "$BATS_TEST_TMPDIR/started"
        echo "$output"
        [ "$status" -eq 125 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == 'sublet: --record /nonexistent/record: '* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
        run tenant --mem 1G --preload --record "$record" -- true
        [ "$status" -eq 2 ]
        [[ $output == *'leave --preload out'* ]]
}

@test "what is no record is bad use of explain" {
        echo "sublet record 1
nonsense" > "$record"
        run "$sublet" explain --record "$record"
        [ "$status" -eq 2 ]
        [ "$output" = "sublet: --record $record: line 2 is none of a record" ]
        run "$sublet" explain --record /nonexistent/record
        [ "$status" -eq 2 ]
        run "$sublet" explain --json QUOTA_REFUSED
        [ "$status" -eq 2 ]
}

@test "explain says of a number what it belongs to, and whether tenants may use it" {
        run "$sublet" explain control 0x20801346
        [[ $output == *'Tenants may use it with --capabilities profile'* ]]
        run "$sublet" explain FB_GET_FS_INFO
        [[ ${lines[0]} == 'control 0x20801346 FB_GET_FS_INFO: a control of a subdevice: video memory' ]]
        run "$sublet" explain 0x20801399
        [[ $output == *'It has no rule'*'sublet run --record FILE'* ]]
        run "$sublet" explain class 0xcb97
        [[ $output == *'3D graphics'* ]]
        run "$sublet" explain 0x1234567890
        [ "$status" -eq 2 ]
}
