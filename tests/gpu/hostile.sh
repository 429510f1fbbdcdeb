#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The attacks of tests/hostile on a real GPU: each is stopped at its quota, by the
# device's own figure, read from outside. First without a gate, eight at a time, where each comes past the quota:
# that they are attacks. Then each as a tenant. Needs an NVIDIA GPU that nobody else uses, gcc and the CUDA driver
# headers. TAP on stdout, raw output in ${OUT:-/tmp/sublet-gpu}/hostile.log. Without ATTACKs also those whose truth is
# no figure of the device, and facts that the gate goes by: hostile-others.bash. What has not begun after BUDGET seconds
# (500) is skipped, and said.
#
#       tests/gpu/hostile.sh [PATH-OF-SUBLET] [ATTACK...]      about 7 minutes; an ATTACK by name: some 5 s
set -u
cd "$(dirname "$0")/../.." || exit 1
sublet=$(realpath "${1:-build/src/sublet}") || exit 1
shift
out=${OUT:-/tmp/sublet-gpu}
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; rm -rf "$work"' EXIT
mkdir -p "$out"
log=$out/hostile.log
: > "$log"
quota=2048 # MiB; eight attacks without a gate fit the device together
slack=16
n=0 passed=0 failed=0 skipped=0
table=()

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM CONDITION
        n=$((n + 1))
        if [ "$2" ]; then passed=$((passed + 1)) && say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}
skip() { # CLAIM REASON
        n=$((n + 1)) skipped=$((skipped + 1))
        say "ok $n - $1 # SKIP $2"
}
is_late() { [ "$SECONDS" -gt "${BUDGET:-500}" ]; }
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1; }

include=${CUDA_INCLUDE:-/usr/local/cuda/include}
stubs=${CUDA_STUBS:--L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs}
crowds='descriptors|many_processes' # a thousand clients and more: only by name
in_pairs='number_reused'            # needs another program beside it: attacks-callers.bats
daemons='exec_beside|exec_suspended|listener_held|region_leased|segments_full|tenancies_many' # attacks-daemon.bats
others='outlived|listens_many|pools_many|preemption_modes|channels_all|attached|groups_of_ranges|ranges_many|answer_kept|listens_kept|groups_hidden'
attacks=("$@")
[ ${#attacks[@]} -gt 0 ] || mapfile -t attacks < <(for f in tests/hostile/*.c; do basename "$f" .c; done | grep -vE "^(kit|time|$crowds|$in_pairs|$daemons|$others)")
for part in kit kit_fuse; do gcc -O2 -c -I"$include" "tests/hostile/$part.c" -o "$work/$part.o" || exit 1; done
for attack in "${attacks[@]}" $([ $# -gt 0 ] || echo "${others//|/ }"); do
        # shellcheck disable=SC2086  # a list of flags
        gcc -O2 -I$include "tests/hostile/$attack.c" "$work/kit.o" "$work/kit_fuse.o" -o "$work/$attack" $stubs -lcuda -lpthread || exit 1
done
{ uname -a; nvidia-smi; cat /proc/driver/nvidia/version; date -u; } >> "$log"

# shellcheck disable=SC2086  # a list of flags
gcc -O2 -I"$include" tests/gpu/load.c -o "$work/load" $stubs -lcuda -lm || exit 1
# shellcheck source=tests/gpu/hostile-others.bash
. tests/gpu/hostile-others.bash

# quota_of NAME: smaller where the driver needs long to fill page tables (80 MiB a second were seen)
quota_of() {
        case $1 in
        page_tables_lazy_maps) echo 512 ;;
        page_tables_sparse) echo 1024 ;;
        *) echo $quota ;;
        esac
}

# attack NAME COMMAND...: in the background until `let_go`; what it says is in $work/NAME.out
attack() {
        local name=$1
        shift
        mkfifo "$work/$name.in"
        QUOTA_MIB=$(quota_of "$name") "$@" "$work/$name" < "$work/$name.in" > "$work/$name.out" 2>&1 &
        exec {line}> "$work/$name.in"
        lines+=("$line")
}
let_go() {
        for line in "${lines[@]}"; do exec {line}>&-; done
        lines=()
        rm -f "$work"/*.in
}
lines=()

# Those first: they are few, and new.
[ $# -gt 0 ] || others

# ---- without a gate -------------------------------------------------------------------------------
together=0
# without_gate ATTACK...: together, until each says what it has
without_gate() {
        local before now i outs=("${@/#/$work/}")
        is_late && return
        before=$(used)
        for name; do attack "$name" timeout -s KILL 40; done
        for ((i = 0; i < 45; i++)); do
                [ "$(cat "${outs[@]/%/.out}" | grep -cE '^(holding|cannot|setup)')" -lt $# ] || break
                jobs -r | grep -q . || break
                sleep 1
        done
        now=$(($(used) - before))
        [ $now -le $together ] || together=$now
        let_go
        wait
}
# A few at a time: all of them at once wait for the driver's locks, which those with page tables hold for long. One
# takes all addresses of the fabric, and leaves none to another.
mapfile -t crowd < <(printf '%s\n' "${attacks[@]}" | grep -vx fabric_addresses)
for ((first = 0; first < ${#crowd[@]}; first += 8)); do without_gate "${crowd[@]:first:8}"; done
[ ${#crowd[@]} -eq ${#attacks[@]} ] || without_gate fabric_addresses
declare -A native
for name in "${attacks[@]}"; do
        native[$name]=$(sed -n 's/^holding mib=//p' "$work/$name.out")
        echo "# without a gate: $name: $(cat "$work/$name.out")" >> "$log"
done
say "# without a gate, the largest batch: $together MiB"
sleep 2

# ---- as tenants -----------------------------------------------------------------------------------
for name in "${attacks[@]}"; do
        if is_late; then
                skip "$name" 'no time is left'
                continue
        fi
        if [ -z "${native[$name]}" ] || [ "${native[$name]}" -le $(($(quota_of "$name") + slack)) ]; then
                skip "$name" "no attack here: ${native[$name]:-nothing} MiB without a gate"
                continue
        fi
        rm -f "$work/report"
        before=$(used) most=0 its=$(quota_of "$name")
        attack "$name" timeout -s KILL 40 "$sublet" run --json --report "$work/report" --mem "${its}M" --
        attacker=$!
        for ((i = 0; i < 400; i++)); do
                now=$(($(used) - before))
                [ $now -le $most ] || most=$now
                grep -q '^holding' "$work/$name.out" && break
                kill -0 $attacker 2> /dev/null || break
                sleep 0.1
        done
        for i in 1 2 3 4 5; do
                sleep 0.3
                now=$(($(used) - before))
                [ $now -le $most ] || most=$now
        done
        let_go
        wait $attacker
        { echo "# $name: at most $most MiB on the device"; cat "$work/$name.out" "$work/report"; } >> "$log" 2>&1
        check "$name: it ran as a tenant" "$([ -s "$work/report" ] && echo y)"
        check "$name: at most the quota on the device ($most of $its MiB)" "$([ $most -le $((its + slack)) ] && echo y)"
        check "$name: it got as far as it may, or was refused" \
                "$(grep -q '^holding' "$work/$name.out" || grep -qE '"refusals":[1-9]|DENIED|QUOTA_REFUSED' "$work/report" && echo y)"
        # Addresses are no memory: the device's figure says nothing of them.
        said=$(sed -n 's/^holding mib=//p' "$work/$name.out")
        [ "$name" != fabric_addresses ] || check "$name: its quota of addresses and 16 GiB, and some ($said MiB)" \
                "$([ "${said:-0}" -gt 0 ] && [ "$said" -le $((its + 16384)) ] && echo y)"
        check "$name: nothing is held at the end" "$(grep -q '"held_bytes":[1-9]' "$work/report" || echo y)"
        for ((i = 0; i < 50; i++)); do
                now=$(($(used) - before))
                [ $now -gt 2 ] || break
                sleep 0.1
        done
        check "$name: the device has what it had before ($now MiB)" "$([ "$now" -le 2 ] && echo y)"
        table+=("$(printf '%-24s %9s %9s %9s %9s' "$name" "${native[$name]}" $most "${said:--}" "$now")")
done

say "$(printf '%-24s %9s %9s %9s %9s' attack 'no gate' 'tenant' 'it says' 'left') of $quota MiB"
for row in "${table[@]}"; do say "$row"; done
say "1..$n"
say "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
