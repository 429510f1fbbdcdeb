#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quota on a real GPU: every way to memory ends at the quota, and nothing else changes. Needs an NVIDIA GPU, gcc,
# the CUDA driver headers; PyTorch for its part. TAP on stdout, raw output beside it in
# ${OUT:-/tmp/sublet-gpu}/quota.log; ends with a table and the verdict.
#
#       tests/gpu/quota.sh [PATH-OF-SUBLET]          about 5 minutes; RACE=ROUNDS for a shorter race
set -u
cd "$(dirname "$0")/../.." || exit 1
sublet=$(realpath "${1:-build/src/sublet}") || exit 1
out=${OUT:-/tmp/sublet-gpu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
log=$out/quota.log
: > "$log"
n=0 passed=0 failed=0
table=()

say() { echo "$@" | tee -a "$log"; }
ok() { n=$((n + 1)) passed=$((passed + 1)); say "ok $n - $1"; }
not_ok() { n=$((n + 1)) failed=$((failed + 1)); say "not ok $n - $1"; }
check() { if [ "$2" ]; then ok "$1"; else not_ok "$1"; fi; }
# field NAME: of name=value words on stdin, the last
field() { tr ' ' '\n' | sed -n "s/^$1=//p" | tail -1; }
# json NAME FILE: a number of a one-line report, the first of that name: the first device's
json() { grep -o "\"$1\":[0-9]*" "$2" | head -1 | cut -d: -f2; }
# tenant SECONDS ARGUMENTS...: runs sublet, its report in $work/report, all output in $work/out and the log
tenant() {
        local limit=$1
        shift
        echo "# sublet run $*" >> "$log"
        timeout -s KILL "$limit" "$sublet" run --json --report "$work/report" --audit 50 "$@" > "$work/out" 2>&1
        code=$?
        cat "$work/out" "$work/report" >> "$log" 2>/dev/null
        return 0
}

include=/usr/local/cuda/include
stubs="-L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs"
for program in families memb race share load; do
        # shellcheck disable=SC2086  # a list of flags
        gcc -O2 -I$include "tests/gpu/$program.c" -o "$work/$program" $stubs -lcuda -lpthread || exit 1
done
gcc -O2 -static tests/gpu/raw.c -o "$work/raw" || exit 1
{ uname -a; nvidia-smi; cat /proc/driver/nvidia/version; date -u; } >> "$log"

mib=8192
tenant 60 --mem ${mib}M -- "$work/families" meminfo
context=$((mib - $(field free_mib < "$work/out")))
say "# a context takes $context MiB"

# --- every family of memory ---
largest=0
for family in alloc pitch managed async vmm array array3d mipmap graph ipc mempool-export; do
        tenant 90 --mem ${mib}M -- "$work/families" $family 16
        grep '^family=' "$work/out" > "$work/first"
        got=$(field got_mib < "$work/first") last=$(field last < "$work/first")
        peak=$(json peak_bytes "$work/report")
        contexts=$context want=CUDA_ERROR_OUT_OF_MEMORY
        case $family in
        ipc | mempool-export) contexts=$((2 * context)) ;;
        managed) want=CUDA_ERROR_NOT_PERMITTED ;; # libcuda knows no other word for it: src/gate/managed.c
        esac
        share=$(((peak >> 20) * 1000 / mib)) # what CUDA rounds up is the program's use, too
        table+=("$(printf '%-15s %7s %8s %9s.%s%%  %s' $family "${got:-?}" $contexts $((share / 10)) $((share % 10)) "${last:-?}")")
        check "$family stops at the quota with $want" "$([ "$last" = $want ] && echo y)"
        check "$family: at least 99.5 % of the quota is usable, the context counted" "$([ $share -ge 995 ] && echo y)"
        check "$family: never more than the quota was held" "$([ "$peak" -le $((mib << 20)) ] && echo y)"
        check "$family is usable afterwards" "$(grep -q '^after=ok' "$work/out" && [ $code = 0 ] && echo y)"
        check "$family: nothing is held at the end" "$(grep -q '"held_bytes":[1-9]' "$work/report" || echo y)"
        under=$(json largest_under_bytes "$work/report") over=$(json largest_over_bytes "$work/report")
        comparisons=$(json comparisons "$work/report")
        [ $family = managed ] && continue # not in the driver's figure
        check "$family: the driver never counts more than the ledger ($comparisons comparisons)" "$([ "$under" = 0 ] && echo y)"
        case $family in
        ipc | mempool-export) continue ;; # the ledger counts what descriptors hold; the driver's figure does not
        esac
        check "$family: ledger and driver agree within 2 MiB ($over bytes in $comparisons comparisons)" \
                "$([ "$comparisons" -gt 0 ] && [ "$over" -le 2097152 ] && echo y)"
        [ "$over" -gt "$largest" ] && largest=$over
done
for mode in deny allow; do
        tenant 60 --managed=$mode --mem ${mib}M -- "$work/families" managed 64 256
        last=$(field last < "$work/out")
        if [ $mode = deny ]; then want=CUDA_ERROR_NOT_SUPPORTED; else want=CUDA_SUCCESS; fi
        check "managed memory under --managed=$mode: $want" "$([ "$last" = $want ] && echo y)"
done
tenant 60 --mem ${mib}M --host-mem 32M -- "$work/families" start
check "host memory that the driver takes stops at its own limit" "$(grep -q CUDA_ERROR_OUT_OF_MEMORY "$work/out" && [ "$(json HOST_REFUSED "$work/report")" -gt 0 ] && echo y)"

# --- programs that link nothing of CUDA ---
for spelling in plain legacy xfer type; do
        tenant 30 --mem 1G -- "$work/raw" --$spelling --steps 64
        check "a static program with raw system calls, spelling $spelling, gets its GiB and no more" \
                "$([ "$(field got_mib < "$work/out")" = 1024 ] && echo y)"
done
for table_ in i386 x32; do
        tenant 30 --mem 1G -- "$work/raw" --$table_ --steps 64
        check "the $table_ system calls carry no driver call" "$([ "$(field got_mib < "$work/out")" = 0 ] && echo y)"
done
tenant 30 --mem 1G -- "$work/raw" --disable-foreign
check "channels cannot be switched off by handle" "$(grep -q 'status=0x1b' "$work/out" && echo y)"

# --- races ---
rounds=${RACE:-100000}
base=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0)
(while :; do nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; sleep 0.2; done > "$work/used") &
watcher=$!
start=$(date +%s)
tenant 420 --mem 4G -- "$work/raw" --race "$rounds" --processes 32 --max 256
kill $watcher
most=$(sort -n "$work/used" | tail -1)
say "# 32 processes x $rounds rounds in $(($(date +%s) - start)) s: $(grep ^race "$work/out"); the device showed at most $((most - base)) MiB more"
check "32 processes x $rounds racing allocations end without an error" "$([ $code = 0 ] && echo y)"
check "… and never hold a byte over the quota" "$([ "$(json peak_bytes "$work/report")" -le $((4 << 30)) ] && echo y)"
check "… by the device's own figure too (within 16 MiB of clients' own)" "$([ $((most - base)) -le $((4096 + 16)) ] && echo y)"
tenant 120 --mem 20G -- "$work/race" --processes 32 --seconds 10 --max 64
check "32 CUDA processes race for one quota without an error" \
        "$([ "$(field errors < "$work/out")" = 0 ] && [ "$(field wrong_total < "$work/out")" = 0 ] && [ $code = 0 ] && echo y)"

# --- two tenants ---
for ipc in private host; do
        rm -f "$work"/handle*
        "$sublet" run -q --ipc=$ipc --json --report "$work/giver" --mem 2G -- "$work/share" give "$work/handle" 512 >> "$log" 2>&1 &
        giver=$!
        for _ in $(seq 100); do [ -s "$work/handle" ] && break; sleep 0.1; done
        (sleep 6; touch "$work/handle.end") &
        tenant 30 --ipc=$ipc --mem 2G -- "$work/share" take "$work/handle"
        wait $giver
        took=$(field take < "$work/out")
        if [ $ipc = private ]; then
                check "an IPC handle of another tenant is refused" "$([ "$took" != CUDA_SUCCESS ] && echo y)"
        else
                check "an IPC handle of another tenant is opened under --ipc=host" "$([ "$took" = CUDA_SUCCESS ] && echo y)"
                check "… and charged to both" "$([ "$(json peak_bytes "$work/report")" -ge $(((512 + 500) << 20)) ] &&
                        [ "$(json peak_bytes "$work/giver")" -ge $(((512 + 500) << 20)) ] && echo y)"
        fi
done

# --- waits ---
# Refused what it asks for after a second, libcuda says that work is done which is not.
tenant 20 --mem ${mib}M -- "$work/load" -r "$("$work/load" calibrate | tr ' ' '\n' | sed -n 's/^rounds_per_us=//p')" -k 1500000 -t 1 sync
check "a kernel of 1.5 s is waited for" "$(awk -v us="$(field p50_us < "$work/out")" 'BEGIN { print us > 1400000 ? "y" : "" }')"

# --- nvidia-smi ---
tenant 30 --mem ${mib}M -- nvidia-smi --query-gpu=memory.total,memory.free --format=csv,noheader,nounits
check "nvidia-smi shows the quota ($(head -1 "$work/out"))" "$(grep -q "^$mib, $mib" "$work/out" && echo y)"
rm -f "$work"/handle* "$work"/other*
"$work/share" give "$work/other" 256 > /dev/null 2>&1 &
tenant 30 --mem ${mib}M -- sh -c "$work/share give $work/handle 512 & sleep 3; nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits; touch $work/handle.end; wait"
touch "$work/other.end"
apps=$(grep -cE '^[0-9]+, [0-9]+' "$work/out")
say "# nvidia-smi inside: $(grep -E '^[0-9]+, ' "$work/out" | tr '\n' ';')"
check "nvidia-smi lists the tenant's process and none of others" "$([ "$apps" = 1 ] && echo y)"
wait

# --- PyTorch ---
if python3 -c 'import torch' 2> /dev/null; then
        python3 tests/gpu/torch_oom.py > "$work/native" 2>&1
        cat "$work/native" >> "$log"
        tenant 180 --mem ${mib}M -- python3 tests/gpu/torch_oom.py
        check "PyTorch: mem_get_info is the quota" "$([ "$(field total_mib < "$work/out")" = $mib ] && echo y)"
        check "PyTorch: OutOfMemoryError at the quota, then recovery" "$(grep -q '^oom=OutOfMemoryError' "$work/out" && grep -q '^result=ok' "$work/out" && echo y)"
        for key in matmul_checksum resnet50_checksum loader_sum; do
                check "PyTorch: $key is as without supervision" \
                        "$([ "$(field $key < "$work/out")" = "$(field $key < "$work/native")" ] && echo y)"
        done
fi

# --- death ---
"$sublet" run -q --mem 4G -- "$work/raw" --max 2048 --hold 30 >> "$log" 2>&1 &
supervisor=$!
sleep 1.5
kill -9 $supervisor
sleep 0.3
pkill -9 -x raw
sleep 0.5
check "memory of a killed tenant whose supervisor was killed comes back" \
        "$([ "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0)" -le $((base + 16)) ] && echo y)"

echo
say "family          got MiB  context    of quota  last"
for row in "${table[@]}"; do say "$row"; done
say "largest difference between ledger and driver: $largest bytes"
say "1..$n"
say "$passed passed, $failed failed"
[ $failed = 0 ]
