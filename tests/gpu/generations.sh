#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model that is suspended between two generations, and programs that take turns with a device's memory, each beside
# what users have today. TAP on stdout, a table last, the log in ${OUT:-/tmp/sublet-generations}.
#
#       tests/gpu/generations.sh [BUILD]          about 200 s; each of its PARTS about 100 s
#
# PARTS="model managed". model: a 7 B Llama in bf16 with random weights (replica.py), 40 GB with its caches, generates a
# text, is suspended, and generates another one: resumed before it, and woken by the request itself. Its texts and the
# hash of all its memory are those of one that was never suspended, natively. Then the same process by the driver's
# checkpoint. Needs PyTorch; without it, and on the simulator, a program that reads its tokens from device memory stands
# in. MODEL="768 32 14336": cached blocks, layers, inner size; MEM=44G; WORDS=64: MiB of the stand-in; TOKENS=48 of a
# text; ROUNDS=2; CHECKPOINTS=1 (0: none); SWAP=64G.
#
# managed: two training runs that the device would hold together, but for a lease beside them, as tenants with --swap;
# then natively with managed memory, which a lock lets in by turns as long as those of the tenants were, as a library
# for that does it: moved out at the end of a turn, and in by the kernels that touch it, or by prefetch. All together
# are never more than what the device has free, because more than that may hang a device.
# PAIR="64 224": MiB and batches of each; PAIR_MEM=17G; COST=20: per cent of a turn that moving may take;
# SECONDS_EACH=24 of the tenants, half of that of managed memory; SWAP_PAIR=40G.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
if [ -z "${SUBLET_SIM:-}" ] && [ ! -e /sys/module/nvidia/version ]; then
        MEM=${MEM:-2G} SWAP=${SWAP:-2G} WORDS=${WORDS:-16} PAIR=${PAIR:-4 16} PAIR_MEM=${PAIR_MEM:-1500M} SWAP_PAIR=${SWAP_PAIR:-3G} \
                SECONDS_EACH=${SECONDS_EACH:-4} exec "$sublet" sim --memory 3G -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-generations}
mkdir -p "$out"
log=$out/generations.log
: > "$log"
work=$(mktemp -d)
export SUBLET_DIR=$work # no other daemon of this machine is asked for anything
n=0 failed=0 daemon='' running=() feeds=() table=() started=$SECONDS

node_end() {
        "$sublet" ps -q 2> /dev/null | xargs -r "$sublet" end > /dev/null 2>&1
        [ ${#running[@]} = 0 ] || { kill "${running[@]}"; wait "${running[@]}"; } 2> /dev/null
        [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2> /dev/null
        daemon='' running=()
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
skip() { # CLAIM WHY
        n=$((n + 1))
        say "ok $n - $1 # SKIP $2"
}
until_is() { # SECONDS COMMAND...
        local end=$((SECONDS + $1))
        shift
        until "$@" > /dev/null 2>&1; do
                [ "$SECONDS" -lt "$end" ] || return 1
                sleep 0.05
        done
}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }                      # BEGAN
is_at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'; }       # VALUE MOST
is_same() { [ -n "$1" ] && [ "$1" = "$2" ]; }                                                  # TEXT TEXT
aim() { [ -n "${SUBLET_SIM:-}" ] || check "aim: $1" "${@:2}"; } # the simulator's copies say nothing about time
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 2> /dev/null || echo '?'; }
daemon_begin() { # OPTION...
        "$sublet" daemon --dir "$SUBLET_DIR" "$@" >> "$log" 2>&1 < /dev/null &
        daemon=$!
        until_is 30 "$sublet" ps -q
}
node_begin() { # NAME OPTION...
        export SUBLET_DIR=$work/$1
        mkdir -p "$SUBLET_DIR"
        daemon_begin "${@:2}"
}
has_state() { [ "$("$sublet" ps --json | grep -o '"state": *"[a-z]*"' | head -1 | grep -o '[a-z]*"$')" = "$1\"" ]; }
has_no_bad() { "$sublet" ps -q > /dev/null && ! "$sublet" events | grep -E 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST|ROOM_NOT_MADE'; }

# ---- a model between two generations ----

held() { "$sublet" ps --json | sed -n 's/^    "held_bytes": *\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { printf "%d\n", sum / 1048576 }'; } # MiB
kept_mib() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$("$sublet" ps --json | grep -o '"keeper": *[0-9]*' | grep -o '[0-9]*$')/status"; }
is_ready() { [ "$(kept_mib)" -ge "$1" ]; }
ask() { curl -sS --max-time 120 --unix-socket "$work/$1.sock" "http://replica/$2" "${@:3}" 2>> "$log"; } # SOCKET PATH
sums() { ask "$1" replica/sums | grep -o '"sums": *"[^"]*"'; }
prompt() { awk -v which="$1" 'BEGIN { for (i = 0; i < 400; i++) printf "word %d of text %d, ", (i * 7919 + which) % 1000, which }'; }
generate() { # SOCKET WHICH: the text is in $text, the seconds to its first token in $first
        printf '{"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}' "${TOKENS:-48}" "$(prompt "$2")" > "$work/request"
        first=$(ask "$1" v1/chat/completions -N -d "@$work/request" -o "$work/answer" -w '%{http_code} %{time_starttransfer}')
        [ "${first% *}" = 200 ] || return 1
        first=$(printf '%.3f' "${first#* }")
        text=$(grep -o '"content": *"[^"]*"' "$work/answer" | sed 's/.*: *"//; s/"$//' | tr -d '\n')
        [ "$(wc -w <<< "$text")" = "${TOKENS:-48}" ]
}
replica() { # SOCKET BLOCKS: the command, in $command
        command=(python3 tests/gpu/replica.py --listen "$work/$1.sock")
        if [ "$is_torch" ]; then
                command+=(--blocks "$2" --layers "${model[1]}" --inner "${model[2]}")
        else
                command+=(--words "${WORDS:-64}")
        fi
}
is_up() { [ -S "$work/$1.sock" ]; }
timed() { # VERB: its seconds in $took, what its event says in $said
        local began code
        began=$(now)
        "$sublet" "$1" model >> "$log" 2>&1
        code=$?
        took=$(since "$began")
        said=$("$sublet" events | grep -E 'SUSPEND|RESUME' | tail -1 | sed 's/^.*; copies/copies/; t; s/.*//')
        return "$code"
}
put_out() { # WAY ROUND
        local full
        full=$(held)
        check "$1: suspend ($2)" timed suspend
        out_took=$took out_said=${said#copies: } left=$(held) on_device=$(used)
        check "$1: what it held has left the device ($2: $left of $full MiB stay by the books, $on_device by the device)" \
                [ $((full - left)) -ge "$([ "$is_torch" ] && echo $((full * 9 / 10)) || echo "${WORDS:-64}")" ]
        [ "$1" != copies ] || aim "at most 600 MiB stay by the device ($on_device MiB, $2)" is_at_most "$on_device" 600
        [ "$1" != copies ] || aim "out in at most 1.0 s ($out_took s, $2)" is_at_most "$out_took" 1.0
}
is_as_ever() { # WAY ROUND: the second text, and all memory
        check "$1: a text is generated after it ($2)" generate model 2
        check "$1: it is that of one that was never suspended ($2)" is_same "$text" "$second"
}
memory_is_as_ever() { check "$1: all that it has on the device is as it was ($2)" is_same "$(sums model)" "$whole"; } # WAY ROUND
before_it() { # WAY ROUND: from the same state each time
        ask model replica/forget -X POST > /dev/null
        check "$1: a text is generated before it ($2)" generate model 1
        check "$1: it is that of one that was never suspended ($2)" is_same "$text" "$one"
        awake=$first
        whole=$(sums model)
}
row() { table+=("$(printf '%-11s %-22s %8s %8s %8s %9s %9s  %s | %s' "$1" "$2" "$out_took" "${3:-$took}" "$left" "$on_device" "$first" "$out_said" "${said#copies: }")"); } # WAY HOW [BACK]
resumed() { # WAY ROUND
        before_it "$1" "$2"
        put_out "$1" "$2"
        check "$1: resume ($2)" timed resume
        [ "$1" != copies ] || aim "back in at most 1.0 s ($took s, $2)" is_at_most "$took" 1.0
        memory_is_as_ever "$1" "$2"
        is_as_ever "$1" "$2"
        row "$1" "resumed"
}
woken() { # ROUND
        before_it copies "$1"
        put_out copies "$1"
        check "copies: it stays out while nobody asks for anything ($1)" stays_out
        is_as_ever copies "$1"
        check "copies: it is awake ($1)" has_state running
        said=$("$sublet" events | grep RESUMED | tail -1 | sed 's/^.*; copies/copies/; t; s/.*//')
        check "copies: by itself, for what it asked for ($1)" was_not_asked
        aim "the first token of a request to it at most 1.5 s from its arrival ($first s, $1)" is_at_most "$first" 1.5
        row copies "woken by the request" -
}
was_not_asked() { "$sublet" events | grep RESUMED | tail -1 | grep -v 'by user'; }
stays_out() { sleep 1; has_state suspended; }

model_part() {
        local round reference began mib
        node_begin model --suspend-by copies --swap "${SWAP:-64G}"
        replica reference 16
        "${command[@]}" >> "$out/replicas.log" 2>&1 &
        reference=$! running+=($!)
        replica model "${model[0]}"
        began=$(now)
        "$sublet" run -q --gpu 0 --name model --sleep-after 30m --mem "${MEM:-44G}" -- "${command[@]}" >> "$out/replicas.log" 2>&1 < /dev/null &
        running+=($!)
        check "one that is never suspended is up, natively" until_is 100 is_up reference
        check "a tenant is up" until_is 100 is_up model
        say "# both after $(since "$began") s; $what"
        check "one that is never suspended generates a text" generate reference 1
        one=$text
        check "and another one, which differs" generate reference 2
        second=$text
        check "the texts differ from each other" [ "$one" != "$second" ]
        kill "$reference" && wait "$reference" 2> /dev/null
        mib=$(held) began=$(now)
        check "host memory for it is made ready" until_is 60 is_ready "$((mib * 9 / 10))"
        say "# the tenant holds $mib MiB; after $(since "$began") s $(kept_mib) MiB were ready"
        for ((round = 1; round <= ${ROUNDS:-2}; round++)); do resumed copies "$round"; done
        woken 1
        for ((round = 1; round <= ${CHECKPOINTS:-1}; round++)); do
                # another daemon finds the same process
                [ "$round" != 1 ] || { kill "$daemon"; wait "$daemon"; daemon_begin --suspend-by checkpoint; } 2> /dev/null
                resumed checkpoint "$round"
        done
        check "nothing happened that should not" has_no_bad
        "$sublet" events >> "$log"
        node_end
}

# ---- by turns, and managed memory by turns ----

steps() { grep '^step ' "$work/$1" | tail -1 | cut -d' ' -f2 | grep . || echo 0; } # NAME
is_further() { [ "$(steps "$1")" -gt "$2" ]; } # NAME THAN
left() { "$sublet" events | grep -c ' SUSPENDED'; }
came_back() { "$sublet" events | awk -v name=" $1: " 'index($0, name "SUSPENDED") { left = 1 } index($0, name "RESUMED") && left { back = 1 } END { exit !back }'; } # NAME
begin() { # NAME COMMAND...: it works until its input ends
        mkfifo "$work/$1.feed"
        # shellcheck disable=SC2094
        "${@:2}" < "$work/$1.feed" > "$work/$1" 2>> "$log" &
        running+=($!)
        exec {feed}> "$work/$1.feed"
        feeds+=("$feed")
}
all_end() {
        for feed in "${feeds[@]}"; do exec {feed}>&-; done
        [ ${#running[@]} = 0 ] || timeout 60 tail -q "${running[@]/#/--pid=}" -f /dev/null
        feeds=() running=()
}
done_in() { # SECONDS NAME...: thousandths of steps a second of all, in $rate; of each in $parts
        local at=() name before began
        began=$(now) parts='' rate=0
        for name in "${@:2}"; do at+=("$(steps "$name")"); done
        sleep "$1"
        for name in "${@:2}"; do
                before=${at[0]} at=("${at[@]:1}")
                parts+=" $(($(steps "$name") - before))"
        done
        rate=$(awk -v parts="$parts" -v s="$(since "$began")" 'BEGIN { k = split(parts, p, " "); for (i = 1; i <= k; i++) sum += p[i]; printf "%d", sum * 1000 / s }')
}
trained() { printf '%s\n' "$work/trained" "${pair[@]}" 0; }
of_alone() { awk -v a="$1" -v b="$alone" 'BEGIN { printf "%.3f", b ? a / b : 0 }'; } # RATE

alone() {
        begin alone "$work/trained" "${pair[@]}" 0
        check "one alone is at work, natively" until_is 60 is_further alone 0
        done_in $((seconds / 4 + 1)) alone
        alone=$rate
        all_end
        table+=("alone: $((alone / 1000)) steps/s")
}
by_turns() {
        local before device
        device=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2> /dev/null | head -n 1)
        node_begin pair --suspend-by copies --swap "${SWAP_PAIR:-40G}" --swap-cost "$cost%"
        # what it is promised, the two cannot have together
        begin beside "$sublet" run -q --gpu 0 --name beside --mem "$((${device:-3072} - mib_each * 3 / 2))M" -- cat
        begin one "$sublet" run -q --gpu 0 --name one --swap --mem "${mib_each}M" -- "$work/trained" "${pair[@]}" 0
        check "a tenant with --swap is at work" until_is 60 is_further one 0
        begin other "$sublet" run -q --gpu 0 --name other --swap --mem "${mib_each}M" -- "$work/trained" "${pair[@]}" 0
        check "another one, for which there is no room beside it, comes in" until_is 60 is_further other 0
        for name in one other; do check "$name has left, and is back" until_is 60 came_back "$name"; done
        before=$(left)
        done_in "$seconds" one other
        turn=$(awk -v s="$seconds" -v k="$(($(left) - before))" 'BEGIN { t = k ? s / k : s; printf "%.1f", t < 0.5 ? 0.5 : t }')
        table+=("two tenants with --swap: $((rate / 1000)) steps/s, $(of_alone "$rate") of one alone; steps$parts; a turn each $turn s")
        ours=$rate
        aim "two tenants with --swap get done what moving leaves at a cost of ${cost}% ($(of_alone "$rate") of one alone)" \
                [ "$rate" -ge $((alone * (100 - cost) / 100)) ]
        check "nothing happened to them that should not" has_no_bad
        "$sublet" events >> "$log"
        all_end
        node_end
}
managed() { # HOW WORDS
        local i
        for i in 1 2; do
                begin "$1-$i" env TRAINED_MANAGED="$1" TRAINED_LOCK="$work/lock.$1" TRAINED_TURN="$turn" "$work/trained" "${pair[@]}" 0
        done
        for i in 1 2; do check "managed memory, $2: $i is at work" until_is 60 is_further "$1-$i" 0; done
        done_in $((seconds / 2)) "$1-1" "$1-2"
        table+=("managed memory by a lock, $2: $((rate / 1000)) steps/s, $(of_alone "$rate") of one alone; steps$parts; $(moves "$1")")
        all_end
}
moves() { cat "$work/$1-1" "$work/$1-2" | sed -n 's/^turn in=\([0-9]*\) out=\([0-9]*\)$/\1 \2/p' | awk '{ i += $1; o += $2 } END { if (NR) printf "%d turns, in %d ms, out %d ms on average", NR, i / NR, o / NR }'; } # HOW

managed_part() {
        local free
        mib_each=$((pair[0] * (pair[1] + 3) + 1024))
        [ -z "${PAIR_MEM:-}" ] || mib_each=$(numfmt --from=iec "$PAIR_MEM" --to-unit=Mi)
        alone
        by_turns
        free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i 0 2> /dev/null || echo 3072)
        if [ $((mib_each * 2)) -gt "$free" ]; then
                skip "managed memory by turns" "the device has $free MiB free, for two of $mib_each"
                return
        fi
        managed fault "in by the kernels that touch it"
        aim "tenants with --swap get more done ($ours of $rate)" [ "$ours" -gt "$rate" ]
        managed prefetch "in by prefetch"
        aim "and more than by prefetch ($ours of $rate)" [ "$ours" -gt "$rate" ]
}

[ ! -e /sys/module/nvidia/version ] || { uname -a; nvidia-smi; free -g; date -u; } >> "$log" 2>&1
gcc -O2 tests/gpu/trained.c -o "$work/trained" -ldl || cp "$build/tests/gpu/gpu-trained" "$work/trained"
read -ra model <<< "${MODEL:-768 32 14336}"
read -ra pair <<< "${PAIR:-64 224}"
seconds=${SECONDS_EACH:-24} cost=${COST:-20} is_torch='' alone=0 ours=0 turn=5
[ -n "${SUBLET_SIM:-}" ] || ! python3 -c 'import torch' 2>> "$log" || is_torch=y
what="a stand-in of ${WORDS:-64} MiB"
[ -z "$is_torch" ] || what="${model[*]}: blocks, layers, inner"
for part in ${PARTS:-model managed}; do
        declare -F "${part}_part" > /dev/null || { echo "generations.sh: PARTS has no '$part'" >&2; exit 2; }
        [ "$part$is_torch" != model ] || skip "the model of 7 B" "no PyTorch: a program that reads its tokens from device memory stands in"
        "${part}_part"
done
say "1..$n"
say "$((n - failed)) passed, $failed failed, in $((SECONDS - started)) s"
[[ " ${PARTS:-model managed} " != *" model "* ]] ||
        say "$(printf '# %-11s %-22s %8s %8s %8s %9s %9s  %s' way how 'out s' 'back s' 'left MiB' 'device' 'token s' "out | back; a token of one that is awake: ${awake:-?} s")"
for row in "${table[@]}"; do say "# $row"; done
[ $failed = 0 ]
