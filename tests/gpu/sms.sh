#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The SM partition (sublet run --sms) on this machine's device, or on the simulator: on how many multiprocessors work
# runs, and how fast, alone and beside another tenant. TAP, raw output in ${OUT:-/tmp/sublet-sms}/sms.log; a table and
# the verdict are last. A real device needs gcc and the CUDA headers, and PyTorch for its rows.
#
#       tests/gpu/sms.sh [BUILD]        about 2 minutes; ROWS="rates torch resnet spatial", SECONDS_PER_ROW=3
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
is_real=y
[ -z "${SUBLET_SIM:-}" ] || is_real=
if [ $is_real ] && [ ! -e /sys/module/nvidia/version ]; then
        exec "$sublet" sim -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-sms}
work=$(mktemp -d)
log=$out/sms.log
rows=${ROWS:-rates torch resnet spatial}
seconds=${SECONDS_PER_ROW:-3}
n=0 passed=0 failed=0 skipped=0 started=$SECONDS daemon=
table=()
mkdir -p "$out"
: > "$log"

finish() {
        [ -z "$daemon" ] || kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM TRUE-IF-NOT-EMPTY
        n=$((n + 1))
        if [ "$2" ]; then passed=$((passed + 1)) && say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}
skip() { n=$((n + 1)) skipped=$((skipped + 1)) && say "ok $n - $1 # SKIP $2"; }
wants() { case " $rows " in *" $1 "*) return 0 ;; esac && return 1; }
line() { table+=("$(printf '%-34s %-12s %12s %10s' "$@")"); }
field() { tr ' ' '\n' | sed -n "s/^$1=//p" | tail -1; }
calc() { awk "BEGIN { printf \"%.4f\", $1 }"; }
percent() { awk "BEGIN { printf \"%.1f %%\", 100 * ($1) }"; }
is() { awk -v a="${1:-nan}" -v b="$3" "BEGIN { exit !(a != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
near() { awk -v a="${1:-nan}" -v b="$2" -v off="$3" 'BEGIN { exit !(a != "nan" && a >= b * (1 - off) && a <= b * (1 + off)) }' && echo y; }

# part SMS COMMAND...: with the library inside; its report is $work/report
part() {
        local size=$1
        shift
        timeout -s KILL 120 "$sublet" run --no-daemon --preload --sms "$size" --json --report "$work/report" -- "$@" 2>> "$log"
}
given() { grep -o '"given":[0-9]*' "$work/report" | cut -d: -f2; }

# ---- the machine ------------------------------------------------------------------------------
sms=$build/tests/gpu/gpu-sms
machine="simulated (the figures are the simulator's, not a GPU's)"
if [ $is_real ]; then
        machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
        sms=$work/sms
        gcc -O2 -I/usr/local/cuda/include tests/gpu/sms.c -o "$sms" \
                -L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs -lcuda -lpthread -ldl || exit 1
fi
has_torch=$([ $is_real ] && python3 -c 'import torch, torchvision' 2> /dev/null && echo y)
say "# machine: $machine, kernel $(uname -r), $(nproc) processors, $(date -u +%FT%TZ)"

# ---- every way to a context -------------------------------------------------------------------
if wants rates; then
        native=$("$sms" count primary stream graph 2>> "$log")
        echo "$native" >> "$log"
        all=$(field count <<< "$native") whole=$(grep 'way=primary' <<< "$native" | field rate)
        line "arithmetic, native" "$all SMs" "$whole/s" "100.0 %"
        for row in "100% 1" "50% 0.5" "25% 0.25" "10% 0.1"; do
                read -r size share <<< "$row"
                got=$(part "$size" "$sms" count runtime primary created thread stream graph reset)
                code=$? has=$(given)
                echo "--sms $size: $got" >> "$log"
                check "--sms $size: contexts, streams, graphs and threads of every kind work" \
                        "$([ $code = 0 ] && [ "$(grep -c rate= <<< "$got")" = 7 ] && echo y)"
                worst=$(sed -n 's/.* rate=\([0-9.]*\).*/\1/p' <<< "$got" | sort -n | awk 'NR == 1 { a = $1 } { b = $1 } END { print a, b }')
                read -r least most <<< "$worst"
                check "--sms $size: $has multiprocessors, all ways within 5 % of in proportion to them ($least to $most)" \
                        "$(near "$least" "$(calc "$whole * $has / $all")" 0.05 > /dev/null && near "$most" "$(calc "$whole * $has / $all")" 0.05)"
                case $size in 10%) ;; *)
                        check "--sms $size: within 5 % of $size of the whole" \
                                "$(near "$(calc "($least + $most) / 2")" "$(calc "$whole * $share")" 0.05)" ;;
                esac
                [ $is_real ] && check "--sms $size: no block was on another multiprocessor" \
                        "$([ "$(sed -n 's/.* sms=\([1-9][0-9]*\).*/\1/p' <<< "$got" | sort -un)" = "$has" ] && echo y)"
                line "arithmetic, --sms $size" "$has SMs" "$least/s" "$(percent "$least / $whole")"
        done
fi

# ---- PyTorch ----------------------------------------------------------------------------------
if wants torch; then
        if [ "$has_torch" ]; then
                native=$(timeout 120 python3 tests/gpu/sms_torch.py 2>> "$log")
                echo "$native" >> "$log"
                line "bf16 8192, native" "$(field count <<< "$native") SMs" "$(field bf16_s <<< "$native")/s" "100.0 %"
                for size in 50% 25%; do
                        got=$(part "$size" python3 tests/gpu/sms_torch.py) has=$(given)
                        echo "--sms $size: $got" >> "$log"
                        check "PyTorch on $has: default stream, streams and threads compute there only" \
                                "$([ "$(grep -cE "^(count|default_sms|stream_sms|thread_sms)=$has\$" <<< "$got")" = 4 ] && echo y)"
                        check "PyTorch on $has: products are right, and it trains" \
                                "$([ "$(field trained <<< "$got")" = ok ] && is "$(field bf16_error <<< "$got")" '<' 0.01)"
                        rel=$(calc "$(field bf16_s <<< "$got") / $(field bf16_s <<< "$native")")
                        check "PyTorch on $has: bf16 products at 95 % of in proportion, or more ($rel)" \
                                "$(is "$rel" '>=' "$(calc "0.95 * $has / $(field count <<< "$native")")")"
                        line "bf16 8192, --sms $size" "$has SMs" "$(field bf16_s <<< "$got")/s" "$(percent "$rel")"
                        line "fp32 4096, --sms $size" "$has SMs" "$(field fp32_s <<< "$got")/s" \
                                "$(percent "$(field fp32_s <<< "$got") / $(field fp32_s <<< "$native")")"
                done
        else
                skip "PyTorch" "no PyTorch here"
        fi
fi

# ---- ResNet-50 --------------------------------------------------------------------------------
# resnet COMMAND-BEFORE...: images a second of a graph of batch 16
resnet() { echo "sync 16 $seconds" | timeout -s KILL 120 "$@" python3 tests/gpu/resnet.py 16 2>> "$out/resnet.err" | tee -a "$out/resnet.log" | field img_s; }
if wants resnet; then
        if [ "$has_torch" ]; then
                native=$(resnet)
                line "ResNet-50 b16, native" "132 SMs" "$native/s" "100.0 %"
                for size in 100% 50% 25% 10%; do
                        got=$(resnet "$sublet" run --no-daemon --preload --sms $size --json --report "$work/report" --) has=$(given)
                        rel=$(calc "${got:-0} / ${native:-1}") fair=$(calc "$has / 132")
                        check "ResNet-50 on $has: at 95 % of in proportion, or more ($got of $native img/s)" \
                                "$(is "$rel" '>=' "$(calc "0.95 * $fair")")"
                        line "ResNet-50 b16, --sms $size" "$has SMs" "$got/s" "$(percent "$rel")"
                done
        else
                skip "ResNet-50" "no PyTorch here"
        fi
fi

# ---- beside another: MPS ----------------------------------------------------------------------
# The kernels fill the multiprocessors on which they run. Kernels that leave room would share them: MPS bounds how many
# a tenant has, not which ones.
# tenant NAME PERCENT: in the background; its rate in $work/NAME.out
tenant() {
        timeout -s KILL 60 "$sublet" run -q --name "$1" --mem 8G --mode spatial --sms "$2" -- "$sms" steady "$work/barrier" "$1" \
                > "$work/$1.out" 2>> "$log" &
        names+=("$1") pids+=($!)
}
go() { # until they are ready; then all at once, and until they have ended
        local name
        for name in "${names[@]}"; do
                for _ in $(seq 1000); do [ -e "$work/barrier/$name.ready" ] && break; sleep 0.02; done
        done
        touch "$work/barrier/go"
        wait "${pids[@]}" 2> /dev/null
        for name in "${names[@]}"; do sed 's/^/# /' "$work/$name.out" >> "$log"; done
        names=() pids=() && rm -rf "$work/barrier" && mkdir "$work/barrier"
}
pace() { field rate < "$work/$1.out"; }
if wants spatial; then
        if [ $is_real ] && command -v nvidia-cuda-mps-control > /dev/null; then
                export SUBLET_DIR=$work/node
                "$sublet" daemon --dir "$SUBLET_DIR" > "$out/daemon.log" 2>&1 &
                daemon=$!
                for _ in $(seq 200); do [ -S "$SUBLET_DIR/tenant.sock" ] && break; sleep 0.02; done
                names=() pids=()
                mkdir -p "$work/barrier"
                for row in "50 50" "70 30"; do
                        read -r a b <<< "$row"
                        tenant "a$a" "$a%" && go
                        alone_a=$(pace "a$a")
                        tenant "b$b" "$b%" && go
                        alone_b=$(pace "b$b")
                        tenant "ab$a" "$a%" && tenant "ba$b" "$b%" && go
                        got_a=$(pace "ab$a") got_b=$(pace "ba$b")
                        line "spatial $a:$b, the first" "$(field count < "$work/ab$a.out") SMs" "$got_a" "$(percent "$got_a / $alone_a")"
                        line "spatial $a:$b, the second" "$(field count < "$work/ba$b.out") SMs" "$got_b" "$(percent "$got_b / $alone_b")"
                        check "spatial $a:$b: each keeps 95 % of what its part does alone ($got_a of $alone_a, $got_b of $alone_b)" \
                                "$(is "$got_a" '>=' "$(calc "0.95 * $alone_a")" > /dev/null && is "$got_b" '>=' "$(calc "0.95 * $alone_b")")"
                done
        else
                skip "beside another" "MPS is not on this machine"
        fi
fi

say "1..$n"
printf '\n%-34s %-12s %12s %10s\n' "$machine" part rate "of native" | tee -a "$log"
for l in "${table[@]}"; do say "$l"; done
say "# $((SECONDS - started)) s"
say "$passed passed, $failed failed$([ $skipped -gt 0 ] && echo ", $skipped skipped")"
[ $failed = 0 ]
