#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether one client of an MPS server can be taken off the device alone, while the others of its group go on: two
# tenants of a group in closed loops and with deep queues; the channels of one are disabled for two of six seconds, and
# then on and off each 5 ms (mates.c). Then a service of 0.8 ms beside a deep queue of 5 ms kernels in one group, as
# they are, and with the queue on and off each 5 ms. A row each; the first column is who is switched. Needs root, a
# device or the simulator with tests/fakes/mps before PATH; 60 s.
#
#       tests/gpu/mates.sh [BUILD]      SUBLET=... ROUNDS=51.9 (load.c, of this device: gpu-load calibrate)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        exec "$sublet" sim --realistic-time -- "$0" "$@"
fi
load=$(realpath "$build/tests/gpu/gpu-load") mates=$(realpath "$build/tests/gpu/gpu-mates") work=$(mktemp -d)
export SUBLET_DIR=$work/node
mkdir -p "$SUBLET_DIR"
"$sublet" daemon > "$work/daemon" 2>&1 &
daemon=$!
finish() {
        kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT
for _ in $(seq 100); do [ ! -S "$SUBLET_DIR/tenant.sock" ] || break; sleep 0.1; done

# begin NAME OPTION... MODE: a tenant of the group; how many kernels it did in 6 s is in $work/NAME
begin() {
        local name=$1
        shift
        mkdir -p "$work/barrier"
        "$sublet" run -q --name "$name" --group chat --mem 4G --gpu 0 -- "$load" -n "$name" -b "$work/barrier" -t 6 \
                -r "${ROUNDS:-51.9}" "$@" > "$work/$name" 2>&1 &
}
shim() { "$sublet" ps --json | python3 -c 'import json, sys; print(*(t["keeper"] for t in json.load(sys.stdin) if t["tenant"] == sys.argv[1]))' "$1"; }

# row WHAT WHO HOW: both begin together, and WHO is switched from the second second on
row() {
        local switched=-
        for _ in $(seq 300); do [ ! -e "$work/barrier/a.ready" ] || [ ! -e "$work/barrier/b.ready" ] || break; sleep 0.1; done
        touch "$work/barrier/go"
        sleep 2
        [ "$2" = - ] || switched=$(timeout 10 "$mates" "$(shim "$2")" "$3" 2 2>&1)
        wait %2 %3 2> /dev/null
        for _ in $(seq 100); do [ -n "$("$sublet" ps -q)" ] || break; sleep 0.1; done
        printf '%-26s %s %-5s | a %-58s | b %-58s | %s\n' "$1" "$2" "$3" "$(short a)" "$(short b)" "$switched"
        rm -rf "$work/barrier"
}
short() { grep -o '\(kernels\|p50_us\|p99_us\|max_us\)=[^ ]*' "$work/$1" | tr '\n' ' ' || tail -1 "$work/$1"; }

for how in '- -' 'a off' 'a pulse'; do
        for mode in sync deep; do
                begin a -k 770 "$mode"
                begin b -k 770 "$mode"
                # shellcheck disable=SC2086 # two words
                row "two of 0.77 ms, $mode" $how
        done
done
for how in '- -' 'b pulse'; do
        begin a -k 800 -p 5000 periodic
        begin b -k 5000 -q 4 deep
        # shellcheck disable=SC2086
        row 'service beside 5 ms kernels' $how
done
"$sublet" events | grep -v INFO
