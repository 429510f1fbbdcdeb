#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The enforcement modes side by side: the same programs natively, under the gate, self-attached, and with the quota
# kept inside only. Results and quotas must be the same; the cost of a launch is measured. Runs on the machine's
# device, or on the simulator. A real device needs gcc and the CUDA headers, and PyTorch for its part. TAP on stdout,
# raw output in ${OUT:-/tmp/sublet-enforcement}/enforcement.log; the last line is the verdict.
#
#       tests/gpu/enforcement.sh [BUILD]             about 3 minutes; MIB=N ROUNDS=12
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
is_real=y
[ -z "${SUBLET_SIM:-}" ] || is_real=
if [ $is_real ] && [ ! -e /sys/module/nvidia/version ]; then
        exec "$sublet" sim --memory 24G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-enforcement}
work=$(mktemp -d)
mkdir -p "$out" "$work/node"
log=$out/enforcement.log
: > "$log"
mib=${MIB:-$([ $is_real ] && echo 8192 || echo 1536)}
step=$([ $is_real ] && echo 16 || echo 32)
n=0 failed=0

say() { echo "$@" | tee -a "$log"; }
check() {
        n=$((n + 1))
        [ "$2" ] && { say "ok $n - $1"; return; }
        failed=$((failed + 1))
        say "not ok $n - $1"
}
# field NAME: of name=value words on stdin, the last
field() { tr ' ' '\n' | sed -n "s/^$1=//p" | tail -1; }
median() { sort -n "$work/kernels-$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

"$sublet" daemon --dir "$work/node" >> "$log" 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon 2> /dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < 100; i++)); do
        "$sublet" ps -q --dir "$work/node" > /dev/null 2>&1 && break
        sleep 0.2
done

# run_in MODE SECONDS COMMAND...: runs it in that enforcement mode; its output is in $work/MODE
run_in() {
        local mode=$1 limit=$2 how=()
        shift 2
        case $mode in
        native | again) timeout -s KILL "$limit" "$@" > "$work/$mode" 2>> "$log" ;;
        *)
                case $mode in
                attached) how=(--preload --attach=required) ;;
                preload) how=(--preload --attach=never) ;;
                esac
                timeout -s KILL "$limit" "$sublet" run --dir "$work/node" "${how[@]}" --mem "${mib}M" --json \
                        --report "$work/report" -- "$@" > "$work/$mode" 2>> "$log"
                ;;
        esac
        code=$?
        { echo "# $mode: $* (exit code $code)"; cat "$work/$mode"; case $mode in native | again) ;; *) cat "$work/report" ;; esac; } >> "$log"
}

programs=$build/tests/gpu/gpu-
if [ $is_real ]; then
        stubs="-L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs"
        for program in families load; do
                # shellcheck disable=SC2086  # a list of flags
                gcc -O2 -I/usr/local/cuda/include "tests/gpu/$program.c" -o "$work/gpu-$program" $stubs -lcuda -lpthread -lm || exit 1
        done
        gcc -O2 -static tests/gpu/raw.c -o "$work/gpu-hostile" || exit 1
        programs=$work/gpu-
        { uname -a; nvidia-smi; cat /proc/driver/nvidia/version; date -u; } >> "$log"
fi
families=${programs}families load=${programs}load hostile=${programs}hostile
modes='gate attached preload'

# --- the mode is the one asked for ---
run_in attached 60 "$sublet" ps --dir "$work/node" --json
check "a tenant that must attach does, on this kernel" "$(grep -q '"plane": "attached"' "$work/attached" && echo y)"
run_in preload 60 "$sublet" ps --dir "$work/node" --json
check "one that must not stays inside" "$(grep -q '"plane": "preload"' "$work/preload" && echo y)"

# --- the quota, seen and kept: the same line in every mode ---
for family in alloc vmm async managed graph; do
        for mode in $modes; do
                run_in "$mode" 90 "$families" "$family" "$step"
                check "$family, $mode: ends well at the quota" "$([ $code = 0 ] && grep -q '^after=ok' "$work/$mode" && echo y)"
        done
        check "$family: all modes see the same" "$(cmp -s "$work/gate" "$work/attached" && cmp -s "$work/gate" "$work/preload" && echo y)"
done

# --- without libc: what the library alone cannot stop ---
run_in attached 60 sh -c "'$hostile' --steps 64 --max $((mib * 2)); exit"
got=$(field got_mib < "$work/attached")
check "a static program of bare system calls below one that attached stops at the quota (${got:-?} of $mib MiB)" \
        "$([ "${got:-0}" -gt 0 ] && [ "${got:-0}" -le "$mib" ] && echo y)"
if [ $is_real ]; then
        run_in preload 60 sh -c "'$hostile' --steps 64 --max $((mib * 2)); exit"
        say "# the same inside only, which does not claim to stop it: $(field got_mib < "$work/preload") MiB"
fi

# --- launches: short runs, one after the other on one processor. A process's place in memory moves its rate by some
# percent, so the best of many is compared; a second native run shows how much that comparison is worth ---
if [ $is_real ]; then
        for ((round = 0; round < ${ROUNDS:-12}; round++)); do
                for mode in native again $modes; do
                        run_in "$mode" 30 taskset -c $(($(nproc) - 2)) "$load" -k 2 -t 1 sync
                        field kernels < "$work/$mode" >> "$work/kernels-$mode"
                done
        done
        native=$(sort -n "$work/kernels-native" | tail -1)
        for mode in again $modes; do
                best=$(sort -n "$work/kernels-$mode" | tail -1)
                say "# short kernels in 1 s, best and median of ${ROUNDS:-12}: native ${native:-?} $(median native), $mode ${best:-?} $(median "$mode")"
                [ "$mode" != again ] || continue
                check "launches, $mode: at most 1 % more" "$([ "${best:-0}" -ge $((${native:-1} * 99 / 100)) ] && echo y)"
        done
fi

# --- PyTorch ---
if [ $is_real ] && python3 -c 'import torch' 2> /dev/null; then
        for mode in native $modes; do
                run_in "$mode" 120 python3 tests/gpu/enforcement.py
                check "PyTorch, $mode: runs" "$([ $code = 0 ] && echo y)"
        done
        for mode in $modes; do
                for key in cublas_sum graph_sum resnet50_sum; do
                        check "PyTorch, $mode: $key is the native one" \
                                "$([ "$(field $key < "$work/native")" ] && [ "$(field $key < "$work/$mode")" = "$(field $key < "$work/native")" ] && echo y)"
                done
                check "PyTorch, $mode: sees its quota" "$([ "$(field total_mib < "$work/$mode")" = "$mib" ] && echo y)"
                say "# a replay of 40 kernels: native $(field graph_us < "$work/native") us, $mode $(field graph_us < "$work/$mode") us"
        done
fi
say "1..$n"
say "$((n - failed)) passed, $failed failed"
[ $failed = 0 ]
