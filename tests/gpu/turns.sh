#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tenants whose memory together exceeds the device, all at work all the time: what they get done in turns (sublet run
# --swap), beside one alone, and whether their losses are those of one that was never moved, bit for bit. TAP on stdout,
# the log in ${OUT:-/tmp/sublet-turns}; on the simulator, with small sizes, where there is no device (there nothing is
# trained).
#
#       tests/gpu/turns.sh [BUILD]                about 4 minutes
#
# TRAINED="64 440": MiB and batches of each; MEM=29G of each; TENANTS=3; SWAP=90G; SPAN=110: seconds of all together.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
if [ -z "${SUBLET_SIM:-}" ] && [ ! -e /sys/module/nvidia/version ]; then
        TRAINED=${TRAINED:-4 16} MEM=${MEM:-1500M} SWAP=${SWAP:-5G} SPAN=${SPAN:-30} exec \
                "$sublet" sim --memory 3G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-turns}
mkdir -p "$out"
log=$out/turns.log
: > "$log"
work=$(mktemp -d)
export SUBLET_DIR=$work/node
n=0 failed=0 daemon='' tenants=()
read -ra trained <<< "${TRAINED:-64 440}"
mem=${MEM:-29G} many=${TENANTS:-3} span=${SPAN:-110}

node_end() {
        "$sublet" ps -q 2> /dev/null | xargs -r "$sublet" end > /dev/null 2>&1
        [ ${#tenants[@]} = 0 ] || wait "${tenants[@]}" 2> /dev/null
        [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2> /dev/null
        daemon=''
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
steps() { grep '^step ' "$work/$1" | tail -1 | cut -d' ' -f2 | grep . || echo 0; } # NAME
is_further() { [ "$(steps "$1")" -gt "$2" ]; } # NAME THAN
is_through() { grep -q '^steps' "$work/$1"; }
begin() { # NAME: it works until its input ends
        mkfifo "$work/$1.feed"
        # shellcheck disable=SC2094
        "$sublet" run -q --name "$1" --swap --mem "$mem" -- "$work/trained" "${trained[@]}" 0 \
                < "$work/$1.feed" > "$work/$1" 2>> "$log" &
        tenants+=($!)
        exec {feed}> "$work/$1.feed"
        feeds+=("$feed")
}
is_prefix_of() { # NAME OTHER: the losses of the shorter one are the other's first
        local lines
        lines=$(grep -c '^step ' "$work/$1")
        [ "$lines" -gt 0 ] && cmp <(grep '^step ' "$work/$1") <(grep '^step ' "$work/$2" | head -n "$lines")
}

has_no_bad() { ! "$sublet" events | grep -E 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST|ROOM_NOT_MADE'; }

[ ! -e /sys/module/nvidia/version ] || { uname -a; nvidia-smi; free -g; date -u; } >> "$log" 2>&1
gcc -O2 tests/gpu/trained.c -o "$work/trained" -ldl || cp "$build/tests/gpu/gpu-trained" "$work/trained"
feeds=()
mkdir -p "$SUBLET_DIR"
"$sublet" daemon --dir "$SUBLET_DIR" --suspend-by copies --swap "${SWAP:-90G}" >> "$log" 2>&1 < /dev/null &
daemon=$!
until_is 30 "$sublet" ps -q

begin one
check "one tenant is at work" until_is 60 is_further one 0
first=$(steps one)
sleep $((span / 10))
alone=$((($(steps one) - first) / (span / 10)))
for ((i = 1; i < many; i++)); do
        begin "other-$i"
done
for ((i = 1; i < many; i++)); do
        check "another one, which does not fit beside them, comes in ($i)" until_is 120 is_further "other-$i" 0
done
declare -A at=()
names=(one) sum=0
for ((i = 1; i < many; i++)); do names+=("other-$i"); done
for name in "${names[@]}"; do at[$name]=$(steps "$name"); done
sleep "$span"
for name in "${names[@]}"; do
        rate=$((($(steps "$name") - at[$name]) / span))
        sum=$((sum + rate))
        say "# $name: $rate steps/s"
        check "$name got something done" [ "$rate" -gt 0 ]
done
say "# alone: $alone steps/s; all together $sum: $((alone ? sum * 1000 / alone : 0)) thousandths"
say "# $("$sublet" events | grep -c ' SUSPENDED') left, $("$sublet" events | grep -c ' RESUMED') came"
# the simulator's copies say nothing about time
[ -n "${SUBLET_SIM:-}" ] ||
        check "together they get at least 0.85 done of what one does alone" [ "$sum" -ge $((alone * 85 / 100)) ]
"$sublet" events >> "$log"
check "nothing happened that should not" has_no_bad
for feed in "${feeds[@]}"; do exec {feed}>&-; done
for name in "${names[@]}"; do
        check "$name ends" until_is 200 is_through "$name"
done
longest=one
for name in "${names[@]}"; do [ "$(steps "$name")" -lt "$(steps "$longest")" ] || longest=$name; done
for name in "${names[@]}"; do
        check "$name has the losses of $longest, bit for bit" is_prefix_of "$name" "$longest"
done
say "1..$n"
say "$((n - failed)) passed, $failed failed"
[ $failed = 0 ]
