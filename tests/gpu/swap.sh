#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How fast a tenant's memory leaves a device and comes back: by its gate's own copies, and by the driver's checkpoint,
# of the same program in the same run, beside what the link carries; what stays on the device, and whether every word is
# as it was. A training run that is suspended at random moments has the losses of one that is not, bit for bit; a busy
# program with --swap stays out when its user says so; a tenant on two devices moves with both. TAP on stdout, a table
# at its end, the log in ${OUT:-/tmp/sublet-swap}; on the simulator, with small sizes, where there is no device (there
# nothing is trained).
#
#       tests/gpu/swap.sh [BUILD]                 about 7 minutes; about 2 with
#                       LARGE="4 1024" MANY="100 2" CHECKPOINTS=0 SUSPENDS=5
#
# PINNED="1024 16": MiB and copies of the link. LARGE="40 1024", MANY="10000 2": pieces and MiB; OTHERS="16 256": of
# pools, virtual memory, memory half of which is managed, arrays, and memory that a graph reads. ROUNDS=2 of copies;
# KINDS=1 of those others; CHECKPOINTS=1 (0: none). SUSPENDS=200 of the training run, of TRAINED="64 64": MiB and
# batches. SWAP=64G: host memory that is kept ready. TWO="4 1024": pieces and MiB on each of two devices; where they are
# joined by NVLink, those of whole 512 MiB have addresses of its fabric.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
if [ -z "${SUBLET_SIM:-}" ] && [ ! -e /sys/module/nvidia/version ]; then
        PINNED=${PINNED:-16 2} LARGE=${LARGE:-4 16} MANY=${MANY:-40 2} OTHERS=${OTHERS:-4 4} SUSPENDS=${SUSPENDS:-6} TRAINED=${TRAINED:-4 8} SWAP=${SWAP:-4G} TWO=${TWO:-2 512} exec "$sublet" sim --gpus 2 --nvlink --memory 4G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-swap}
mkdir -p "$out"
log=$out/swap.log
: > "$log"
work=$(mktemp -d)
export SUBLET_DIR=$work # no other daemon of this machine is asked for anything
n=0 failed=0 daemon='' tenant='' table=()

node_end() {
        "$sublet" end swapped > /dev/null 2>&1
        [ -z "$tenant" ] || wait "$tenant" 2> /dev/null
        [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2> /dev/null
        daemon='' tenant=''
}
trap 'node_end; rm -rf "$work"' EXIT
say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM COMMAND...
        local claim=$1
        shift
        n=$((n + 1))
        if "$@" >> "$log" 2>&1; then
                say "ok $n - $claim"
        else
                failed=$((failed + 1))
                say "not ok $n - $claim"
        fi
}
until_is() { # SECONDS COMMAND...
        local end=$((SECONDS + $1))
        shift
        until "$@" > /dev/null 2>&1; do
                [ "$SECONDS" -lt "$end" ] || return 1
                sleep 0.05
        done
}
has_looks() { has_lines "$1" '^look'; }
has_lines() { [ "$(grep -c "$2" "$work/program")" -ge "$1" ]; } # N PATTERN
has_no_other() { ! grep -vE '^(ready|look wrong=0 ms=[0-9.]+)$' "$work/program"; }
held() { "$sublet" ps --json | sed -n 's/^    "held_bytes": *\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { printf "%d\n", sum / 1048576 }'; } # MiB, on all devices
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 2> /dev/null || echo '?'; }
is_empty() { [ -z "$("$sublet" ps -q)" ]; }
timed() { # VERB: the seconds that it took are in $took, and what its event says in $said
        local began code
        began=$(date +%s.%N)
        "$sublet" "$1" swapped >> "$log" 2>&1
        code=$?
        took=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
        said=$("$sublet" events | grep -E 'SUSPEND|RESUME' | tail -1 | sed 's/^.*; copies/copies/; t; s/.*//')
        return "$code"
}
look() { # CLAIM: all words are compared
        looks=$((looks + 1))
        echo >&"$feed"
        check "$1" until_is 60 has_looks "$looks"
}

daemon_begin() { # NAME OPTION...
        export SUBLET_DIR=$work/$1
        mkdir -p "$SUBLET_DIR"
        rm -f "$work/feed" "$work/program"
        mkfifo "$work/feed"
        exec {feed}<> "$work/feed"
        "$sublet" daemon --dir "$SUBLET_DIR" "${@:2}" >> "$log" 2>&1 < /dev/null &
        daemon=$!
        until_is 30 "$sublet" ps -q
}

kept_mib() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$("$sublet" ps --json | grep -o '"keeper": *[0-9]*' | grep -o '[0-9]*$')/status"; }
is_ready() { [ "$(kept_mib)" -ge "$1" ]; }
node_begin() { # WAY N MIB [HOW]
        looks=0
        daemon_begin "$1.$2" --suspend-by "$1" --swap "${SWAP:-64G}"
        "$sublet" run -q --gpu 0 --name swapped --sleep-after 30m --mem $(($2 * $3 + 3072))M -- "$work/swapped" "${@:2}" \
                < "$work/feed" > "$work/program" 2>> "$log" &
        tenant=$!
        check "$1: a tenant fills $2 pieces of $3 MiB" until_is 60 grep -q ready "$work/program"
        [ "$1" = copies ] || return 0
        local began=$SECONDS
        check "$1: host memory for it is made ready" until_is 60 is_ready $(($2 * $3))
        say "# after $((SECONDS - began)) s: $(kept_mib) MiB"
}

both_ways() { # WAY N MIB ROUND [HOW]
        local full
        full=$(held)
        check "$1: suspend ($4)" timed suspend
        out_took=$took out_said=$said left=$(held) on_device=$(used)
        check "$1: what it held has left the device ($4)" [ $((full - left)) -ge $(($2 * $3 * 9 / 10)) ]
        [ "${5:-}" != managed ] || check "$1: it went by copies and UVM's migration ($4)" [ -n "$out_said" ]
        check "$1: resume ($4)" timed resume
        look "$1: it goes on ($4)"
        check "$1: every word is as it was ($4)" has_no_other
        [ "$1" != copies ] || aims "$2" "$3" "$4"
        table+=("$(printf '%-10s %5s x %-5s %9s %9s %8s %8s  %s | %s' "${5:-$1}" "$2" "$3" "$out_took" "$took" "$left" \
                "$on_device" "${out_said#copies: }" "${said#copies: }")")
}

# The aims, where there is a device: of large pieces out and back at most a second and at four fifths of the link's
# rate; of all that is left at most 600 MiB.
is_at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }'; } # VALUE MOST
rate_of() { grep -oE '[0-9.]+ GB/s' <<< "$1" | cut -d' ' -f1; }              # WHAT-AN-EVENT-SAYS
aims() { # N MIB ROUND
        [ -z "${SUBLET_SIM:-}" ] || return 0
        check "aim: at most 600 MiB stay ($left MiB, $3)" is_at_most "$left" 600
        [ "$2" -ge 1024 ] || return 0
        check "aim: out in at most 1.0 s ($out_took s, $3)" is_at_most "$out_took" 1.0
        check "aim: back in at most 1.0 s ($took s, $3)" is_at_most "$took" 1.0
        check "aim: out at 80 % of the link's ${link_out:-?} GB/s ($(rate_of "$out_said"), $3)" \
                is_at_most "$(awk -v r="${link_out:-1e9}" 'BEGIN { print r * 0.8 }')" "$(rate_of "$out_said")"
        check "aim: back at 80 % of the link's ${link_back:-?} GB/s ($(rate_of "$said"), $3)" \
                is_at_most "$(awk -v r="${link_back:-1e9}" 'BEGIN { print r * 0.8 }')" "$(rate_of "$said")"
}
link() { # natively
        local rates
        # shellcheck disable=SC2086  # its words
        rates=$("$work/pinned" ${PINNED:-}) && link_out=${rates#out=} link_out=${link_out%% *} link_back=${rates##*=}
        say "# the link, pinned copies, GB/s: $rates"
        check "what the link carries is measured" [ -n "${link_back:-}" ]
}

wakes() { # it puts work while it is away
        check "copies: suspend (wake)" timed suspend
        local began
        began=$(date +%s.%N)
        look "copies: it wakes by a launch"
        say "# woken, and all compared, in $(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }') s"
        check "copies: every word is as it was (wake)" has_no_other
}

# ---- a program at work ----

losses() { grep -c '^step' "$work/program"; }
is_further() { [ "$(losses)" -gt "$1" ]; } # THAN
is_through() { grep -q '^steps' "$work/program"; }
has_state() { [ "$("$sublet" ps --json | grep -o '"state": *"[a-z]*"' | head -1 | grep -o '[a-z]*"$')" = "$1\"" ]; }
trained_begin() { # OPTION...
        "$sublet" run -q --gpu 0 --name swapped --mem "$((trained[0] * (trained[1] + 3) + 3072))M" "$@" -- \
                "$work/trained" "${trained[@]}" 0 < "$work/feed" > "$work/program" 2>> "$log" &
        tenant=$!
        check "a training run begins ($*)" until_is 60 grep -q '^ready' "$work/program"
}
moment() { sleep "0.$(printf %03d $((RANDOM % ${1:-300})))"; }

# One that waits for what it had put before wakes nobody, and is resumed; one that puts more comes back by itself. The
# losses are compared with those of as many steps without.
training() {
        local i moved=0 steps
        daemon_begin training --suspend-by copies --swap "${SWAP:-64G}"
        trained_begin
        for ((i = 0; i < ${SUSPENDS:-200}; i++)); do
                moment
                ! "$sublet" suspend swapped >> "$log" 2>&1 || moved=$((moved + 1))
                moment 100
                "$sublet" resume swapped >> "$log" 2>&1
                until_is 20 has_state running
        done
        check "training: it goes on" until_is 20 is_further "$(losses)"
        moved=$("$sublet" events --json 2> /dev/null | grep -c '"SUSPENDED"')
        echo >&"$feed"
        check "training: it ends" until_is 60 is_through
        steps=$(grep -o '^steps [0-9]*' "$work/program" | grep -o '[0-9]*$')
        check "training: of $i suspensions at random moments $moved were made" [ "$moved" -ge $((i * 9 / 10)) ]
        mv "$work/program" "$work/suspended"
        until_is 30 is_empty
        timeout 200 "$sublet" run -q --gpu 0 --name alone --mem "$((trained[0] * (trained[1] + 3) + 3072))M" -- \
                "$work/trained" "${trained[@]}" "$steps" < /dev/null > "$work/alone" 2>> "$log"
        check "training: the losses of $steps steps are those of a run without, bit for bit" \
                cmp "$work/suspended" "$work/alone"
        tail -2 "$work/suspended" >> "$log"
        "$sublet" events | grep -vE 'SUSPENDED|RESUMED' | tail -50 >> "$log"
        exec {feed}>&-
        node_end
}

busy() {
        local before
        daemon_begin busy --suspend-by copies --swap "${SWAP:-64G}"
        trained_begin --swap
        check "busy: it is at work" until_is 20 is_further 3
        check "busy: suspend" timed suspend
        before=$(losses)
        sleep 2
        check "busy: it stays out" has_state suspended
        check "busy: and does nothing" [ "$(losses)" = "$before" ]
        check "busy: what it held has left the device" [ "$(held)" -lt $((trained[0] * trained[1] / 4 + 600)) ]
        check "busy: resume" "$sublet" resume swapped
        check "busy: it goes on" until_is 20 is_further "$before"
        echo >&"$feed"
        check "busy: it ends" until_is 30 is_through
        "$sublet" events >> "$log"
        exec {feed}>&-
        node_end
}

skip() { # CLAIM WHY
        n=$((n + 1))
        say "ok $n - $1 # SKIP $2"
}
device_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i "$1" 2> /dev/null; } # DEVICE
have_left() { # MIB: of each device, by its own figure; the simulator has none beside the books
        local device
        for device in 0 1; do
                [ -n "${SUBLET_SIM:-}" ] || [ $((full_device[device] - $(device_used $device))) -ge "$1" ] || return
        done
}
has_fabric() { [ -n "${SUBLET_SIM:-}" ] || nvidia-smi -q -i 0 | grep -A 2 '^ *Fabric' | grep -q Completed; }

# One process on each device, of one tenant.
two_devices() { # N MIB
        local began other device full_device=() mib=$(($1 * $2))
        daemon_begin two --suspend-by copies --swap "${SWAP:-64G}"
        mkfifo "$work/feed.1"
        exec {other}<> "$work/feed.1"
        # shellcheck disable=SC2016
        "$sublet" run -q --name swapped --gpus 0,1 --sleep-after 30m --mem "$((mib + 2048))M" --record "$out/two.record" -- sh -c \
                'SWAPPED_DEVICE=1 "$0" "$1" "$2" < "$3.1" & "$0" "$1" "$2" < "$3"; wait' "$work/swapped" "$1" "$2" \
                "$work/feed" > "$work/program" 2>> "$log" &
        tenant=$!
        check "two devices: a tenant fills $1 pieces of $2 MiB on each" until_is 60 has_lines 2 '^ready'
        if has_fabric; then
                check "two devices: they have addresses of the fabric" grep -q 'ALLOC 0xf8 .* made' "$out/two.record"
        else
                skip "two devices: they have addresses of the fabric" "no fabric is up"
        fi
        check "two devices: host memory for it is made ready" until_is 60 is_ready $((mib * 2))
        for device in 0 1; do full_device+=("$(device_used $device)"); done
        began=$(held)
        check "two devices: suspend" timed suspend
        out_took=$took out_said=$said left=$(held)
        check "two devices: what it held has left both" [ $((began - left)) -ge $((mib * 2 * 9 / 10)) ]
        check "two devices: and by the devices' own figures, too" have_left $((mib * 9 / 10))
        check "two devices: resume" timed resume
        table+=("$(printf '%-10s %5s x %-5s %9s %9s %8s %8s  %s | %s' "two" "$1" "$2" "$out_took" "$took" "$left" \
                "$(used)" "${out_said#copies: }" "${said#copies: }")")
        echo >&"$feed"
        echo >&"$other"
        check "two devices: every word is as it was" until_is 60 has_lines 2 '^look wrong=0'
        "$sublet" events >> "$log"
        exec {feed}>&- {other}>&-
        node_end
}

measure() { # WAY ROUNDS N MIB [HOW]
        local round
        [ "$2" -gt 0 ] || return 0
        node_begin "$1" "$3" "$4" "${@:5}"
        for ((round = 1; round <= $2; round++)); do
                both_ways "$1" "$3" "$4" "$round" "${@:5}"
        done
        [ "$1" != copies ] || wakes
        "$sublet" events >> "$log"
        say "# $("$sublet" events | grep -cE 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST') events that should not be (in $log)"
        exec {feed}>&-
        "$sublet" end swapped >> "$log" 2>&1
        check "$1: nothing of it is left" until_is 30 is_empty
        node_end
}

[ ! -e /sys/module/nvidia/version ] || { uname -a; nvidia-smi; free -g; date -u; } >> "$log" 2>&1
gcc -O2 tests/gpu/swapped.c -o "$work/swapped" -ldl || cp "$build/tests/gpu/gpu-swapped" "$work/swapped"
gcc -O2 tests/gpu/trained.c -o "$work/trained" -ldl || cp "$build/tests/gpu/gpu-trained" "$work/trained"
gcc -O2 tests/gpu/pinned.c -o "$work/pinned" -ldl || cp "$build/tests/gpu/gpu-pinned" "$work/pinned"
read -ra trained <<< "${TRAINED:-64 64}"
read -ra large <<< "${LARGE:-40 1024}"
read -ra many <<< "${MANY:-10000 2}"
read -ra two <<< "${TWO:-4 1024}"
read -ra others <<< "${OTHERS:-16 256}"
link
measure copies "${ROUNDS:-2}" "${large[@]}"
measure copies "${ROUNDS:-2}" "${many[@]}"
# Each by the means that the daemon takes for it. Managed memory goes by copies or not at all: checkpoint refuses it.
for how in pool vmm managed array graph; do
        measure auto "${KINDS:-1}" "${others[@]}" "$how"
done
training
busy
if [ "$("$sublet" doctor --json 2> /dev/null | grep -o '"card","status":"ok"' | wc -l)" -ge 2 ]; then
        two_devices "${two[@]}"
else
        skip "two devices: a tenant on both, with fabric memory" "this machine has one"
fi
measure checkpoint "${CHECKPOINTS:-1}" "${large[@]}"
measure checkpoint "${CHECKPOINTS:-1}" "${many[@]}"
say "1..$n"
say "$((n - failed)) passed, $failed failed"
say "$(printf '# %-10s %13s %9s %9s %8s %8s  %s' way 'pieces x MiB' 'out s' 'back s' 'left MiB' 'device' 'out | back')"
for row in "${table[@]}"; do
        say "# $row"
done
say "# the link, pinned copies: out ${link_out:-?} GB/s, back ${link_back:-?} GB/s"
[ $failed = 0 ]
