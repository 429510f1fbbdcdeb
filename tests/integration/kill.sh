#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGKILL at random points of a tenant's life, N times: of its command, or of a helper process and then the
# command. After each the tenant's ledger must be empty and the device's memory free as before. Speaks TAP.
#
#       tests/integration/kill.sh BUILD [N [SEED]]
set -u
BATS_TEST_DIRNAME=$(cd "$(dirname "$0")/run" && pwd)
BATS_TEST_TMPDIR=$(mktemp -d /tmp/sublet-kill-XXXXXX)
SUBLET_BUILD=$(cd "${1:?usage: kill.sh BUILD [N [SEED]]}" && pwd)
# shellcheck source=../integration/machine.bash
. "$BATS_TEST_DIRNAME/../machine.bash"
n=${2:-50}
RANDOM=${3:-$$}
echo "# $n kills, seed ${3:-$$}"

machine_start --memory 24G || { echo "Bail out! no machine"; exit 1; }
trap 'machine_end; rm -rf "$BATS_TEST_TMPDIR"' EXIT

# The device's own figure; no context is made for it.
device_free() { value free_mib "$(on "$raw" --max 1 | tail -1)"; }
children() { cat /proc/"$1"/task/*/children 2> /dev/null; }
doze() { sleep "0.$(printf '%03d' $((RANDOM % $1)))"; }

programs=(
        "$families alloc 64"
        "$families vmm 64"
        "$families async 64"
        "$families array 64"
        "$families managed 64"
        "$families ipc 64"
        "$families mempool-export 64"
        "$race --processes 3 --seconds 5 --iterations 1000000 --max 64"
        "$plain/tests/gpu/gpu-hostile --legacy --hold 1"
        "sh -c '$families alloc 256 & $families pitch 64'"
)

# once PROGRAM: runs it and kills it
once() {
        local command helper status=0
        rm -f "$report"
        tenant_start --mem 2G -- bash -c "exec $1" > /dev/null 2> "$BATS_TEST_TMPDIR/err"
        # Its life begins when it is there, however slow the machine is.
        until command=$(children "$supervisor" | tr ' ' '\n' | head -1) && [ -n "$command" ]; do
                kill -0 "$supervisor" 2> /dev/null || break
                sleep 0.005
        done
        doze 120
        if [ -n "$command" ] && [ $((RANDOM % 3)) -eq 0 ]; then
                # shellcheck disable=SC2046
                helper=$(printf '%s\n' $(children "$command") | shuf -n 1)
                [ -n "$helper" ] && kill -KILL "$helper" 2> /dev/null
                doze 60
        fi
        [ -n "$command" ] && kill -KILL "$command" 2> /dev/null && killed=$((killed + 1))
        wait "$supervisor" || status=$?
        ends[$status]=$((${ends[$status]:-0} + 1))
}

before=$(device_free)
killed=0 bad_books=0 bad_device=0 bad_end=0
declare -A ends=()
for ((i = 0; i < n; i++)); do
        program=${programs[RANDOM % ${#programs[@]}]}
        once "$program"
        if ! books_are_empty 2> /dev/null; then
                bad_books=$((bad_books + 1))
                echo "# kill $i, $program: books: $(cat "$report" 2> /dev/null || echo none) $(tail -3 "$BATS_TEST_TMPDIR/err")"
        fi
        after=$(device_free)
        if [ "$after" != "$before" ]; then
                bad_device=$((bad_device + 1))
                echo "# kill $i, $program: the device had $before MiB free, has ${after:-nothing}"
                before=$after # each loss is reported once
        fi
done
for status in "${!ends[@]}"; do
        echo "# ${ends[$status]} ended with $status"
        [ "$status" -eq 137 ] || [ "$status" -le 3 ] || bad_end=$((bad_end + ends[$status]))
done
check() { # CLAIM NUMBER-OF-FAILURES
        if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "not ok $1: $2 times"; failed=1; fi
}
failed=0
check "1 - after each of $n runs, $killed of them killed, the books were empty" "$bad_books"
check "2 - and the device had what it had before" "$bad_device"
check "3 - and sublet itself ended as its command did" "$bad_end"
check "4 - and most of the kills met a living tenant" "$([ $((killed * 2)) -gt "$n" ]; echo $?)"
echo 1..4
exit "$failed"
