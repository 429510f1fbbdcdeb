#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The suite of attacks on what the driver takes without being asked (tests/hostile): page tables, context buffers, host
# memory that a mapping keeps. Each first without a gate, where it must come past the quota (its positive control), and
# then as a tenant. What counts is the device's own figure, read from outside.
# long: because some make thousands of objects
# waits: for what the gate settles once a second
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

@test "page tables of a reservation are charged" {
        stops page-tables
}

@test "page tables of a lazy reservation are charged as it is mapped" {
        stops page-tables-lazy-maps
}

@test "page tables of what is mapped through a dup of a lazy reservation are charged" {
        stops page-tables-dup
}

@test "page tables of a range that is mapped with nothing behind it are charged" {
        stops page-tables-sparse
}

@test "buffers of channel groups are charged" {
        stops groups-many
}

@test "buffers of channels are charged" {
        stops channels-many
}

@test "address spaces are charged" {
        stops spaces-many
}

@test "buffers of a freed channel that UVM keeps stay charged" {
        stops register-channel-repeat
}

@test "contexts of many processes at once stay in the quota, with what the driver adds" {
        stops contexts-racing
}

# MiB of host memory that the simulated driver has, by the pages of its files
host_mib() {
        local process blocks=0 file
        for process in "$machine_process" $(pgrep -P "$machine_process"); do
                for file in /proc/"$process"/fd/*; do
                        [[ $(readlink "$file") == /memfd:nvidia* ]] || continue
                        blocks=$((blocks + $(stat -L -c %b "$file" 2> /dev/null || echo 0)))
                done
        done
        echo $((blocks / 2048))
}

# host_attack COMMAND...: what the host holds at the end, in MiB, in $held
host_attack() {
        local out=$BATS_TEST_TMPDIR/out in=$BATS_TEST_TMPDIR/in
        rm -f "$in" "$out" && mkfifo "$in"
        "$@" "$plain/tests/hostile/attack-host-freed-mapped" < "$in" > "$out" 2>&1 3>&- &
        attacker=$!
        exec 7> "$in"
        wait_for grep -qE '^(holding|setup|cannot)' "$out"
        held=$(host_mib)
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        echo "the host held $held MiB; $(cat "$out")"
}

@test "host memory that is freed while it is mapped stays charged, and comes back with the mapping" {
        export QUOTA_MIB=256
        host_attack on
        [ "$held" -ge 500 ]
        wait_for eval '[ "$(host_mib)" -eq 0 ]'
        host_attack tenant --mem 1G --host-mem 256M --
        [ "$held" -ge 192 ]
        [ "$held" -le 272 ]
        wait_for eval '[ "$(host_mib)" -eq 0 ]'
        books_are_empty
}

# beside_channels COMMAND...: what another program of that kind gets beside one that takes all channels it can, in $got
beside_channels() {
        local out=$BATS_TEST_TMPDIR/out in=$BATS_TEST_TMPDIR/in
        rm -f "$in" "$out" && mkfifo "$in"
        "$@" "$plain/tests/hostile/attack-channels-all" < "$in" > "$out" 2>&1 3>&- &
        attacker=$!
        exec 7> "$in"
        wait_for grep -qE '^(holding|setup|cannot)' "$out"
        got=$("$@" "$plain/tests/gpu/gpu-families" alloc 64 128 2>&1) || true
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        said=$(cat "$out")
        echo "$said; the other: $got"
}

@test "channels, of which a device has only so many, are divided: one that takes all it can leaves others theirs" {
        on "$sublet" sim --dir "$machine_dir" --fault channel-ids=2048
        beside_channels on
        [ "$(value channels "$said")" = 2048 ]
        [[ $got != *got_mib=128* ]] || { echo "no attack"; return 1; }
        beside_channels tenant --mem 6G --
        [ "$(value channels "$said")" = 512 ] # a quarter of the memory
        [[ $got = *got_mib=128* ]]
        beside_channels tenant --mem 1G --
        [ "$(value channels "$said")" = 320 ] # 16 contexts at least
        [[ $got = *got_mib=128* ]]
        [ "$(field DENIED)" -gt 0 ] # the attack has ended last
}
