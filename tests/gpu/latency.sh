#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Services that answer people: pairs of ResNet-50 (CUDA graph, launch and wait; resnet.py) of batch 1 and 16, alone, by
# the driver's default and by share: images/s, median and 99th percentile of a step. On a machine with a device,
# PyTorch and torchvision; or on the simulator, with load.c in place of them. About 100 s. A table at the end.
#
#       tests/gpu/latency.sh [BUILD]    SUBLET=path of sublet, WINDOW=4: seconds of each measurement
#                                       DAEMON_OPTIONS="--period 10ms"
#
# Both services begin a measurement together; its first second counts too.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}

# In place of resnet.py, where there is no PyTorch: the same orders, and kernels of the length of its steps.
stand_in() {
        local mode batch seconds period us line
        echo ready
        while read -r mode batch seconds period; do
                us=$((batch == 1 ? 830 : 1500))
                line=$("$1" -r 51.9 -k "$us" -t "$seconds" ${period:+-p "${period}000"} "$mode")
                echo "$line" | awk -v b="$batch" '{ for (i = 1; i <= NF; i++) { split($i, x, "="); v[x[1]] = x[2] }
                        printf "img_s=%.1f p50_us=%s p99_us=%s max_us=%s\n", b * v["kernels"] / v["seconds"], v["p50_us"], v["p99_us"], v["max_us"] }'
        done
}
if [ "$build" = --stand-in ]; then
        stand_in "$2"
        exit
fi
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        # shellcheck disable=SC2086  # options
        exec "$sublet" sim ${SIM_OPTIONS:---realistic-time} -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-latency} window=${WINDOW:-4} work=$(mktemp -d)
log=$out/latency.log daemon='' table=()
declare -A pid fd asked alone
mkdir -p "$out" "$work/node"
: > "$log"
export SUBLET_DIR=$work/node

finish() {
        jobs -p | grep -vx "${daemon:-none}" | xargs -r kill -9 2> /dev/null
        [ -z "$daemon" ] || kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT
say() { echo "$@" | tee -a "$log"; }

if [ -n "${SUBLET_SIM:-}" ]; then
        say "# machine: simulated (the figures are the simulator's, not a GPU's)"
        program=("$0" --stand-in "$PWD/$build/tests/gpu/gpu-load")
else
        say "# machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
        program=(python3 "$PWD/tests/gpu/resnet.py" 1 16)
fi
# shellcheck disable=SC2086  # options
timeout -k 2 170 "$sublet" daemon --dir "$SUBLET_DIR" ${DAEMON_OPTIONS:-} > "$out/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ ! -S "$SUBLET_DIR/tenant.sock" ] || break; sleep 0.05; done
[ -S "$SUBLET_DIR/tenant.sock" ] || say "# the daemon is not there: $(tail -1 "$out/daemon.log")"

# ---- services -----------------------------------------------------------------------------------
service() { # NAME [COMMAND BEFORE...]
        local name=$1 to
        shift
        mkfifo "$work/$name.in"
        timeout -k 2 150 "$@" "${program[@]}" < "$work/$name.in" > "$work/$name.out" 2>> "$log" &
        pid[$name]=$!
        exec {to}> "$work/$name.in"
        fd[$name]=$to asked[$name]=1
}
ours() { service "$1" "$sublet" run -q --name "$1" --mem 16G --share "$2" --; }
answers() { # NAME: as many lines as it was asked for
        for _ in $(seq 900); do
                [ "$(wc -l < "$work/$1.out")" -ge "${asked[$1]}" ] && return 0
                kill -0 "${pid[$1]}" 2> /dev/null || break
                sleep 0.05
        done
        say "# $1 gave no answer: $(tail -2 "$log" | tr '\n' ' ')"
        return 1
}
order() { asked[$1]=$((asked[$1] + 1)) && echo "${@:2}" >&"${fd[$1]}"; }
leave() { local to=${fd[$1]}; eval "exec $to>&-"; wait "${pid[$1]}" 2> /dev/null; }
set_to() { "$sublet" set "$@" >> "$log" 2>&1 || say "# set $*: $(tail -1 "$log")"; }
word() { tail -1 "$work/$1.out" | tr ' ' '\n' | sed -n "s/^$2=//p"; }
cells() { # NAME: images/s, p50, p99, longest, in ms
        awk -v a="$(word "$1" img_s)" -v b="$(word "$1" p50_us)" -v c="$(word "$1" p99_us)" -v d="$(word "$1" max_us)" \
                'BEGIN { printf "%8.1f %6.2f %6.2f %6.1f", a, b / 1e3, c / 1e3, d / 1e3 }'
}

# single WAY NAME BATCH · pair WAY WHAT NAME BATCH NAME BATCH: a row each
single() {
        order "$2" sync "$3" "$window"
        answers "$2" || return
        [ -n "${alone[$3]:-}" ] || alone[$3]=$(word "$2" img_s)
        table+=("$(printf '%-8s %-22s %s' "$1" "batch $3, alone" "$(cells "$2")")")
        say "${table[-1]}"
}
pair() {
        order "$3" sync "$4" "$window"
        order "$5" sync "$6" "$window"
        { answers "$3" && answers "$5"; } || return
        tail -q -n 1 "$work/$3.out" "$work/$5.out" >> "$log"
        table+=("$(printf '%-8s %-22s %s | %s | %s' "$1" "$2" "$(cells "$3")" "$(cells "$5")" "$(awk \
                -v x="$(word "$3" img_s)" -v y="$(word "$5" img_s)" -v p="${alone[$4]:-0}" -v q="${alone[$6]:-0}" \
                'BEGIN { if (p > 0 && q > 0) { a = x / p; b = y / q; printf "%5.3f %5.1f", a + b, 100 * a / (a + b) } }')")")
        say "${table[-1]}"
}
header="$(printf '%-8s %-22s %8s %6s %6s %6s | %8s %6s %6s %6s | %5s %5s' way what 'a img/s' p50 p99 max 'b img/s' p50 p99 max sum 'a %')"

# ---- native -------------------------------------------------------------------------------------
say "$header"
service na
service nb
if answers na && answers nb; then
        single native na 1
        single native na 16
        for batch in 1 16; do pair default "batch $batch" na $batch nb $batch; done
        pair default 'batch 1, batch 16' na 1 nb 16
fi
leave na
leave nb

# ---- ours ---------------------------------------------------------------------------------------
ours a 50
ours b 50
if answers a && answers b; then
        single ours a 1
        for batch in 1 16; do pair ours "batch $batch, 50 : 50" a $batch b $batch; done
        set_to b share=30
        set_to a share=70
        for batch in 1 16; do pair ours "batch $batch, 70 : 30" a $batch b $batch; done
        pair ours 'batch 16 70 : batch 1 30' a 16 b 1
        set_to b class=latency
        pair ours '... batch 1 of latency' a 16 b 1
        set_to b class=normal
        set_to b share=10
        set_to a share=90
        pair ours 'batch 1, 90 : 10' a 1 b 1
fi
"$sublet" ps >> "$log" 2>&1

# ---- the table ------------------------------------------------------------------------------------
say "# $SECONDS s; ms; sum: of each its images/s over those of one alone; a %: a's part of that"
say "$header"
for row in ${table[@]+"${table[@]}"}; do say "$row"; done
