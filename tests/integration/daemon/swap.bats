#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tenants whose leases together exceed the device: they are on it in turns, each with what it wrote, and what device
# and host do not hold together is refused. On the simulator, whose libcuda does what the real one's checkpoint does
# (docs/suspend.md).
# variants: plain address, because what runs beside the daemon is the library of the plain build
# long: because tenants take turns of seconds
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
# shellcheck disable=SC2154  # what machine.bash sets

kept=$plain/tests/gpu/gpu-kept
export KEPT_FILLED=8 # of 64 MiB: what is claimed is who moves and what comes back, not how long it takes

setup() {
        machine_start --memory 4G
}

teardown() {
        node_end
        machine_end
}

rounds() { grep -c '^round' "$machine/$1" || true; } # NAME
happened() { "$sublet" events | grep -E "$1" | grep -q "${2:-}"; }
moves_of() { "$sublet" events --json | jq -s --arg t "$1" '[.[] | select(.tenant == $t and .name == "SUSPENDED")] | length'; }
goes_on() { # NAME: it makes more rounds, and nothing differs
        local name=$1 before
        before=$(rounds "$name")
        wait_for eval '[ "$(rounds "$name")" -gt $((before + 1)) ]' || { tail -3 "$machine/$name"; return 1; }
        run ! grep -qvE '^(ready|round [0-9]+)$' "$machine/$name"
}
taker() { # NAME [OPTION...]: one of which two do not fit, that works all the time
        lodger "$1" --mem 2500M --swap "${@:2}" -- "$kept" 128
}
refused() { # OPTION...: what `sublet run` says
        SUBLET_SIM=$machine_dir run "$sublet" run -q "$@" -- true
        [ "$status" -ne 0 ] && [ "${#lines[@]}" = 1 ]
}

@test "three tenants whose leases exceed the device all get their work done, with what they wrote" {
        daemon_start --swap 8G --swap-cost 50%
        taker one
        taker two
        taker three
        for name in one two three; do wait_for grep -q '^round' "$machine/$name"; done
        for name in one two three; do goes_on "$name"; done
        [ "$(of one swap)" = true ]
        "$sublet" inspect one | grep -qE '^ *swap +on the device in turns'
        "$sublet" ps | head -1 | grep -qw SWAP
        wait_for eval '"$sublet" ps | grep -qE " waits .* suspended "'
        wait_for eval '"$sublet" ps --json | jq -e "any(.[]; .waits_for // \"\" | startswith(\"others, \"))"'
        happened SUSPENDED 'to make room'
        run ! happened 'RESUME_FAILED|SUSPEND_FAILED|SUSPEND_LOST|BOOKS_NOT_EMPTY|AUDIT_MISMATCH'
}

@test "of those that fit together none moves, and one of class latency stays where another can leave" {
        daemon_start --swap 8G --swap-cost 50%
        lodger quick --mem 1300M --swap --class latency -- "$kept" 128
        lodger one --mem 1300M --swap -- "$kept" 128
        goes_on quick
        goes_on one
        sleep 3
        run ! happened ' SUSPENDED'
        lodger two --mem 2G --swap -- "$kept" 128
        for _ in 1 2; do
                goes_on two
                goes_on one
        done
        goes_on quick
        [ "$(moves_of quick)" = 0 ]
        [ "$(moves_of one)" -gt 0 ]
}

@test "what device and host do not hold together is refused, and what cannot take part in it" {
        daemon_start --swap 5G
        lodger one --mem 2500M --swap -- sleep 300
        lodger two --mem 2500M --swap -- sleep 300
        refused --mem 2500M --swap
        [[ $output == *"device and host do not hold that together"*"7.3 GiB of host memory, and there are 5 GiB"*"ask for less"* ]]
        refused --mem 5G --swap
        refused --mem 100M --swap --job j
        [[ $output == *"no --swap with --job"* ]]
        lodger firm --mem 1G -- sleep 300 # beside each of them, and it stays
        refused --mem 2G
        [[ $output == *"do not fit"* ]]
        refused --mem 3500M --swap
        [[ $output == *"beside the leases without --swap"* ]]
        "$sublet" ps -q | sort | paste -sd' ' | grep -qx 'firm one two'
}

@test "a tenant that its user suspends stays out, and comes in when there is room once it is resumed" {
        daemon_start --swap 8G --swap-cost 50%
        taker one
        goes_on one
        run -0 "$sublet" suspend one
        taker two
        goes_on two
        sleep 2
        [ "$(of one state)" = suspended ]
        [ "$(moves_of two)" = 0 ]
        run -0 "$sublet" resume one # two leaves for it
        [ "$output" = "one: running" ]
        goes_on one
        goes_on two
}

@test "a daemon that is killed at any time of it: the next one goes on, and all keep what they wrote" {
        daemon_start --swap 8G --swap-cost 50%
        taker one
        taker two
        goes_on one
        goes_on two
        for delay in 0.3 1.1 1.7; do
                sleep "$delay"
                daemon_end KILL
                daemon_start --swap 8G --swap-cost 50%
                goes_on one
                goes_on two
        done
        run ! happened 'SUSPEND_LOST|BOOKS_NOT_EMPTY|AUDIT_MISMATCH'
}

# A tenant that could not be suspended is left alone for a minute, and this one could.
@test "who was on its way out when its daemon was killed leaves for the next one all the same" {
        export KEPT_FILLED=64
        daemon_start --swap 8G --swap-cost 50%
        taker one
        taker two
        pause_most=20 wait_for eval '[ "$(of one state)" = suspending ] || [ "$(of two state)" = suspending ]'
        daemon_end KILL
        daemon_start --swap 8G --swap-cost 50%
        wait_for happened SUSPEND_FAILED 'the daemon ended while'
        patience=30 goes_on one
        patience=30 goes_on two
}

@test "one that cannot be suspended stays, who waits for its room is told so, and comes in when it has ended" {
        daemon_start --suspend-by checkpoint --swap 8G --swap-cost 50%
        lodger stays --mem 2500M --swap -- "$kept" 128 SHARED
        goes_on stays
        taker two
        wait_for happened SUSPEND_FAILED NOT_SUPPORTED
        wait_for happened ROOM_NOT_MADE 'none of which can be suspended'
        goes_on stays
        [ "$(of two state)" = suspended ]
        "$sublet" end stays
        goes_on two
}

@test "without --swap nothing changes, but that host memory has an end: then suspending is refused, and nothing is lost" {
        daemon_start --swap 1G
        lodger one --mem 2G -- "$kept" 1216
        goes_on one
        [ "$(of one swap) $(of one waits_for)" = "false null" ]
        run -1 "$sublet" suspend one
        [[ $output == *"'one' holds"*"host memory for suspended tenants has room for 1 GiB"* ]]
        goes_on one
        refused --mem 3G
        [[ $output == *"do not fit"* ]]
        daemon_end TERM
        daemon_start
        wait_for eval '[ "$(of one state)" = running ]'
        "$sublet" suspend one
        "$sublet" resume one
        goes_on one
        refused --mem 1G --swap
        [[ $output == *"no host memory for --swap"* ]]
        run -2 "$sublet" daemon --swap 1G --overcommit
        [[ ${#lines[@]} = 1 && $output == *"leave one of them out"* ]]
}
