#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quota kept inside the program (sublet run --preload), beside the gate's, on this machine's device or on the
# simulator. A real device needs gcc and the CUDA headers, and PyTorch for its part. TAP on stdout, raw output in
# ${OUT:-/tmp/sublet-preload}/preload.log; the last line is the verdict.
#
#       tests/gpu/preload.sh [BUILD]            about 4 minutes; KILLS=N (default 10000), MIB=N, FAMILIES="alloc vmm"
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
is_real=y
[ -z "${SUBLET_SIM:-}" ] || is_real=
if [ $is_real ] && [ ! -e /sys/module/nvidia/version ]; then
        exec "$sublet" sim --memory 24G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-preload}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
log=$out/preload.log
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
# json NAME: a number of the report, the first of that name
json() { grep -o "\"$1\":[0-9]*" "$work/report" | head -1 | cut -d: -f2; }
# inside|outside SECONDS ARGUMENTS...: sublet run with the library, or with the gate; its output is in $work/out
start() {
        local how=$1 limit=$2
        shift 2
        echo "# sublet run $how $*" >> "$log"
        # shellcheck disable=SC2086  # an option or none
        timeout -s KILL "$limit" "$sublet" run --no-daemon $how --json --report "$work/report" "$@" > "$work/out" 2>&1
        code=$?
        cat "$work/out" "$work/report" >> "$log" 2> /dev/null
}
inside() { start --preload "$@"; }
outside() { start '' "$@"; }

programs=$build/tests/gpu/gpu-
if [ $is_real ]; then
        stubs="-L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs"
        for program in families load; do
                # shellcheck disable=SC2086  # a list of flags
                gcc -O2 -I/usr/local/cuda/include "tests/gpu/$program.c" -o "$work/gpu-$program" $stubs -lcuda -lpthread -lm || exit 1
        done
        gcc -O2 tests/gpu/interposed.c -o "$work/gpu-interposed" -lpthread -ldl || exit 1
        programs=$work/gpu-
        { uname -a; nvidia-smi; cat /proc/driver/nvidia/version; date -u; } >> "$log"
fi
families=${programs}families interposed=${programs}interposed load=${programs}load

# --- every family of memory: as under the gate, to the byte that the program sees ---
for family in ${FAMILIES:-alloc pitch managed async vmm array array3d mipmap graph ipc mempool-export}; do
        outside 90 --mem "${mib}M" -- "$families" "$family" "$step"
        mv "$work/out" "$work/outside"
        inside 90 --mem "${mib}M" -- "$families" "$family" "$step"
        peak=$(json peak_bytes)
        check "$family ends well, and is usable at the quota" "$([ $code = 0 ] && grep -q '^after=ok' "$work/out" && echo y)"
        check "$family: the quota is never exceeded ($((peak >> 20)) of $mib MiB)" "$([ "$peak" -le $((mib << 20)) ] && echo y)"
        check "$family: nothing is held at the end" "$([ "$(json held_bytes)" = 0 ] && echo y)"
        case $family in
        ipc | mempool-export) say "# $family, charged to both: $(head -1 "$work/out")" ;;
        *) check "$family: the program sees what it sees under the gate" "$(cmp -s "$work/out" "$work/outside" && echo y)" ;;
        esac
done

# --- programs of every kind ---
inside 60 --mem 1G -- "$interposed" threads 8
check "8 threads get the quota and not a byte more" "$([ "$(field got_mib < "$work/out")" = 1024 ] && echo y)"
inside 60 --mem 1G -- "$interposed" signals 2000
check "driver calls in a signal handler: $(field handled < "$work/out"), none bad" "$([ $code = 0 ] && echo y)"
inside 60 --mem 1G -- "$interposed" fork
check "a forked child has a ledger of its own" "$([ $code = 0 ] && echo y)"
inside 600 --mem 4G -- "$interposed" forks "${KILLS:-10000}"
check "${KILLS:-10000} processes killed anywhere leave nothing charged" "$([ $code = 0 ] && [ "$(json held_bytes)" = 0 ] && echo y)"

# --- launches: three natively and three inside, alternating ---
if [ $is_real ]; then
        for _ in 1 2 3; do
                "$load" -k 2 -t 3 sync >> "$work/native" 2>> "$log"
                inside 30 --mem "${mib}M" -- "$load" -k 2 -t 3 sync
                cat "$work/out" >> "$work/within"
        done
        native=$(tr ' ' '\n' < "$work/native" | sed -n 's/^kernels=//p' | sort -n | tail -1)
        within=$(tr ' ' '\n' < "$work/within" | sed -n 's/^kernels=//p' | sort -n | tail -1)
        say "# short kernels in 3 s, best of 3: native ${native:-?}, inside ${within:-?}"
        check "launches cost at most 1 % more" "$([ "${within:-0}" -ge $((${native:-1} * 99 / 100)) ] && echo y)"
fi

# --- PyTorch ---
if [ $is_real ] && python3 -c 'import torch' 2> /dev/null; then
        python3 tests/gpu/torch_oom.py > "$work/native" 2>&1
        cat "$work/native" >> "$log"
        inside 180 --mem "${mib}M" -- python3 tests/gpu/torch_oom.py
        check "PyTorch: mem_get_info is the quota" "$([ "$(field total_mib < "$work/out")" = "$mib" ] && echo y)"
        check "PyTorch: OutOfMemoryError at the quota, then recovery" \
                "$(grep -q '^oom=OutOfMemoryError' "$work/out" && grep -q '^result=ok' "$work/out" && echo y)"
        for key in matmul_checksum resnet50_checksum loader_sum; do
                check "PyTorch: $key is as without the library" "$([ "$(field $key < "$work/out")" = "$(field $key < "$work/native")" ] && echo y)"
        done
fi
say "1..$n"
say "$((n - failed)) passed, $failed failed"
[ $failed = 0 ]
