#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of two devices whose steps wait for each other: two of them by share, alone, beside tenants of one device, as two
# tenants each, and by the driver's default. On a machine with two devices, PyTorch with NCCL, gcc and the CUDA headers;
# or on the simulator, with steps.c and ranks.c in place of PyTorch. At most 300 s. A table at the end.
#
#       tests/gpu/jobs.sh [BUILD]       WINDOW=6: seconds of each measurement; DAEMON="--period 100ms": its options;
#                                       PARTS="native pairs ..." (all, in order):
#
#       native    one job alone and two by the driver's default
#       alone     one job, natively and as a tenant by turns, ALTERNATIONS=7 times 7 s
#       pairs     two jobs by share, one of them alone before and after
#       reduce    two jobs that are bound by their all-reduce, by the driver's default and by share
#       tenants   two jobs of two tenants each, whose ranks reach each other's memory (NCCL with P2P)
#       kills     kill -9 of a rank, of a shim, of the daemon: the other job goes on, the books return
#       daemons   kill -9 of the daemon, ROUNDS=5 times beside one job and as often beside two: their steps go on
#       where     where two jobs lose steps: how long those of one take while the other sleeps, while it waits and has
#                 no turn, beside four programs that only spin, and while both have turns
#       four      a job of four devices beside two jobs of two; with fewer devices nothing
#       native2   the same job alone, natively, once more: what the machine's clock did meanwhile
#
# Jobs are started once; shares are changed while they run. Rates are from the jobs' own logs, in the window without its
# first second; "worst 2 s" is the greatest distance from the window's part of the steps, over any 2 s.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        # shellcheck disable=SC2086  # options
        exec "$sublet" sim --gpus 2 ${SIM_OPTIONS:---realistic-time} -- "$0" "$@"
fi
here=$PWD/tests/gpu out=${OUT:-/tmp/sublet-jobs} window=${WINDOW:-6}
long=$((50 + 10 * window)) # a job's life: all windows of a part and what is between them
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
daemon='' table=() aims=() alone=
read -ra options <<< "${DAEMON:-}"
mkdir -p "$out" "$work/b"
log=$out/jobs.log
: > "$log"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 SUBLET_DIR=$work/node
mkdir -p "$SUBLET_DIR"

finish() { # the daemon is no child of a timeout: its number is needed
        touch "$work/b/stop"
        jobs -p | grep -vx "${daemon:-none}" | xargs -r kill -9 2> /dev/null
        [ -z "$daemon" ] || kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT
say() { echo "$@" | tee -a "$log"; }
for_seconds() { # SECONDS COMMAND...: until it is true
        local end=$((SECONDS + $1))
        shift
        until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done
}
stamp() { python3 -c 'import time; print(f"{time.monotonic():.6f}")'; }

# ---- the machine ------------------------------------------------------------------------------
if [ -n "${SUBLET_SIM:-}" ]; then
        say "# machine: simulated (the figures are the simulator's, not a GPU's)"
        program=("$build/tests/gpu/gpu-steps" -k 4000) load=$build/tests/gpu/gpu-load
else
        say "# machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr '\n' ';')"
        program=(python3 "$here/ddp_steps.py") load=$work/load
        gcc -O2 -I"$cuda/include" "$here/load.c" -o "$load" -L"$cuda/lib64/stubs" -lcuda >> "$log" 2>&1 ||
                say "# no load program: see $log"
fi
rounds=$(timeout -k 2 20 "$load" calibrate | tr ' ' '\n' | sed -n 's/^rounds_per_us=//p')
"$sublet" daemon --dir "$SUBLET_DIR" "${options[@]}" > "$out/daemon.log" 2>&1 &
daemon=$!
for_seconds 10 test -S "$SUBLET_DIR/tenant.sock" || say "# the daemon is not there: $(tail -1 "$out/daemon.log")"

# ---- jobs and windows ---------------------------------------------------------------------------
# job HOW NAME [OPTION of run...] [-- OPTION of the program...]: in the background, in directory $work/b
job() {
        local how=$1 name=$2 before=() after=()
        shift 2
        while [ $# -gt 0 ] && [ "$1" != -- ]; do before+=("$1"); shift; done
        [ $# -eq 0 ] || { shift; after=("$@"); }
        if [ "$how" = ours ]; then before=("$sublet" run -q --name "$name" --mem 16G "${before[@]}" --); else before=(); fi
        timeout -k 2 $((long + 10)) ${before[@]+"${before[@]}"} "${program[@]}" -n "$name" -b "$work/b" -o "$work/$name.log" -t "$long" \
                ${after[@]+"${after[@]}"} >> "$log" 2>&1 &
}
are_ready() { local name; for name; do [ -e "$work/b/$name.ready" ] || return 1; done; }
begin() { # NAME...: when all are ready
        for_seconds 40 are_ready "$@" || { say "# not ready: $*; see $log"; tail -5 "$log"; return 1; }
        touch "$work/b/go"
}
pause() { touch "$work/b/$1.pause"; }
resume() { rm -f "$work/b/$1.pause"; }
end_all() { touch "$work/b/stop"; sleep 1.5; rm -rf "$work/b"; mkdir "$work/b"; }
share() { "$sublet" set "$1" share="$2" >> "$log" 2>&1 || say "# share of $1: $(tail -1 "$log")"; }

# rates FROM UNTIL NAME...: steps per second of each, and how far the first one's part of the steps was from $promised
# (percent; "": from its part of all) over any 2 s
rates() {
        python3 - "$work" "${promised:-}" "$@" << 'END'
import bisect, sys
work, promised, begin, end, names = sys.argv[1], sys.argv[2], float(sys.argv[3]) + 1, float(sys.argv[4]), sys.argv[5:]
logs = []
for name in names:
    try:
        logs.append([float(line) for line in open(f"{work}/{name}.log") if line.strip()])
    except (OSError, ValueError):
        logs.append([])
count = lambda log, a, b: bisect.bisect(log, b) - bisect.bisect(log, a)
n = [count(log, begin, end) for log in logs]
worst = 0
at = begin
while len(n) > 1 and sum(n) and at + 2 <= end:
    m = [count(log, at, at + 2) for log in logs]
    due = float(promised) / 100 if promised else n[0] / sum(n)
    worst = max(worst, abs(m[0] / max(1, sum(m)) - due) * 100)
    at += 0.1
print(*[f"{x / (end - begin):.1f}" for x in n], f"{worst:.1f}")
END
}

# spread LABEL: of the first job's steps in the window of `observe`, what they took, and the time in those of twice the
# median and more: while it was off, if it was
spread() {
        say "# $1: $(python3 - "$work/a.log" "$from" "$until" << 'END'
import sys
begin, end = float(sys.argv[2]) + 1, float(sys.argv[3])
at = [t for t in map(float, open(sys.argv[1])) if begin <= t <= end]
took = sorted((b - a) * 1000 for a, b in zip(at, at[1:]))
part = lambda p: took[min(len(took) - 1, int(len(took) * p))]
long = [t for t in took if t >= 2 * part(.5)]
print(f"{len(took)} steps of p10 {part(.1):.3f} p50 {part(.5):.3f} p90 {part(.9):.3f} p99 {part(.99):.3f} ms; "
      f"{len(long)} of twice that or more, {sum(long):.1f} ms of {(end - begin) * 1000:.0f}")
END
)"
}

# observe SECONDS NAME...: a window, into $line
observe() {
        local seconds=$1
        shift
        sleep 0.5
        from=$(stamp)
        sleep "$seconds"
        until=$(stamp)
        line=$(rates "$from" "$until" "$@")
        "$sublet" ps >> "$log" 2>&1
}

# row LABEL ALONE: a row of the table from $line; ALONE: the rate that the sum is told in
row() {
        table+=("$(awk -v l="$1" -v alone="${2:-0}" '{ n = NF - 1; for (i = 1; i <= n; i++) sum += $i
                for (i = 1; i <= n; i++) part = part sprintf("%s%.1f", i > 1 ? " : " : "", sum ? 100 * $i / sum : 0)
                for (i = 1; i <= n; i++) rate = rate sprintf("%s%s", i > 1 ? " + " : "", $i)
                printf "%-34s %-16s %-14s %6s %8s", l, rate, part, (alone ? sprintf("%.3f", sum / alone) : "-"), (n > 1 ? $NF : "-") }' <<< "$line")")
        say "${table[-1]}"
        rate=${line%% *}
}

# measure LABEL NAME...: a window; a row of the table
measure() {
        local label=$1
        shift
        observe "$window" "$@"
        row "$label" "${alone:-0}"
}

# aim WHAT CONDITION-OF-AWK: a line at the end, of what should be so on a device
aim() { aims+=("$(awk "BEGIN { print ($2) ? \"ok\" : \"not ok\" }") - aim: $1"); }

# pair LABEL A B: both, told in what A does alone just before and just after, because a machine's rate drifts. The label
# says what is promised to A: ..., 70 : 30
pair() {
        local together before after alone a b worst promised=${1##*, }
        promised=${promised%% *}
        pause "$3"
        observe 3 "$2"
        before=${line%% *}
        resume "$3"
        observe "$window" "$2" "$3"
        together=$line
        pause "$3"
        observe 3 "$2"
        after=${line%% *}
        resume "$3"
        line=$together
        alone=$(awk -v b="$before" -v a="$after" 'BEGIN { print (a + b) / 2 }')
        row "$1" "$alone"
        read -r a b worst <<< "$together"
        aim "$1: together 0.95 of one alone" "($a + $b) / $alone >= 0.95"
        aim "$1: within 2 points over any 2 s ($worst)" "$worst <= 2"
        aim "$1: each has its share of what it does alone, within 2 points" \
                "(d = 100 * $a / ($a + $b) - $promised) <= 2 && d >= -2"
        echo "# alone before and after: $before, $after" >> "$log"
}
header=$(printf '%-34s %-16s %-14s %6s %8s' what 'steps/s' 'part of steps' 'sum' 'worst 2s')

# cost: milliseconds of processor time that the daemon's scheduling threads have had
cost() {
        local task sum=0 ticks
        for task in /proc/"$daemon"/task/*; do
                [ "$(cat "$task/comm" 2> /dev/null)" = sublet-pace ] || continue
                ticks=$(sed 's/.*) //' "$task/stat" | awk '{ print $12 + $13 }')
                sum=$((sum + ticks * 1000 / $(getconf CLK_TCK)))
        done
        echo "$sum"
}

# ---- the parts ------------------------------------------------------------------------------------
part_native() {
        job native n1
        job native n2
        pause n2
        begin n1 n2 || return
        measure 'native, alone' n1
        [ "$alone" ] || alone=$rate
        resume n2
        measure "two, driver's default" n1 n2
}

part_native2() {
        job native n1
        begin n1 && measure 'native, alone, at the end' n1
}

part_pairs() {
        local d before
        job ours a --gpu 0,1 --share 50
        job ours b --gpu 0,1 --share 50
        pause b
        begin a b || return
        measure 'a tenant, alone' a
        resume b
        before=$(cost)
        sleep 3
        say "# scheduling threads: $((($(cost) - before) * 1000 / (3 * 4))) us a second for each device and tenant"
        pair 'two tenants, 50 : 50' a b
        share b 30
        share a 70
        pair 'two tenants, 70 : 30' a b
        share b 10
        share a 90
        pair 'two tenants, 90 : 10' a b
        share a 40
        share b 20
        for d in 0 1; do
                timeout -k 2 40 "$sublet" run -q --name "s$d" --gpu "$d" --mem 4G --share 40 -- "$load" -r "${rounds:-51.9}" \
                        -n "s$d" -t $((window + 3)) -k 770 deep > "$work/s$d.out" 2>> "$log" &
        done
        sleep 2
        measure 'jobs 40, 20 beside singles of 40' a b
        sleep 3
        pause b
        share a 50
        measure 'the tenant alone, again' a
        for d in 0 1; do
                say "# single on device $d: $(awk -v w=$((window + 3)) '{ for (i = 1; i <= NF; i++) { split($i, x, "="); v[x[1]] = x[2] } }
                        END { printf "%.1f %% of the device", v["pieces"] * v["piece_us"] / w / 1e4 }' "$work/s$d.out")"
        done
}

part_reduce() {
        local kept=("${program[@]}") alone=
        if [ -n "${SUBLET_SIM:-}" ]; then program=("$build/tests/gpu/gpu-steps" -k 500); else program+=(--batch 32); fi
        job native n1
        job native n2
        pause n2
        begin n1 n2 || { program=("${kept[@]}"); return; }
        measure 'all-reduce, native, alone' n1
        alone=$rate
        resume n2
        measure "all-reduce, driver's default" n1 n2
        end_all
        job ours a --gpu 0,1 --share 70
        job ours b --gpu 0,1 --share 30
        program=("${kept[@]}")
        pause b
        begin a b || return
        measure 'all-reduce, a tenant alone' a
        pair 'all-reduce, 70 : 30' a b
        share a 50
        share b 50
        pair 'all-reduce, 50 : 50' a b
        share b 10
        share a 90
        pair 'all-reduce, 90 : 10' a b
}

# By turns, natively and as a tenant: medians, because a machine's rate drifts.
part_alone() {
        local i rates_of_n1=() rates_of_a=() native tenant
        job native n1
        job ours a --gpu 0,1 --share 100
        pause a
        begin n1 a || return
        for ((i = 0; i < ${ALTERNATIONS:-7}; i++)); do
                observe 3 n1
                rates_of_n1+=("${line%% *}")
                pause n1
                resume a
                observe 3 a
                rates_of_a+=("${line%% *}")
                pause a
                resume n1
        done
        native=$(median "${rates_of_n1[@]}") tenant=$(median "${rates_of_a[@]}")
        say "# natively: ${rates_of_n1[*]}; as a tenant: ${rates_of_a[*]}"
        line="$tenant 0" && row 'a tenant, of native by turns' "$native"
        aim "a job alone within 1 % of native ($tenant of $native)" "$tenant >= 0.99 * $native"
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# Each tenant leases both devices, the other's with a small quota: it maps memory there. So it has a share of both, half
# of the job's.
part_tenants() {
        local r j number=0
        for j in x:35 y:15; do
                number=$((number + 1))
                for r in 0 1; do
                        local mem=16G,$((1 - r))=4G name=${j%:*}
                        if [ -n "${SUBLET_SIM:-}" ]; then
                                timeout -k 2 60 "$sublet" run -q --name "$name$r" --gpu 0,1 --mem "$mem" --share "${j#*:}" --job "$name" -- \
                                        "$build/tests/gpu/gpu-ranks" -j $number -d "$r" -n 1 -w 2 -s 100000 -o "$work/$name.log$r" >> "$log" 2>&1 &
                                ln -sf "$work/$name.log0" "$work/$name.log"
                        else
                                timeout -k 2 90 "$sublet" run -q --name "$name$r" --gpu 0,1 --mem "$mem" --share "${j#*:}" --job "$name" -- \
                                        "${program[@]}" -n "$name" -b "$work/b" -o "$work/$name.log" -t 60 --rank "$r" --device "$r" \
                                        --port $((23450 + number)) >> "$log" 2>&1 &
                        fi
                done
        done
        if [ -n "${SUBLET_SIM:-}" ]; then
                for_seconds 20 test -s "$work/x.log1" && for_seconds 20 test -s "$work/y.log1"
        else
                begin x y
        fi && measure 'jobs of two tenants, 70 : 30' x y
        "$sublet" end x0 x1 y0 y1 >> "$log" 2>&1
}

held() { "$sublet" ps --json | jq -r --arg t "$1" '[.[] | select(.tenant == $t) | .devices[].held_bytes] | add // 0'; }
is_gone() { [ "$(held "$1")" = 0 ]; }

# goes_on LABEL: b makes steps, and a holds nothing any more
goes_on() {
        local is_back=no from until line
        for_seconds 15 is_gone a && is_back=yes
        from=$(stamp)
        sleep 3
        until=$(stamp)
        line=$(rates "$from" "$until" b)
        table+=("$(printf '%-34s %-16s %s' "$1" "${line%% *}" "a's memory is back: $is_back")")
        say "${table[-1]}"
        # what b did in each second up to now, and what is known of it
        python3 -c 'import sys, time
now = time.monotonic()
steps = [0] * 12
for line in open(sys.argv[1]):
    ago = now - float(line) if line.strip() else 12
    if ago < 12: steps[int(ago)] += 1
print("# steps of b, by seconds ago:", *steps)' "$work/b.log" >> "$log" 2>&1
        "$sublet" ps >> "$log" 2>&1
        tail -1 "$work/b.log" >> "$log"
        stamp >> "$log"
}

part_kills() {
        local what shim
        job ours b --gpu 0,1 --share 50
        for what in rank shim; do
                job ours a --gpu 0,1 --share 50
                for_seconds 40 are_ready a b || { say "# not ready: a b"; return; }
                touch "$work/b/go"
                sleep 2
                shim=$("$sublet" ps --json | jq -r '.[] | select(.tenant == "a").keep''er')
                if [ "$what" = rank ]; then
                        pgrep -f "^[^ ]*(python3|gpu-steps) .*-n a .*" | tail -1 | xargs -r kill -9
                else
                        kill -9 "$shim"
                        pgrep -f "^[^ ]*(python3|gpu-steps) .*-n a .*" | xargs -r kill -9
                fi
                sleep 1
                "$sublet" end a >> "$log" 2>&1 # the ranks that are left wait for ever
                goes_on "b, a's $what killed"
                rm -f "$work/b/a.ready"
        done
        kill -9 "$daemon"
        sleep 1
        wait "$daemon" 2> /dev/null
        "$sublet" daemon --dir "$SUBLET_DIR" >> "$out/daemon.log" 2>&1 &
        daemon=$!
        goes_on 'b, the daemon killed'
        cp "$work/b.log" "$out/steps-of-b.log"
}

# A row for each daemon that is killed: steps in a second before, and in the three seconds after the next one took over
part_daemons() {
        local round jobs before from until
        job ours b --gpu 0,1 --share 50
        begin b || return
        for jobs in b 'a b'; do
                if [ "$jobs" != b ]; then
                        job ours a --gpu 0,1 --share 50
                        for_seconds 40 are_ready a b || { say "# not ready: $jobs"; return; }
                fi
                sleep 2
                for ((round = 0; round < ${ROUNDS:-5}; round++)); do
                        from=$(stamp)
                        sleep 2
                        until=$(stamp)
                        # shellcheck disable=SC2086  # a list
                        before=$(rates "$from" "$until" $jobs)
                        kill -9 "$daemon"
                        sleep 1
                        wait "$daemon" 2> /dev/null
                        "$sublet" daemon --dir "$SUBLET_DIR" >> "$out/daemon.log" 2>&1 &
                        daemon=$!
                        for_seconds 10 "$sublet" ps > /dev/null 2>&1
                        from=$(stamp)
                        sleep 4
                        until=$(stamp)
                        # shellcheck disable=SC2086  # a list
                        table+=("$(printf '%-34s before %-16s after %s' "daemon killed beside $jobs" "${before% *}" \
                                "$(rates "$from" "$until" $jobs | sed 's/ [^ ]*$//')")")
                        say "${table[-1]}"
                        "$sublet" ps >> "$log" 2>&1
                done
        done
}

part_where() {
        local spinners=() i
        job ours a --gpu 0,1 --share 90
        job ours b --gpu 0,1 --share 10
        pause b
        begin a b || return
        sleep 1
        for i in 1 2; do
                observe 4 a
                spread "alone, the other sleeps ($i)"
                resume b
                "$sublet" set b cap=0.1 >> "$log" 2>&1
                sleep 1
                observe 4 a
                spread "alone, the other waits ($i)"
                "$sublet" set b cap=none >> "$log" 2>&1
                sleep 1
                observe 6 a b
                spread "90 : 10 ($i), $line"
                pause b
                sleep 1
                for _ in 1 2 3 4; do
                        (while :; do :; done) &
                        spinners+=($!)
                done
                observe 4 a
                spread "alone, beside four that spin ($i)"
                kill "${spinners[@]}"
                spinners=()
        done
}

part_four() {
        local one=() share
        [ "$("$sublet" doctor --json 2> /dev/null | jq '[.findings[] | select(.name == "card")] | length')" -ge 4 ] || { say '# fewer than four devices'; return 0; }
        if [ -n "${SUBLET_SIM:-}" ]; then one=(-d 4); else one=(--ranks 4); fi
        job ours q --gpu 0,1,2,3 --share 50 -- "${one[@]}"
        job ours a --gpu 0,1 --share 50
        job ours b --gpu 2,3 --share 50
        pause a
        pause b
        begin q a b || return
        measure 'a job of four devices, alone' q
        pause q
        resume a
        resume b
        measure 'two jobs of two, alone' a b
        resume q
        measure 'four, two, two: 50 : 50 each' q a b
        for share in 'a 30' 'b 30' 'q 70'; do
                # shellcheck disable=SC2086  # name and share
                share $share
        done
        measure 'four, two, two: 70 : 30 each' q a b
}

say "$header"
for part in ${PARTS:-native pairs reduce tenants kills native2}; do
        "part_$part" || say "# part $part did not end well"
        end_all
done

# ---- the table ------------------------------------------------------------------------------------
"$sublet" events --json 2> /dev/null | tail -40 >> "$log"
say "# $SECONDS s; sum: steps of all, of one native alone; of pairs, of the one alone before and after"
say "$header"
for row in ${table[@]+"${table[@]}"}; do say "$row"; done
aim "no collective timed out" "$(grep -c 'Watchdog caught collective operation timeout' "$log") == 0"
failed=0
for row in "${aims[@]}"; do
        say "$row"
        [[ $row != not* ]] || failed=$((failed + 1))
done
say "# $((${#aims[@]} - failed)) of ${#aims[@]} aims; on the simulator they say nothing"
