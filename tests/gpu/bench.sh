#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sublet doctor` and `sublet bench --modes` on this machine's device, or on the simulator. Nothing is built. TAP on
# stdout; doctor.json, bench.json and the log are in ${OUT:-/tmp/sublet-bench}; the last line is the verdict.
#
#       tests/gpu/bench.sh [BUILD]              about 2 minutes; EACH=2s for each load, ONLY=row,row
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
is_real=y
[ -z "${SUBLET_SIM:-}" ] || is_real=
if [ $is_real ] && [ ! -e /sys/module/nvidia/version ]; then
        exec "$sublet" sim -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-bench}
mkdir -p "$out"
log=$out/bench.log
: > "$log"
n=0 failed=0 started=$SECONDS

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM TRUE-IF-NOT-EMPTY
        n=$((n + 1))
        [ "$2" ] && { say "ok $n - $1"; return; }
        failed=$((failed + 1))
        say "not ok $n - $1"
}
# ask FILE PYTHON: an expression of the file's JSON, `it`
ask() { python3 -c 'import json, sys; it = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" 2>> "$log"; }
value() { ask "$out/bench.json" "next((r.get('value', '') for r in it['measured'] if r['name'] == '$1'), '')"; } # ROW
is() { awk -v a="${1:-nan}" -v b="$3" "BEGIN { exit !(a != \"\" && a != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
status() { ask "$out/doctor.json" "next((f['status'] for f in it['findings'] if f['name'] == '$1'), '')"; } # FINDING

[ ! $is_real ] || { uname -a; nvidia-smi; cat /proc/driver/nvidia/version; date -u; } >> "$log"

"$sublet" doctor | tee -a "$log" | sed 's/^/# /'
"$sublet" doctor --json > "$out/doctor.json"
check "doctor: tenants can be run here" "$([ "$(ask "$out/doctor.json" "it['can_run']")" = True ] && echo y)"
for finding in mps mig green directory daemon self-attach containers cdi router; do
        check "doctor says of $finding: $(status $finding)" "$(status $finding)"
done

"$sublet" bench --modes --for "${EACH:-2s}" ${ONLY:+--only "$ONLY"} -o "$out/bench.json" 2> >(tee -a "$log" >&2) | tee -a "$log" | sed 's/^/# /'
check "the table is there" "$([ -s "$out/bench.json" ] && echo y)"
if [ $is_real ] && [ -z "${ONLY:-}" ]; then
        # The bounds are docs/measured.md's figures of other programs, widened because the loads differ.
        check "turns cost at most 3 % ($(value turn_loss))" "$(is "$(value turn_loss)" '<=' 0.03)"
        check "slices cost at most 15 % ($(value slice_loss))" "$(is "$(value slice_loss)" '<=' 0.15)"
        check "a switch takes 50 to 400 us ($(value switch_cost))" "$([ "$(is "$(value switch_cost)" '>=' 50)" ] && is "$(value switch_cost)" '<=' 400)"
        check "a latency tenant waits less than by the driver ($(value latency_wait) ms, driver $(value driver_wait))" "$(is "$(value latency_wait)" '<' "$(value driver_wait)")"
        check "launches under the gate cost at most 5 % ($(value gate_launch))" "$(is "$(value gate_launch)" '<=' 1.05)"
        check "launches under --preload cost at most 5 % ($(value preload_launch))" "$(is "$(value preload_launch)" '<=' 1.05)"
fi
"$sublet" plan --facts --facts="$out/bench.json" | tee -a "$log" | sed 's/^/# /'
check "the planner reads it" "$("$sublet" plan --facts --facts="$out/bench.json" | grep -q 'measured on' && echo y)"
say "1..$n"
say "$((SECONDS - started)) s; $((n - failed)) passed, $failed failed"
[ $failed = 0 ]
