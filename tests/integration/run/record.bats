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
        ! mountpoint -q "$machine/disk" || umount -l "$machine/disk"
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

# A device, a pipe, a directory that is not there, a full disk: the command is never begun.
refused_before() {
        run on "$sublet" run "$@" -q --mem 1G --record "$file" -- touch "$machine/begun"
        echo "$output"
        [ "$status" -eq 125 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ ${lines[0]} == "sublet: --record $file: "* ]]
        [ ! -e "$machine/begun" ]
}

@test "a file that cannot hold a record is refused before the command begins, with its name" {
        mkfifo "$machine/pipe"
        for file in /dev/full /dev/null "$machine/pipe" "$machine" /nonexistent/record; do
                refused_before --no-daemon
        done
        daemon_start
        for file in /dev/full "$machine/pipe"; do
                refused_before
        done
}

@test "a disk that is full, or fills up while the command runs, ends the run with 125 and the file's name" {
        [ "$(id -u)" -eq 0 ] || skip "only root mounts a small disk"
        mkdir "$machine/disk"
        mount -t tmpfs -o size=64k tmpfs "$machine/disk" || skip "no disk can be mounted here"
        fill="cat /dev/zero > $machine/disk/fill 2> /dev/null; exec $families meminfo" # its record is longer than a page, which is there before
        for daemon in no a; do
                [ "$daemon" = no ] || daemon_start
                run on "$sublet" run -q --mem 1G --record "$machine/disk/record" -- sh -c "$fill"
                echo "$output"
                [ "$status" -eq 125 ]
                [[ $output == *"sublet: --record $machine/disk/record: the record is not whole"* ]]
                file=$machine/disk/record
                rm "$file"
                cat /dev/zero >> "$machine/disk/fill" 2> "$machine/said" || grep -q "No space left" "$machine/said"
                refused_before --report "$machine/report"
                rm "$machine/disk/fill"
        done
        # Its own exit status, where it has one.
        run on "$sublet" run -q --mem 1G --record "$machine/disk/record" -- \
                sh -c "cat /dev/zero > $machine/disk/fill 2> /dev/null; $families meminfo; exit 7"
        echo "$output"
        [ "$status" -eq 7 ]
        [[ $output == *'the record is not whole'* ]]
        umount "$machine/disk"
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
        run "$sublet" explain --json NO_EVENT
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
