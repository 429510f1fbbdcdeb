#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Memory that outlives its tenant (tests/hostile/outlived.c): whoever keeps the tenant's control file keeps its memory
# on the device. Each tenant after it could take as much again, if the lease were given to others meanwhile.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        daemon=''
        daemon_start
        export QUOTA_MIB=1024
        attack=$plain/tests/hostile/attack-outlived line=sublet-outlived-$$
        before=$(free_mib 0)
}

teardown() {
        [ -z "${holder:-}" ] || kill -KILL "$holder" 2> /dev/null || true
        node_end
        machine_end
}

# keep: somebody who is no tenant gives his control file away and keeps it
keep() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$attack" keep "$line" 3>&- > "$machine/holder" 2>&1 &
        holder=$!
}

listed() { "$sublet" ps -q | grep -qx "$1"; }

@test "a tenant whose memory outlives it stays listed with its charge, and its lease is not given away" {
        keep
        on "$sublet" run -q --name taker --mem 1G -- "$attack" take "$line" < /dev/null > "$machine/taker"
        grep -q '^holding mib=1024' "$machine/taker"
        wait_for eval '"$sublet" events | grep -q "taker: BOOKS_NOT_EMPTY"'
        [ $((before - $(free_mib 0))) -ge 1024 ] # the positive control: it is still on the device
        "$sublet" ps | grep -q '^taker .* 1 GiB / 1 GiB '
        run on "$sublet" run -q --mem 23600M -- true
        [ "$status" -ne 0 ]
        kill -KILL "$holder"
        wait_for eval '! listed taker'
        wait_for eval '[ "$(free_mib 0)" = "$before" ]'
        on "$sublet" run -q --mem 23600M -- true
}

# The attack takes four times QUOTA_MIB where its quota lets it.
@test "a tenant whose memory outlives it is charged what that is, not its quota, and who keeps it is named" {
        local swap
        daemon_end TERM
        daemon_start --swap 8G --suspend-by copies
        keep
        for swap in '' --swap; do
                # shellcheck disable=SC2086 # one option or none
                QUOTA_MIB=256 on "$sublet" run -q --name taker $swap --mem 20G -- "$attack" take "$line" \
                        < /dev/null > "$machine/taker"
                grep -q '^holding mib=1024' "$machine/taker"
                wait_for eval '[ "$(of taker state)" = kept ]'
                [ "$(of taker kept_by)" = "$holder" ]
                "$sublet" events | grep 'taker: BOOKS_NOT_EMPTY' | grep -q "process $holder has it open"
                "$sublet" inspect taker | grep -q "process $holder"
                run on "$sublet" run -q --mem 23600M -- true
                [ "$status" -ne 0 ]
                on "$sublet" run -q --mem 22G -- true
                on "$sublet" run -q --swap --mem 22G -- true
                run ! "$sublet" suspend taker
                kill -KILL "$holder"
                wait_for eval '! listed taker'
                wait_for eval '[ "$(free_mib 0)" = "$before" ]'
                keep
        done
}
