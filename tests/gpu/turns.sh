#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tenants whose memory together exceeds the device, all at work all the time: what they get done in turns (sublet run
# --swap), beside one alone, each one's part of any minute, and whether their losses are those of one that was never
# moved, bit for bit. Then tenants that sleep, beside a busy one: what that gets done, and how long each takes to wake.
# TAP on stdout, a table last, the log in ${OUT:-/tmp/sublet-turns}; on the simulator, with small sizes, where there is
# no device (there nothing is trained, and time says nothing).
#
#       tests/gpu/turns.sh [BUILD]                about 7 minutes
#
# TRAINED="64 940": MiB and batches of each; MEM=60G of each; SWAP=200G. Where the host has less than 230 GiB, SWAP=90G,
# and on a device of less than 100 GB besides "64 440" and 29G. TENANTS=3 (0: none); MINUTES=2 of all together.
# SLEEPERS="20 4 1024": how many, pieces and MiB of each (0: none); SLEEPER_MEM=5G; BUSY="64 64": MiB and batches,
# BUSY_MEM=8G; SECONDS_EACH=20 of the busy one, alone and beside them.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
if [ -z "${SUBLET_SIM:-}" ] && [ ! -e /sys/module/nvidia/version ]; then
        TRAINED=${TRAINED:-4 16} MEM=${MEM:-1500M} SWAP=${SWAP:-5G} MINUTE=${MINUTE:-30} MINUTES=${MINUTES:-1} SLEEPERS=${SLEEPERS:-6 2 16} \
                SLEEPER_MEM=${SLEEPER_MEM:-700M} BUSY=${BUSY:-4 8} BUSY_MEM=${BUSY_MEM:-700M} SECONDS_EACH=${SECONDS_EACH:-4} \
                exec "$sublet" sim --memory 3G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-turns}
mkdir -p "$out"
log=$out/turns.log
: > "$log"
work=$(mktemp -d)
export SUBLET_DIR=$work # no other daemon of this machine is asked for anything
n=0 failed=0 daemon='' tenants=()
device_mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2> /dev/null | head -n 1)
if [ "$(awk '/^MemTotal/ { print int($2 / 1048576) }' /proc/meminfo)" -ge 230 ]; then
        like=("64 940" 60G 200G 18) # at 10 % a cycle of three of these is longer than a minute
elif [ "${device_mib:-0}" -ge 100000 ]; then
        like=("64 940" 60G 90G 10)
else
        like=("64 440" 29G 90G 10)
fi
read -ra trained <<< "${TRAINED:-${like[0]}}"
mem=${MEM:-${like[1]}} swap=${SWAP:-${like[2]}} many=${TENANTS:-3} minute=${MINUTE:-60} minutes=${MINUTES:-2} cost=${COST:-${like[3]}}% table=()

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
begin() { # NAME OPTION... -- PROGRAM...: it works until its input ends
        mkfifo "$work/$1.feed"
        # shellcheck disable=SC2094
        "$sublet" run -q --gpu 0 --name "$1" "${@:2}" < "$work/$1.feed" > "$work/$1" 2>> "$log" &
        tenants+=($!)
        exec {feed}> "$work/$1.feed"
        feeds+=("$feed")
        feed_of[$1]=$feed
}
one_of() { begin "$1" --swap --mem "$mem" -- "$work/trained" "${trained[@]}" 0; } # NAME
is_prefix_of() { # NAME OTHER: the losses of the shorter one are the other's first
        local lines
        lines=$(grep -c '^step ' "$work/$1")
        [ "$lines" -gt 0 ] && cmp <(grep '^step ' "$work/$1") <(grep '^step ' "$work/$2" | head -n "$lines")
}

has_no_bad() { ! "$sublet" events | grep -E 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST|ROOM_NOT_MADE|NOT_PUT_TO_SLEEP'; }

is_about() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = a - b; exit !(d <= by && -d <= by) }'; } # VALUE OTHER BY
of_time() { [ -n "${SUBLET_SIM:-}" ] || check "$@"; } # the simulator's copies say nothing about time
daemon_begin() { # NAME SWAP
        export SUBLET_DIR=$work/$1
        mkdir -p "$SUBLET_DIR"
        tenants=() feeds=()
        "$sublet" daemon --dir "$SUBLET_DIR" --suspend-by copies --swap "$2" --swap-cost "$cost" >> "$log" 2>&1 < /dev/null &
        daemon=$!
        until_is 30 "$sublet" ps -q
}
daemon_end() {
        "$sublet" events >> "$log"
        for feed in "${feeds[@]}"; do exec {feed}>&-; done
        node_end
}

# ---- all of them at work ----

came_back() { "$sublet" events | awk -v name=" $1: " 'index($0, name "SUSPENDED") { left = 1 } index($0, name "RESUMED") && left { back = 1 } END { exit !back }'; } # NAME

# The parts of a minute: steps of each since the last one, and thousandths of all.
a_minute() { # WHICH
        local name so_far sum=0 part text=''
        local -A steps=()
        for name in "${names[@]}"; do
                so_far=$(steps "$name")
                steps[$name]=$((so_far - at[$name])) at[$name]=$so_far
                sum=$((sum + steps[$name]))
        done
        for name in "${names[@]}"; do
                part=$((sum ? steps[$name] * 1000 / sum : 0)) text+=" $part"
                check "$name got something done in minute $1" [ "${steps[$name]}" -gt 0 ]
                of_time "aim: $name has its share of minute $1 within 2 points ($part thousandths)" \
                        is_about "$part" $((1000 / many)) 20
        done
        table+=("all at work, minute $1: $((sum / minute)) steps/s of $alone alone ($((alone ? sum * 1000 / minute / alone : 0)) thousandths); parts$text")
        all=$((all + sum))
}

turns() {
        local first i name longest=one
        daemon_begin turns "$swap"
        one_of one
        check "one tenant is at work" until_is 60 is_further one 0
        first=$(steps one)
        sleep $((minute / 5))
        alone=$((($(steps one) - first) / (minute / 5)))
        names=(one) all=0
        for ((i = 1; i < many; i++)); do
                one_of "other-$i"
                names+=("other-$i")
        done
        for ((i = 1; i < many; i++)); do
                check "another one, which does not fit beside them, comes in ($i)" until_is 120 is_further "other-$i" 0
        done
        # Their first turns are long: what a move costs is not known before.
        for name in "${names[@]}"; do check "$name has left, and is back" until_is 240 came_back "$name"; done
        for name in "${names[@]}"; do at[$name]=$(steps "$name"); done
        for ((i = 1; i <= minutes; i++)); do
                sleep "$minute"
                a_minute "$i"
        done
        say "# $("$sublet" events | grep -c ' SUSPENDED') left, $("$sublet" events | grep -c ' RESUMED') came"
        check "they took turns with their memory" [ "$("$sublet" events | grep -c ' SUSPENDED')" -ge "$many" ]
        of_time "aim: together they get at least 0.85 done of what one does alone" [ "$all" -ge $((alone * minute * minutes * 85 / 100)) ]
        check "nothing happened that should not" has_no_bad
        for feed in "${feeds[@]}"; do exec {feed}>&-; done
        feeds=()
        for name in "${names[@]}"; do check "$name ends" until_is 100 is_through "$name"; done
        for name in "${names[@]}"; do [ "$(steps "$name")" -lt "$(steps "$longest")" ] || longest=$name; done
        for name in "${names[@]}"; do check "$name has the losses of $longest, bit for bit" is_prefix_of "$name" "$longest"; done
        daemon_end
}

# ---- one at work, and sleepers ----

n_asleep() { "$sublet" ps --json | grep -o '"state": *"suspended"' | wc -l; }
are_asleep() { [ "$(n_asleep)" -ge "$1" ]; }
has_looked() { grep -q '^look wrong=0' "$work/$1"; }
rate() { # SECONDS: of the busy one
        local first began
        first=$(steps busy) began=$(date +%s%N)
        sleep "$1"
        echo $(((($(steps busy) - first) * 1000000000000) / ($(date +%s%N) - began))) # thousandths of steps a second
}
wake() { # NAME: its milliseconds, from its input until all its words were compared
        local began i
        began=$(date +%s%N)
        echo >&"${feed_of[$1]}"
        for ((i = 0; i < 6000; i++)); do
                ! has_looked "$1" || break
                sleep 0.01
        done
        echo $((($(date +%s%N) - began) / 1000000))
        has_looked "$1"
}

sleepers() { # N PIECES MIB
        local i before beside ms most=0 took=()
        daemon_begin sleepers "$(($1 * ($2 * $3 + 600) / 1024 + 2))G" # each holds a context's memory besides
        begin busy --mem "${BUSY_MEM:-8G}" -- "$work/trained" "${busy[@]}" 0
        check "the busy one is at work" until_is 60 is_further busy 0
        before=$(rate "${SECONDS_EACH:-20}")
        for ((i = 1; i <= $1; i++)); do
                begin "sleeper-$i" --swap --sleep-after 3s --mem "${SLEEPER_MEM:-5G}" -- "$work/swapped" "$2" "$3"
        done
        for ((i = 1; i <= $1; i++)); do
                check "sleeper $i has filled its memory" until_is 120 grep -q '^ready' "$work/sleeper-$i"
        done
        check "$1 tenants sleep" until_is 120 are_asleep "$1"
        sleep 1
        beside=$(rate "${SECONDS_EACH:-20}")
        of_time "aim: beside $1 sleepers the busy one gets as much done as alone, within 1 % ($beside of $before)" \
                [ $((beside * 100)) -ge $((before * 99)) ]
        for ((i = 1; i <= $1; i++)); do
                check "sleeper $i wakes by a launch, with every word as it was" wake_noted "sleeper-$i"
                ms=$(cat "$work/woken") took+=("$ms")
                [ "$ms" -le "$most" ] || most=$ms
                sleep 0.3 # so that those that have been woken are asleep again before there is no room
        done
        of_time "aim: each wakes in at most 0.3 s ($most ms)" [ "$most" -le 300 ]
        check "nothing happened to sleepers that should not" has_no_bad
        table+=("one at work: $((before / 1000)) steps/s alone, $((beside / 1000)) beside $1 sleepers of $(($2 * $3)) MiB, which woke in ms: ${took[*]}")
        daemon_end
}
wake_noted() { wake "$1" > "$work/woken"; }

[ ! -e /sys/module/nvidia/version ] || { uname -a; nvidia-smi; free -g; date -u; } >> "$log" 2>&1
gcc -O2 tests/gpu/trained.c -o "$work/trained" -ldl || cp "$build/tests/gpu/gpu-trained" "$work/trained"
gcc -O2 tests/gpu/swapped.c -o "$work/swapped" -ldl || cp "$build/tests/gpu/gpu-swapped" "$work/swapped"
declare -A at=() feed_of=()
feeds=() names=() alone=0 all=0
read -ra busy <<< "${BUSY:-64 64}"
read -ra asleep <<< "${SLEEPERS:-20 4 1024}"
[ "$many" = 0 ] || turns
[ "${asleep[0]}" = 0 ] || sleepers "${asleep[@]}"
say "1..$n"
say "$((n - failed)) passed, $failed failed"
for row in "${table[@]}"; do say "# $row"; done
[ $failed = 0 ]
