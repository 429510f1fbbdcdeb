#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GPU time, shared: every claim of the scheduler beside the driver's default, in one run on this machine's
# device, or on the simulator. A real device needs gcc and the CUDA headers, and PyTorch for its rows. TAP on
# stdout, raw logs in ${OUT:-/tmp/sublet-time}; ends with a table and the verdict.
#
#       tests/gpu/time.sh [BUILD]       ROWS="deep caps" for some rows only, SECONDS_PER_ROW=5
#                                       OURS="" for the driver's default alone
#
# Shares are of work done, by the tenants' own logs (load.c): the worst over any window of the given length
# (shares.py). The daemon's meter is used only where it is the thing tested.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        # shellcheck disable=SC2086  # options
        exec "$sublet" sim ${SIM_OPTIONS:-} -- "$0" "$@"
fi
here=tests/gpu
out=${OUT:-/tmp/sublet-time}
work=$(mktemp -d)
log=$out/time.log
rows=${ROWS:-deep sync short long graph mixed idle caps latency meter endless resnet spatial}
ours=${OURS-ours}
seconds=${SECONDS_PER_ROW:-5}
skip=${SKIP_SECONDS:-1}
n=0 passed=0 failed=0 started=$SECONDS n_tenants=0 daemon=
table=()
mkdir -p "$out"
: > "$log"

finish() {
        jobs -p | grep -vx "${daemon:-none}" | xargs -r kill -9 2> /dev/null
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
# is A OP B: awk's comparison of two numbers
skip() { n=$((n + 1)) passed=$((passed + 1)) && say "ok $n - $1 # SKIP $2"; }
is() { awk -v a="${1:-nan}" -v b="$3" "BEGIN { exit !(a != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
calc() { awk "BEGIN { printf \"%.4f\", $1 }"; }
field() { tr ' ' '\n' | sed -n "s/^$1=//p" | tail -1; }
wants() { case " $rows " in *" $1 "*) return 0 ;; esac && return 1; }
line() { table+=("$(printf '%-32s %-8s %-32s %8s %8s %7s' "$@")"); }
shares() { python3 $here/shares.py "$@"; }

# ---- the machine ------------------------------------------------------------------------------
if [ -n "${SUBLET_SIM:-}" ]; then
        machine="simulated (the figures are the simulator's, not a GPU's)"
        load=$build/tests/gpu/gpu-load
else
        machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
        load=$work/load
        gcc -O2 -I/usr/local/cuda/include $here/load.c -o "$load" \
                -L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs -lcuda || exit 1
fi
has_torch=$([ -z "${SUBLET_SIM:-}" ] && python3 -c 'import torch, torchvision' 2> /dev/null && echo y)
say "# machine: $machine, kernel $(uname -r), $(nproc) processors, $(date -u +%FT%TZ)"

export SUBLET_DIR=$work/node
if [ "$ours" ]; then
        # shellcheck disable=SC2086  # options
        "$sublet" daemon --dir "$SUBLET_DIR" ${DAEMON_OPTIONS:-} > "$out/daemon.log" 2>&1 &
        daemon=$!
        for _ in $(seq 200); do [ -S "$SUBLET_DIR/tenant.sock" ] && break; sleep 0.02; done
        check "the daemon is there" "$([ -S "$SUBLET_DIR/tenant.sock" ] && echo y)"
fi
rounds=$("$load" calibrate | field rounds_per_us)
say "# rounds per microsecond: $rounds"

# ---- tenants ----------------------------------------------------------------------------------
# tenant KIND SHARE MODE KERNEL-US [OPTION...]: in the background; its log and line are $work/logs/tN{,.out}
pids=() logs=()
tenant() {
        local kind=$1 share=$2 mode=$3 kernel=$4 name before=()
        shift 4
        n_tenants=$((n_tenants + 1)) name=t$n_tenants
        [ "$kind" = ours ] && before=("$sublet" run -q --name "$name" --mem 8G --share "$share" ${extra[@]+"${extra[@]}"} --)
        case $mode$kernel in deep????*) set -- -q 4 "$@" ;; esac # as much work ahead as anybody needs
        timeout -s KILL 40 "${before[@]}" "$load" -r "$rounds" -n "$name" -b "$work/barrier" -o "$work/logs/$name" -k "$kernel" "$@" "$mode" \
                > "$work/logs/$name.out" 2>> "$log" &
        pids+=($!) logs+=("$name")
}
extra=() gather_before='' was=''
gather() { # SECONDS: waits until all are ready, then lets them go
        local i name
        for i in "${!logs[@]}"; do
                name=${logs[$i]}
                for _ in $(seq 750); do
                        [ -e "$work/barrier/$name.ready" ] && break
                        kill -0 "${pids[$i]}" 2> /dev/null || break
                        sleep 0.02
                done
                [ -e "$work/barrier/$name.ready" ] || say "# $name did not get ready"
        done
        sleep "${1:-0}"
        [ -z "$gather_before" ] || was=$("$gather_before" "${logs[@]}")
        gather_before=
        touch "$work/barrier/go"
}
ends() { # waits for the tenants, and keeps what they said
        local pid name
        for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null; done
        for name in "${logs[@]}"; do sed "s/^/# /" "$work/logs/$name.out" >> "$log"; done
        pids=()
}
begins() { rm -rf "$work/barrier" "$work/logs" && mkdir -p "$work/barrier" "$work/logs" && logs=(); }
told() { field "$2" < "$work/logs/$1.out"; } # NAME FIELD

# alone MODE KERNEL: sets `rate` to the progress of that load alone on the device, without a scheduler
declare -A alone_rate
alone() {
        if [ -z "${alone_rate[$1-$2]:-}" ]; then
                begins
                tenant default 100 "$1" "$2" -t 1.6
                gather
                ends
                alone_rate[$1-$2]=$(shares rate "$work/logs/${logs[0]}" "$(told "${logs[0]}" piece_us)" 0.3)
                say "# alone: $1, kernels of $2 us: ${alone_rate[$1-$2]} of the time is work"
        fi
        rate=${alone_rate[$1-$2]}
}

# row KIND NAME TARGETS? SPEC...: SPEC is "SHARE MODE KERNEL-US". Sets err1s, err100ms, sum, got.
row() {
        local kind=$1 name=$2 specs=() spec i=0 share mode kernel rates=() result length=3
        [ "$kind" = ours ] && length=$seconds
        shift 2
        for spec in "$@"; do
                read -r share mode kernel <<< "$spec"
                alone "$mode" "$kernel"
                rates+=("$rate")
        done
        begins
        for spec in "$@"; do
                read -r share mode kernel <<< "$spec"
                tenant "$kind" "$share" "$mode" "$kernel" -t "$length"
        done
        gather 0.3
        ends
        for spec in "$@"; do
                read -r share mode kernel <<< "$spec"
                specs+=("$work/logs/${logs[$i]},$(told "${logs[$i]}" piece_us),${rates[$i]},$share")
                i=$((i + 1))
        done
        result=$(shares row "$skip" "$length" "${specs[@]}" 2>> "$log")
        say "# $kind $name: $result"
        err1s=$(field err1s <<< "$result") err100ms=$(field err100ms <<< "$result")
        sum=$(field sum <<< "$result") got=$(field shares <<< "$result")
        line "$name" "$kind" "${got:0:30}" "${err1s:-?}" "${err100ms:-?}" "${sum:-?}"
}
keep() { # NAME: the logs of a row that missed, for shares.py
        mkdir -p "$work/missed/${1//[ :]/-}" && cp "$work/logs"/t* "$work/missed/${1//[ :]/-}"
        tar -C "$work" -czf "$out/missed.tgz" missed
}
promised() { # NAME SPEC...: the row with ours, and what it must show
        [ "$ours" ] || return 0
        row ours "$@"
        if [ -n "${SUBLET_SIM:-}" ] && [[ $* == *"00000"* ]]; then
                skip "$1: shares over any second and any 100 ms" "the simulator logs whole kernels only"
        else
                check "$1: within 1 point over any second ($err1s)" "$(is "$err1s" '<=' 1)"
                check "$1: within 3 points over any 100 ms ($err100ms)" "$(is "$err100ms" '<=' 3)"
                [ "$(is "$err100ms" '<=' 3)" ] || keep "$1"
        fi
        check "$1: together at least 97 % of one alone ($sum)" "$(is "$sum" '>=' 0.97)"
}

# ---- shares ------------------------------------------------------------------------------------
family() { # NAME MODE KERNEL
        row default "$1 x 2" "50 $2 $3" "50 $2 $3"
        row default "$1 x 4" "25 $2 $3" "25 $2 $3" "25 $2 $3" "25 $2 $3"
        promised "$1 50:50" "50 $2 $3" "50 $2 $3"
        promised "$1 70:30" "70 $2 $3" "30 $2 $3"
        promised "$1 90:10" "90 $2 $3" "10 $2 $3"
        promised "$1 4 x 25" "25 $2 $3" "25 $2 $3" "25 $2 $3" "25 $2 $3"
}
wants deep && family "deep queue" deep 770
wants sync && family synchronous sync 770
wants short && family "0.1 ms kernels" deep 100
wants long && family "100 ms kernels" deep 100000
# No work waits behind a running kernel: the tenant must not look idle.
wants long && promised "100 ms kernels, synchronous 50:50" "50 sync 100000" "50 sync 100000"
wants graph && family "graphs" graph 100
if wants mixed; then
        mixed=("20 deep 770" "20 sync 770" "15 deep 100" "15 deep 100000" "10 graph 100" "10 deep 770" "5 sync 100" "5 graph 100")
        row default "8 mixed" "${mixed[@]}"
        promised "8 mixed" "${mixed[@]}"
fi

# ---- an idle tenant's share ----------------------------------------------------------------------
idle_row() { # KIND
        local part
        alone deep 770
        begins
        tenant "$1" 50 idle 770 -t "$seconds"
        tenant "$1" 50 deep 770 -t "$seconds"
        gather 0.3
        ends
        part=$(calc "$(shares rate "$work/logs/${logs[1]}" "$(told "${logs[1]}" piece_us)" "$skip") / $rate")
        line "idle beside deep" "$1" "the other: $part of alone" - - -
        [ "$1" = ours ] || return 0
        check "an idle tenant's share is lent: the other reaches at least 95 % of alone ($part)" "$(is "$part" '>=' 0.95)"
}
if wants idle; then for kind in default $ours; do idle_row "$kind"; done; fi

# ---- caps ------------------------------------------------------------------------------------------
if wants caps && [ "$ours" ]; then
        alone deep 770
        for percent in 10 30 50; do
                begins
                extra=(--cap "$percent")
                tenant ours "$percent" deep 770 -t "$seconds"
                extra=()
                gather 0.3
                ends
                result=$(shares cap "$work/logs/${logs[0]}" "$(told "${logs[0]}" piece_us)" "$rate" "$(calc "$percent / 100")")
                say "# cap $percent: $result"
                line "cap $percent %, alone" ours "$(field mean <<< "$result") % over all" "$(field err1s <<< "$result")" - -
                check "cap of $percent %: within 1 point over any second ($(field err1s <<< "$result"))" \
                        "$(is "$(field err1s <<< "$result")" '<=' 1)"
        done
fi

# ---- latency ---------------------------------------------------------------------------------------
latency_row() { # KIND REQUEST-US PERIOD-US: sets p99, batch
        begins
        extra=(--class batch)
        [ "$1" = alone ] || tenant "$1" 60 deep 5000 -t "$seconds"
        extra=(--class latency)
        tenant "${1/alone/default}" 40 periodic "$2" -p "$3" -t "$seconds"
        extra=()
        gather 0.3
        ends
        p99=$(told "${logs[-1]}" p99_us) batch=-
        [ "$1" = alone ] || batch=$(shares rate "$work/logs/${logs[0]}" "$(told "${logs[0]}" piece_us)" "$skip")
        line "$(calc "$2 / 1000") ms every $(calc "$3 / 1000") ms, beside batch" "$1" "p99 $p99 us, batch $batch" - - -
}
if wants latency; then
        for request in "940 5000" "2000 10000"; do
                # shellcheck disable=SC2086  # two numbers
                latency_row alone $request
                p99_alone=$p99
                # shellcheck disable=SC2086
                latency_row default $request
                batch_default=$batch
                [ "$ours" ] || continue
                # shellcheck disable=SC2086
                latency_row ours $request
                check "latency, ${request% *} us: p99 at most 1.10 x alone ($p99 us, alone $p99_alone)" \
                        "$(is "$p99" '<=' "$(calc "1.1 * $p99_alone")")"
                check "latency, ${request% *} us: batch keeps 97 % of what it has by default ($batch, default $batch_default)" \
                        "$(is "$batch" '>=' "$(calc "0.97 * $batch_default")")"
        done
fi

# ---- the meter -------------------------------------------------------------------------------------
used() { # NAME...: seconds by the daemon's meter, of living tenants
        "$sublet" ps --json | python3 -c 'import json, sys
metered = {tenant["tenant"]: sum(device["used_ns"] for device in tenant["devices"]) for tenant in json.load(sys.stdin)}
print(*(metered.get(name, 0) * 1e-9 for name in sys.argv[1:]))' "$@"
}
charged() { # NAME: seconds in the books, of a tenant that has ended
        "$sublet" usage --since 1h --json "$1" |
                python3 -c 'import json, sys; print(sum(row["gpu_seconds"] for row in json.load(sys.stdin)))'
}
off_by() { calc "100 * ($1 - $2) / $2"; }
near() { is "$(off_by "$1" "$2" | tr -d -)" '<=' 0.5; }
# metered SHARE...: deep tenants of these shares; sets meters and owns, in seconds, and events: all from the start of
# the work
metered() {
        local share name i=0 before
        begins
        for share in "$@"; do tenant ours "$share" deep 770 -t 4; done
        gather_before=used
        gather 0.5
        ends
        sleep 1.2
        meters=() owns=()
        read -ra before <<< "$was"
        for name in "${logs[@]}"; do
                meters+=("$(calc "$(charged "$name") - ${before[$i]}")")
                owns+=("$(shares busy "$work/logs/$name" "$(told "$name" piece_us)")")
                line "meter, $# tenants" ours "own clock ${owns[$i]} s, meter ${meters[$i]}" - - -
                say "# meter: $name had ${before[$i]} s before it began to work"
                i=$((i + 1))
        done
        events=$(calc "$(told "${logs[0]}" event_ms) / 1000")
}
if wants meter && [ "$ours" ]; then
        metered 50
        check "the meter agrees with CUDA events within 0.5 % (${meters[0]} s, events $events)" "$(near "${meters[0]}" "$events")"
        metered 70 30
        both=$(calc "${meters[0]} + ${meters[1]}") own=$(calc "${owns[0]} + ${owns[1]}")
        check "two tenants: their meters add up to the time by CUDA events within 0.5 % ($both s, events $events)" \
                "$(near "$both" "$events")"
        for i in 0 1; do
                [ -z "${SUBLET_SIM:-}" ] || continue # its pieces are whole kernels, by the host's clock
                check "two tenants: the part of tenant $i is that of its own clock within 0.5 % (${meters[$i]} of $both, own ${owns[$i]} of $own)" \
                        "$(near "$(calc "${meters[$i]} / $both")" "$(calc "${owns[$i]} / $own")")"
        done
fi

# ---- a kernel that does not end ----------------------------------------------------------------------
endless_row() { # KIND
        local part
        alone deep 770
        begins
        tenant "$1" 50 endless 10000000 -t "$seconds"
        tenant "$1" 50 deep 770 -t "$seconds"
        gather 0.3
        ends
        part=$(shares cap "$work/logs/${logs[1]}" "$(told "${logs[1]}" piece_us)" "$rate" 0.5)
        say "# $1 beside an endless kernel: $part"
        line "beside a 10 s kernel, 50:50" "$1" "the other: $(field mean <<< "$part") % of alone" "$(field err1s <<< "$part")" - -
        [ "$1" = ours ] || return 0
        # It gets its whole share, less the cost of switching (3 %), and no more.
        check "beside a kernel of 10 s: half of the device, less 3 % for switching ($(field mean <<< "$part") %)" \
                "$([ "$(is "$(field mean <<< "$part")" '>=' 48.5)" ] && is "$(field mean <<< "$part")" '<=' 51)"
}
if wants endless; then for kind in default $ours; do endless_row "$kind"; done; fi

# ---- ResNet-50 ---------------------------------------------------------------------------------------
# resnet NAME BEFORE...: a process that takes orders by $work/NAME.in and answers in $work/NAME.out
resnet() {
        local name=$1
        shift
        mkfifo "$work/$name.in"
        "$@" python3 $here/resnet.py 16 1 < "$work/$name.in" > "$work/$name.out" 2>> "$log" &
        resnets[$name]=$!
        eval "exec {fd_$name}> \"$work/$name.in\""
}
declare -A resnets
answers() { # NAME COUNT: waits for that many lines
        for _ in $(seq 1500); do
                [ "$(wc -l < "$work/$1.out")" -ge "$2" ] && return 0
                kill -0 "${resnets[$1]}" 2> /dev/null || break
                sleep 0.03
        done
        say "# $1 gave no answer"
        return 1
}
declare -A asked
order() { # NAME WORDS...
        local fd=fd_$1
        asked[$1]=$((${asked[$1]:-1} + 1))
        echo "${@:2}" >&"${!fd}"
}
answer() { answers "$1" "${asked[$1]}" && tail -1 "$work/$1.out" | tee -a "$log" | field "$2"; } # NAME FIELD
quit() { local fd=fd_$1; eval "exec ${!fd}>&-"; }
both() { # NAME NAME ORDER...: img/s of both together; sets sum
        order "$1" "${@:3}"
        order "$2" "${@:3}"
        sum=$(calc "$(answer "$1" img_s) + $(answer "$2" img_s)")
}
beside_batch() { # KIND NAME: p99 of NAME's ResNet-50, batch 1, every 5 ms, beside kernels of 5 ms; sets p99, batch
        begins
        extra=(--class batch)
        tenant "$1" 40 deep 5000 -t 5
        extra=()
        gather
        sleep 0.3
        order "$2" periodic 1 4 5
        p99=$(answer "$2" p99_us)
        ends
        batch=$(shares rate "$work/logs/${logs[0]}" "$(told "${logs[0]}" piece_us)" 0.5 4)
        line "ResNet-50 b1 every 5 ms, batch" "$1" "p99 $p99 us, batch $batch" - - -
}
resnet_rows() {
        resnet a
        resnet b
        answers a 1 && answers b 1 || return
        order a sync 16 4
        alone16=$(answer a img_s)
        order a sync 1 3
        alone1=$(answer a img_s)
        order a periodic 1 3 5
        p99_alone=$(answer a p99_us)
        line "ResNet-50, alone" default "b16 $alone16, b1 $alone1 img/s" - - 1
        both a b sync 16 4
        line "ResNet-50 b16 x 2" default "$sum img/s" - - "$(calc "$sum / $alone16")"
        both a b sync 1 3
        line "ResNet-50 b1 x 2" default "$sum img/s" - - "$(calc "$sum / $alone1")"
        quit b
        beside_batch default a
        batch_default=$batch
        quit a
        [ "$ours" ] || return
        asked=()
        resnet c "$sublet" run -q --name c --mem 16G --share 50 --class latency --
        resnet d "$sublet" run -q --name d --mem 16G --share 50 --
        answers c 1 && answers d 1 || return
        "$sublet" set c class=normal >> "$log" 2>&1
        order c sync 16 3
        line "ResNet-50 b16, the other idle" ours "b16 $(answer c img_s) img/s" - - -
        both c d sync 16 6
        line "ResNet-50 b16 x 2" ours "$sum img/s" - - "$(calc "$sum / $alone16")"
        check "two synchronous ResNet-50: at least 100 % of one alone ($sum of $alone16 img/s)" "$(is "$sum" '>=' "$alone16")"
        quit d
        "$sublet" set c class=latency >> "$log" 2>&1
        sleep 1
        beside_batch ours c
        check "latency class, ResNet-50 batch 1: p99 at most 1.10 x alone ($p99 us, alone $p99_alone)" \
                "$(is "$p99" '<=' "$(calc "1.1 * $p99_alone")")"
        check "latency class: the batch tenant keeps 97 % of what it has by default ($batch, default $batch_default)" \
                "$(is "$batch" '>=' "$(calc "0.97 * $batch_default")")"
        quit c
}
alone1='' alone16=''
if wants resnet && [ "$has_torch" ]; then resnet_rows; fi

# ---- spatial (MPS) -------------------------------------------------------------------------------------
if wants spatial && [ "$ours" ] && [ -z "${SUBLET_SIM:-}" ]; then
        # Side by side both run all the time, each on its own multiprocessors: work is kernels times their blocks.
        extra=(--mode spatial)
        row ours "spatial 70:30, deep" "70 deep 770" "30 deep 770"
        extra=()
        work70=$(calc "$(told "${logs[0]}" kernels) * $(told "${logs[0]}" blocks)")
        work30=$(calc "$(told "${logs[1]}" kernels) * $(told "${logs[1]}" blocks)")
        got=$(calc "100 * $work70 / ($work70 + $work30)")
        line "spatial 70:30, work" ours "$got %" - - -
        check "spatial 70:30: within 3 points over all ($got)" \
                "$([ "$(is "${got%%,*}" '>=' 67)" ] && is "${got%%,*}" '<=' 73)"
        if [ "$has_torch" ] && [ "$alone1" ]; then
                asked=()
                resnet e "$sublet" run -q --name e --mem 16G --share 50 --mode spatial --
                resnet f "$sublet" run -q --name f --mem 16G --share 50 --mode spatial --
                if answers e 1 && answers f 1; then
                        both e f sync 1 4
                        line "ResNet-50 b1 x 2, spatial" ours "$sum img/s" - - "$(calc "$sum / $alone1")"
                        check "spatial: two ResNet-50 of batch 1 make at least 150 % of one alone ($sum of $alone1 img/s)" \
                                "$(is "$sum" '>=' "$(calc "1.5 * $alone1")")"
                        quit e
                        quit f
                fi
        fi
fi

# ---- the verdict ---------------------------------------------------------------------------------------
{
        echo
        printf '%-32s %-8s %-32s %8s %8s %7s\n' "$machine" "" shares "err 1 s" "err .1 s" sum
        printf '%s\n' "${table[@]}"
        echo
        echo "1..$n"
        echo "$((SECONDS - started)) s; $passed passed, $failed failed"
} | tee -a "$log"
[ "$failed" = 0 ]
