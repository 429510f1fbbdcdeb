#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the driver takes of a device unasked is measured on the device (`sublet doctor --measure`), and charged so.
# variants: plain address, because the attacks are not built with a sanitizer
# waits: for what the gate settles once a second
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../attacks

setup() {
        machine_start --memory 24G
        export QUOTA_MIB=$QUOTA
        before=$(free_mib 0)
        table=$machine/etc/sublet/own-memory
}

teardown() {
        node_end
        [ -z "${attacker:-}" ] || kill -KILL "$attacker" 2> /dev/null || true
        machine_end
}

# A figure is read by a context, which costs more then, too
fault() { "$plain/src/sublet" sim --dir "$machine" --fault "$1" && before=$(free_mib 0); }
measure() { on "$sublet" doctor --measure "$@"; }
kib() { jq ".models[0].kib.$1" <<< "$output"; }

# said_of COMMAND...: what it says on stderr, at its end
said_of() { "$@" 2>&1 > /dev/null | grep '^sublet: ' | grep -v 'device 0: quota' || true; }

@test "it is the device that is measured: other constants, other figures, and nothing stays taken" {
        run measure --json -o -
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(kib group) $(kib channel) $(kib address_space) $(kib client)" = '4416 64 64 0' ]
        fault own-group=8192 && fault own-channel=192 && fault own-space=96 && fault own-client=32
        run measure --json -o -
        [ "$(kib group) $(kib channel) $(kib address_space) $(kib client)" = '8192 192 96 32' ]
        [ ! -e "$table" ]
        fault own-group=0 && fault own-channel=0 && fault own-space=0 && fault own-client=0
        [ "$(free_mib 0)" -eq "$before" ]
}

@test "a device that takes more is charged for it once it was measured, and not before" {
        fault own-group=16384
        attack groups-many tenant --mem "${QUOTA}M" --
        [ "$held" -gt $((QUOTA + SLACK)) ] # the table of another device
        wait_for eval '[ "$(free_mib 0)" -eq "$before" ]'
        measure
        [[ $(on "$sublet" doctor) == *'own memory'*measured* ]]
        attack groups-many tenant --mem "${QUOTA}M" --
        [ "$held" -le $((QUOTA + SLACK)) ]
}

@test "a client that takes memory is charged for it once that was measured" {
        fault own-client=65536
        measure > /dev/null
        tenant --mem 96M -- "$raw" --max 16
        [ "$(field peak_bytes)" -ge $((64 * MIB)) ]
        run tenant --mem 32M -- "$raw" --max 16
        [ "$status" -ne 0 ]
        books_are_empty
}

@test "the daemon gives its table to every tenant's gate" {
        fault own-group=16384
        measure -o "$machine/elsewhere" > /dev/null
        daemon_start --own-memory "$machine/elsewhere"
        attack groups-many on "$sublet" run --name attacker --mem "${QUOTA}M" --
        [ "$held" -le $((QUOTA + SLACK)) ]
}

@test "a device in use is not measured: a tenant's context, a daemon" {
        local handle=$BATS_TEST_TMPDIR/handle
        tenant_start --mem 2G -- "$plain/tests/gpu/gpu-share" give "$handle" 64
        wait_for test -s "$handle"
        run measure
        echo "$output"
        [ "$status" -eq 1 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == 'sublet: device 0: the device is not idle: process '* ]]
        [ ! -e "$table" ]
        touch "$handle.end" && wait "$supervisor"
        daemon_start
        run measure
        [ "$status" -eq 1 ]
        [[ $output == 'sublet: the devices are not idle: a daemon serves them'* ]]
}

@test "a table that cannot be right is one line, and the largest known counts" {
        local wrong
        measure > /dev/null
        [ -z "$(said_of tenant --mem 2G -- true)" ]
        chmod o+w "$table"
        wrong=$(said_of tenant --mem 2G -- true)
        echo "$wrong"
        [[ $wrong == "sublet: $table: others may write to it"*'the largest known figures are charged' ]]
        measure > /dev/null
        for change in 's/^release .*/release 550.54.14/' 's/^model .*/model NVIDIA H100/' 's/^architecture .*/architecture 0x1a0/' \
                's/^group .*/group many/' 's/^group/grupp/' 's/^own-memory 1/own-memory 2/' '/^model/q' 's/$/ /'; do
                measure > /dev/null && sed -i "$change" "$table"
                wrong=$(said_of tenant --mem 2G -- true)
                echo "$change: $wrong"
                [[ $wrong == "sublet: $table: "*'the largest known figures are charged' ]]
                [[ $(on "$sublet" doctor) == *limited*'own memory'* ]]
        done
        rm "$table" && ln -s /dev/zero "$table"
        [[ $(said_of tenant --mem 2G -- true) == *"$table: "* ]]
        rm "$table"
        [[ $(said_of tenant --mem 2G --own-memory "$machine/none" -- true) == *"$machine/none: No such file"* ]]
        [ -z "$(said_of tenant --mem 2G -- true)" ]
}

@test "a wrong table does not make a context cheaper" {
        local rightly
        tenant --mem 2G -- "$families" start > /dev/null
        rightly=$(field peak_bytes)
        measure > /dev/null && sed -i -e 's/^group .*/group 0/' -e 's/^release .*/release 550.54.14/' "$table"
        tenant --mem 2G -- "$families" start > /dev/null
        [ "$(field peak_bytes)" -eq "$rightly" ]
}

@test "--output without --measure, and words too many, are bad use" {
        run on "$sublet" doctor -o "$machine/x"
        one_line_and_2 'for --measure'
        run on "$sublet" doctor --measure now
        [ "$status" -eq 2 ]
}
