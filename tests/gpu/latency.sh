#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Services that answer people: ResNet-50 (CUDA graph, launch and wait; resnet.py) of batch 1 and 16, alone, beside each
# other, in a closed loop and with arrivals at random, by the driver's default, by MPS, as tenants, and in groups. On a
# machine with a device, PyTorch and torchvision; without those, and on the simulator, load.c stands in for them with
# kernels of the length of their steps, which fill the device. 240 s. A table at the end, a row per service in
# rows.tsv, of that a plot (latency.svg: p99 against throughput), and what the handovers of a row did (spans.tsv) by
# the trace.
#
#       tests/gpu/latency.sh [BUILD]    SUBLET=path of sublet, WINDOW=4: seconds of each measurement
#                                       PARTS="default mps pairs four goals latency spatial groups"; or "eights"
#                                       (also of "default" and "mps", if they are asked for) and "models" (likewise)
#                                       LIMIT=270: seconds after which no row is begun
#                                       DAEMON_OPTIONS="--period 10ms"
#
# All services of a row begin together; their first second counts too.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}

# In place of resnet.py, where there is no PyTorch: the same orders, and kernels of the length of its steps.
stand_in() {
        local mode batch seconds period us line
        echo ready
        while read -r mode batch seconds period; do
                case $batch in
                16) us=1380 ;;
                bert) us=1500 ;;
                decoder) us=2500 ;;
                jpeg) us=1100 ;;
                *) us=770 ;;
                esac
                line=$("$1" -r "${ROUNDS_PER_US:-51.9}" -k "$us" -t "$seconds" \
                        ${period:+-p "$(awk -v p="$period" 'BEGIN { print int(p * 1000) }')"} "$mode")
                [[ $batch == *[!0-9]* ]] && batch=1
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
parts=${PARTS:-default mps pairs four goals latency spatial groups}
out=${OUT:-/tmp/sublet-latency} window=${WINDOW:-4} work=$(mktemp -d)
log=$out/latency.log daemon='' table=() limit=${LIMIT:-270} end=$((SECONDS + ${LIMIT:-270}))
declare -A pid fd asked alone
mkdir -p "$out" "$work/node"
: > "$log"
printf 'way\twhat\tservice\timg_s\tp50_ms\tp99_ms\tmax_ms\tof_alone\n' > "$out/rows.tsv"
printf 'way\twhat\ton_per_s\tbelow_.3ms\tbelow_1ms\tbelow_3ms\tlonger\tnobody_%%\tcalls\n' > "$out/spans.tsv"
export SUBLET_DIR=$work/node

mps_end() { [ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || echo quit | timeout 10 nvidia-cuda-mps-control > /dev/null 2>&1; }
finish() {
        jobs -p | grep -vx "${daemon:-none}" | xargs -r kill -9 2> /dev/null
        [ -z "$daemon" ] || kill "$daemon" 2> /dev/null
        mps_end
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT
say() { echo "$@" | tee -a "$log"; }
wants() { [[ " $parts " == *" $1 "* ]] && [ $SECONDS -lt $end ]; }

if [ -n "${SUBLET_SIM:-}" ]; then
        say "# machine: simulated (the figures are the simulator's, not a GPU's)"
        load=$PWD/$build/tests/gpu/gpu-load
        program=("$0" --stand-in "$load")
        PATH=$PWD/tests/fakes/mps:$PATH # for groups; each tenant computes in a context of its own there
else
        say "# machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
        load=$work/load cuda=/usr/local/cuda
        gcc -O2 -I$cuda/include tests/gpu/load.c -o "$load" -L$cuda/lib64/stubs \
                -L$cuda/targets/x86_64-linux/lib/stubs -lcuda >> "$log" 2>&1 || load=$build/tests/gpu/gpu-load
        program=(python3 "$PWD/tests/gpu/resnet.py" 1 16)
        [[ " $parts " != *" models "* ]] || program+=(bert decoder jpeg)
        if ! timeout 60 python3 -c 'import torch, torchvision' >> "$log" 2>&1; then
                ROUNDS_PER_US=$(timeout -k 2 20 "$load" calibrate | tr ' ' '\n' | sed -n 's/^rounds_per_us=//p')
                export ROUNDS_PER_US
                say "# no PyTorch: load.c stands in, ${ROUNDS_PER_US:-?} rounds a microsecond"
                program=("$0" --stand-in "$load")
        fi
fi

# ---- services -----------------------------------------------------------------------------------
service() { # NAME [COMMAND BEFORE...]
        local name=$1 to
        shift
        rm -f "$work/$name.in"
        mkfifo "$work/$name.in"
        timeout -k 2 "$limit" "$@" "${program[@]}" < "$work/$name.in" > "$work/$name.out" 2>> "$log" &
        pid[$name]=$!
        exec {to}> "$work/$name.in"
        fd[$name]=$to asked[$name]=1
}
ours() { service "$1" "$sublet" run -q --name "$1" --mem "${memory:-16G}" --share "$2" "${@:3}" --; }
answers() { # NAME...: as many lines as each was asked for
        local name i
        for name; do
                for ((i = 0; i < 900; i++)); do
                        [ "$(wc -l < "$work/$name.out")" -ge "${asked[$name]}" ] && continue 2
                        kill -0 "${pid[$name]}" 2> /dev/null || break
                        sleep 0.05
                done
                say "# $name gave no answer: $(tail -2 "$log" | tr '\n' ' ')"
                return 1
        done
}
order() { asked[$1]=$((asked[$1] + 1)) && echo "${@:2}" >&"${fd[$1]}"; }
leave() { # NAME...: one that was started later has the input of the earlier open, too, so all are closed first
        local name to
        for name; do to=${fd[$name]}; eval "exec $to>&-"; done
        for name; do wait "${pid[$name]}" 2> /dev/null; done
}
set_to() { "$sublet" set "$@" >> "$log" 2>&1 || say "# set $*: $(tail -1 "$log")"; }
word() { tail -1 "$work/$1.out" | tr ' ' '\n' | sed -n "s/^$2=//p"; }
cells() { # NAME: images/s, p50, p99, longest, in ms
        awk -v a="$(word "$1" img_s)" -v b="$(word "$1" p50_us)" -v c="$(word "$1" p99_us)" -v d="$(word "$1" max_us)" \
                'BEGIN { printf "%8.1f %6.2f %6.2f %6.1f", a, b / 1e3, c / 1e3, d / 1e3 }'
}

# How long tenants were on the device, how much of the time nobody was, and the calls, by a trace of a second.
spans() { # WAY WHAT FILE
        local values='s/.*"name":"\([^"]*\)".*"ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\2 \3 \1/p'
        {
                grep '"cat":"on"' "$3" | sed -n "$values" | awk '{ n++; sum += $2; if (n == 1 || $1 < from) from = $1; if ($1 + $2 > to) to = $1 + $2
                        if ($2 < 300) a++; else if ($2 < 1000) b++; else if ($2 < 3000) c++; else d++ }
                        END { if (to > from) printf "%.0f\t%d\t%d\t%d\t%d\t%.1f\t", n * 1e6 / (to - from), a, b, c, d, 100 - 100 * sum / (to - from) }'
                grep '"cat":"call"' "$3" | sed -n "$values" | sort -k3 | awk '{ t = $2; $1 = $2 = ""; n[$0]++; sum[$0] += t }
                        END { for (k in n) printf "%s %d x %.0f us;", k, n[k], sum[k] / n[k] }'
                echo
        } | sed "s|^|$1\t$2\t|" >> "$out/spans.tsv"
}

# row WAY WHAT "NAME MODE BATCH [PERIOD]"...: all at once; a row of the table, and one each of rows.tsv
row() {
        local way=$1 what=$2 one name mode batch period names=() line='' parts_of=() tracer=''
        shift 2
        [ $SECONDS -lt $end ] || return 0
        for one; do
                read -r name mode batch period <<< "$one"
                order "$name" "$mode" "$batch" "$window" "$period"
                names+=("$name")
        done
        if [ "$way" = ours ] && [ -n "$daemon" ]; then
                (sleep "$(awk -v w="$window" 'BEGIN { print w / 4 }')"
                        timeout 20 "$sublet" trace --for 1s -o "$out/trace-${what//[^a-z0-9]/-}.json" >> "$log" 2>&1) &
                tracer=$!
        fi
        answers "${names[@]}" || return
        [ -z "$tracer" ] || { wait $tracer; spans "$way" "$what" "$out/trace-${what//[^a-z0-9]/-}.json"; }
        for one; do
                read -r name mode batch period <<< "$one"
                [ $# -gt 1 ] || [ -n "${alone[$batch]:-}" ] || alone[$batch]=$(word "$name" img_s)
                parts_of+=("$(awk -v x="$(word "$name" img_s)" -v a="${alone[$batch]:-0}" 'BEGIN { print (a > 0 ? x / a : 0) }')")
                printf '%s\t%s\t%s %s %s\t%s\n' "$way" "$what" "$name" "$mode" "$batch" "$(cells "$name" |
                        awk -v OFS='\t' -v a="${parts_of[-1]}" '{ print $1, $2, $3, $4, a }')" >> "$out/rows.tsv"
                line+=" | $(cells "$name")"
        done
        table+=("$(printf '%-8s %-24s%s' "$way" "$what" "$line") | $(printf '%s\n' "${parts_of[@]}" |
                awk '{ x[NR] = $1; s += $1 } END { printf "%5.3f", s; for (i = 1; i <= NR && s > 0; i++) printf " %4.1f", 100 * x[i] / s }')")
        say "${table[-1]}"
}
both() { row "$1" "$2" "$3 sync $4" "$5 sync $6"; }
header="$(printf '%-8s %-24s | %8s %6s %6s %6s | ... | %5s %s' way what img/s p50 p99 max sum 'parts %')"
say "$header"

# Four services of a quarter each: a closed loop, then 15 % of the device each in the mean, then one a batch job.
four() { # WAY NAME...
        row "$1" 'four, batch 1' "$2 sync 1" "$3 sync 1" "$4 sync 1" "$5 sync 1"
        row "$1" 'four open, 60 %' "$2 poisson 1 5.13" "$3 poisson 1 5.13" "$4 poisson 1 5.13" "$5 poisson 1 5.13"
        row "$1" 'three open, one deep' "$2 poisson 1 5.13" "$3 poisson 1 5.13" "$4 poisson 1 5.13" "$5 deep 16"
}
pairs() { # WAY NAME NAME
        for batch in 1 16; do both "$1" "batch $batch, 50 : 50" "$2" $batch "$3" $batch; done
}

# ---- native -------------------------------------------------------------------------------------
for name in na nb nc nd; do service $name; done
if answers na nb nc nd; then
        for batch in 1 16; do row native "batch $batch, alone" "na sync $batch"; done
        if wants default; then
                pairs default na nb
                both default 'batch 1, batch 16' na 1 nb 16
        fi
        if wants default && wants four; then four default na nb nc nd; fi
fi
leave na nb nc nd
if wants mps && wants four && command -v nvidia-cuda-mps-control > /dev/null && [ -z "${SUBLET_SIM:-}" ]; then
        mkdir -p "$work/mps"
        export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
        nvidia-cuda-mps-control -d >> "$log" 2>&1
        for name in ma mb mc md; do service $name; done
        if answers ma mb mc md; then
                pairs mps ma mb
                both mps 'batch 1, batch 16' ma 1 mb 16
                four mps ma mb mc md
        fi
        leave ma mb mc md
        mps_end
        unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
fi

# ---- ours ---------------------------------------------------------------------------------------
# shellcheck disable=SC2086  # options
timeout -k 2 "$limit" "$sublet" daemon --dir "$SUBLET_DIR" ${DAEMON_OPTIONS:-} > "$out/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ ! -S "$SUBLET_DIR/tenant.sock" ] || break; sleep 0.05; done
[ -S "$SUBLET_DIR/tenant.sock" ] || say "# the daemon is not there: $(tail -1 "$out/daemon.log")"

seventy_thirty() {
        set_to b share=30
        set_to a share=70
        for batch in 1 16; do both ours "batch $batch, 70 : 30" a $batch b $batch; done
        both ours 'batch 16 70 : batch 1 30' a 16 b 1
        set_to b class=latency
        both ours '... batch 1 of latency' a 16 b 1
        set_to b class=normal
        set_to b share=10
        set_to a share=90
        both ours 'batch 1, 90 : 10' a 1 b 1
        set_to a share=50
        set_to b share=50
}
# p99 is to be below the goal: of each that has one, and arrives within its share.
pair_of_goals() {
        set_to b share=30
        set_to a share=70
        set_to b latency=10ms
        row ours 'deep 16 70 : 30 of 10 ms' 'a deep 16' 'b sync 1'
        row ours '... in an open loop' 'a deep 16' 'b poisson 1 5.13'
        set_to b latency=none
        set_to a share=50
        set_to b share=50
        for name in a b; do set_to $name latency=8ms; done
        both ours 'batch 1, 50 : 50 of 8 ms' a 1 b 1
        for name in a b; do set_to $name latency=none; done
}
four_goals() {
        for name in a b c d; do set_to $name latency=20ms; done
        row ours 'four, batch 1, of 20 ms' 'a sync 1' 'b sync 1' 'c sync 1' 'd sync 1'
        row ours 'four open, of 20 ms' 'a poisson 1 5.13' 'b poisson 1 5.13' 'c poisson 1 5.13' 'd poisson 1 5.13'
        set_to d latency=none
        row ours 'three of them, one deep' 'a poisson 1 5.13' 'b poisson 1 5.13' 'c poisson 1 5.13' 'd deep 16'
        for name in a b c; do set_to $name latency=none; done
}
if wants pairs; then
        ours a 50
        ours b 50
        if answers a b; then
                row ours 'batch 1, alone' 'a sync 1'
                pairs ours a b
                seventy_thirty
                if wants goals; then pair_of_goals; fi
        fi
        "$sublet" ps >> "$log" 2>&1
        leave a b
fi
if wants four; then
        for name in a b c d; do ours $name 25; done
        if answers a b c d; then
                four ours a b c d
                if wants goals; then four_goals; fi
        fi
        leave a b c d
fi

# ms of GPU time that tenants have had, by the meter
metered() { # NAME...
        "$sublet" ps --json | awk -F'[:,]' -v names=" $* " '/^  "tenant":/ { gsub(/[ "]/, "", $2); is = index(names, " " $2 " ") }
                /"used_ns":/ && is { sum += $2 } END { printf "%d\n", sum / 1e6 }'
}
# between WHAT "NAME..." "NAME..." ROW...: a row, and how the two sets divided the time in the middle of it
between() {
        local what=$1 first=$2 second=$3 sampler
        (
                sleep "$(awk -v w="$window" 'BEGIN { print w / 4 }')"
                a=$(metered "$first") b=$(metered "$second")
                sleep "$(awk -v w="$window" 'BEGIN { print w / 2 }')"
                a=$(($(metered "$first") - a)) b=$(($(metered "$second") - b))
                awk -v a=$a -v b=$b 'BEGIN { if (a + b) printf "# by the meter: %d : %d ms, %.1f : %.1f\n", a, b, 100 * a / (a + b), 100 * b / (a + b) }'
        ) > "$work/between" &
        sampler=$!
        row group "$what" "${@:4}"
        wait $sampler
        say "$(cat "$work/between")"
}
groups() {
        ours a 25 --group one
        ours b 25 --group one
        ours c 50
        answers a b c || return
        for batch in 1 16; do row group "a group of two, batch $batch" "a sync $batch" "b sync $batch"; done
        for batch in 1 16; do between "group 50 : one 50, batch $batch" 'a b' c "a sync $batch" "b sync $batch" "c sync $batch"; done
        between 'group 50 : deep 50' 'a b' c 'a sync 1' 'b sync 1' 'c deep 16'
        between 'group, open : deep 50' 'a b' c 'a poisson 1 5.13' 'b poisson 1 5.13' 'c deep 16'
        "$sublet" ps >> "$log" 2>&1
        idle
        leave a b c
        ours a 35 --group one
        ours b 35 --group one
        ours c 15 --group two
        ours d 15 --group two
        answers a b c d || return
        between 'two groups, 70 : 30' 'a b' 'c d' 'a sync 1' 'b sync 1' 'c sync 1' 'd sync 1'
        between 'two groups, deep' 'a b' 'c d' 'a deep 16' 'b deep 16' 'c deep 16' 'd deep 16'
        fault
        leave a b c d
}
# A group that does nothing on a device that nobody else wants.
idle() {
        local before
        row group 'a group of two, batch 1' 'a sync 1' 'b sync 1'
        before=$(metered a b)
        sleep 2
        say "# idle for 2 s: $(($(metered a b) - before)) ms by the meter"
}
# The server of the first group is killed while all four work.
fault() {
        local name control server
        control=$(cut -d' ' -f1 "$(printf '%s\n' "$SUBLET_DIR"/mps/0-*/control | sort -V | tail -2 | head -1)") server=$(pgrep -P "$control" | head -1)
        for name in a b c d; do order $name sync 1 "$window"; done
        sleep 1
        if [ -n "$server" ]; then kill -9 "$server"; else say '# no server of MPS is there: nothing is killed'; fi
        if answers c d; then say "# killed server $server of the first group: the second went on, $(word c img_s) + $(word d img_s)"; fi
        "$sublet" events 2>&1 | grep -E 'MPS_FAULT|FOREIGN_OBJECT|NOT_SWITCHED|UNKNOWN_C|STRANGER' | sed 's/^/# /' | tail -12 | tee -a "$log"
        grep -v '^$' "$SUBLET_DIR"/mps/0-*/log/control.log 2> /dev/null | tail -12 >> "$log"
}
if wants groups; then
        groups
fi

# A service of class latency, requests of 0.8 ms, beside a batch job of kernels of 5 ms.
beside_batch() { # WAY: with the command before the service in before_a, before the job in before_b
        local line
        "${before_b[@]}" "$load" -r "$rounds" -k 5000 -q 4 -t $((window + 1)) deep > "$work/deep.out" 2>> "$log" &
        sleep 0.5
        line=$("${before_a[@]}" "$load" -r "$rounds" -k 800 -p 10000 -t "$window" -n a periodic 2>> "$log")
        wait $!
        table+=("$(printf '%-8s %-24s | %s | batch %s kernels/s' "$1" 'latency beside batch' \
                "$(tr ' ' '\n' <<< "$line" | grep -E '^(p50_us|p99_us|max_us)=' | tr '\n' ' ')" \
                "$(tr ' ' '\n' < "$work/deep.out" | awk -F= '/^kernels=/ { k = $2 } /^seconds=/ { s = $2 } END { if (s) printf "%.1f", k / s }')")")
        say "${table[-1]}"
}
if wants latency; then
        rounds=$(timeout -k 2 20 "$load" calibrate | tr ' ' '\n' | sed -n 's/^rounds_per_us=//p')
        rounds=${rounds:-51.9}
        before_a=(timeout 60) before_b=(true)
        beside_batch native
        before_b=(timeout 60)
        beside_batch default
        before_a=(timeout 60 "$sublet" run -q --name a --mem 4G --share 30 --class latency --)
        before_b=(timeout 60 "$sublet" run -q --name b --mem 4G --share 70 --class batch --)
        beside_batch ours
        before_a=(timeout 60 "$sublet" run -q --name a --mem 4G --share 30 --class latency --group both --)
        before_b=(timeout 60 "$sublet" run -q --name b --mem 4G --share 70 --class batch --group both --)
        beside_batch group
fi
if wants spatial && [ -z "${SUBLET_SIM:-}" ]; then
        for name in a b; do ours $name 50 --mode spatial; done
        if answers a b; then
                pairs spatial a b
                both spatial 'batch 1, batch 16' a 1 b 16
        fi
        leave a b
fi

# ---- eights and other models ------------------------------------------------------------------------
eight() { # WAY NAME...: eight closed loops, and eight at 7 % of the device each
        local way=$1
        shift
        row "$way" 'eight, batch 1' "${@/%/ sync 1}"
        row "$way" 'eight open, 56 %' "${@/%/ poisson 1 11}"
}
models() { # WAY NAME NAME
        local model
        for model in bert decoder jpeg; do
                both "$1" "$model beside batch 1" "$2" $model "$3" 1
                both "$1" "$model twice" "$2" $model "$3" $model
        done
}
# each WAY SHARE PART NAMES... -- OPTION of run...: as services of that way
each() {
        local way=$1 share=$2 part=$3 name names=()
        shift 3
        while [ "$1" != -- ]; do names+=("$1"); shift; done
        shift
        for name in "${names[@]}"; do
                if [ "$share" = 0 ]; then service "$name"; else ours "$name" "$share" "$@"; fi
        done
        if answers "${names[@]}"; then "$part" "$way" "${names[@]}"; fi
        leave "${names[@]}"
}
by_mps() { # COMMAND...
        mkdir -p "$work/mps"
        export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
        nvidia-cuda-mps-control -d >> "$log" 2>&1
        "$@"
        mps_end
        unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}
model_alone() {
        local model
        for model in 1 bert decoder jpeg; do row native "$model, alone" "$2 sync $model"; done
}
if wants eights; then
        names=(e1 e2 e3 e4 e5 e6 e7 e8)
        if wants default; then each default 0 eight "${names[@]}" --; fi
        if wants mps && [ -z "${SUBLET_SIM:-}" ]; then by_mps each mps 0 eight "${names[@]}" --; fi
        memory=8G
        each ours 12.5 eight "${names[@]}" --
        each group 12.5 eight "${names[@]}" -- --group eight
fi
if wants models; then
        each native 0 model_alone m1 --
        if wants default; then each default 0 models m1 m2 --; fi
        if wants mps && [ -z "${SUBLET_SIM:-}" ]; then by_mps each mps 0 models m1 m2 --; fi
        each ours 50 models m1 m2 --
        each group 50 models m1 m2 -- --group models
fi

# ---- the table ------------------------------------------------------------------------------------
say "# $SECONDS s; ms; sum: of each its images/s over those of one alone; parts: of that"
[ ! -s "$out/spans.tsv" ] || sed 's/^/# /' "$out/spans.tsv" | tee -a "$log"
say "$header"
for line in ${table[@]+"${table[@]}"}; do say "$line"; done
python3 tests/gpu/latency_plot.py "$out/rows.tsv" "$out/latency.svg" && say "# plot: $out/latency.svg"
