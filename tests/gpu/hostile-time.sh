#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The attacks on time (tests/hostile/time_*.c) on a real GPU: each beside an honest tenant with a share of 70, or what
# share_beside says, which must do that much of what it does alone, less two points. First without a daemon, where each
# must leave it five points less than its share: the positive control. An attack that the driver itself refuses has
# none, and is skipped. Needs an NVIDIA GPU that nobody else uses, gcc, the CUDA driver headers, root. TAP on stdout,
# raw output in ${OUT:-/tmp/sublet-gpu}/hostile-time.log.
#
#       tests/gpu/hostile-time.sh [PATH-OF-SUBLET] [ATTACK...]      about 18 s for each attack
set -u
cd "$(dirname "$0")/../.." || exit 1
sublet=$(realpath "${1:-build/src/sublet}") || exit 1
shift
out=${OUT:-/tmp/sublet-gpu}
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; rm -rf "$work"' EXIT
mkdir -p "$out"
log=$out/hostile-time.log
: > "$log"
n=0 failed=0 skipped=0 table=()
cuda=${CUDA_HOME:-/usr/local/cuda}
include=$cuda/include
stubs="-L$cuda/lib64/stubs -L$cuda/targets/x86_64-linux/lib/stubs"

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM CONDITION
        n=$((n + 1))
        if [ "$2" ]; then say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}

# share_beside ATTACK: the honest one's share in %, far above what it has without a daemon. Contexts that live for a
# moment mostly wait for each other's making: on an H200 they left 686 permille, nothing that a share of 30 could stop.
share_beside() { case $1 in time_born_off) echo 90 ;; *) echo 70 ;; esac; }

# Who only says that it computes takes nothing without a daemon: it has no control there.
takes_nothing() { [ "$1" = time_waits ]; }

attacks=("$@")
[ ${#attacks[@]} -gt 0 ] || mapfile -t attacks < <(for f in tests/hostile/time_*.c; do basename "$f" .c; done)
# shellcheck disable=SC2086  # a list of flags
gcc -O2 -I"$include" tests/gpu/load.c -o "$work/load" $stubs -lcuda -lm || exit 1
for attack in "${attacks[@]}"; do
        # shellcheck disable=SC2086  # a list of flags
        gcc -O2 -rdynamic -I"$include" "tests/hostile/$attack.c" tests/hostile/kit.c tests/hostile/kit_time.c \
                -o "$work/$attack" $stubs -lcuda -lpthread -ldl || exit 1
done

# honest COMMAND...: permille of the device by its own log, in $done
honest() {
        timeout -s KILL 20 "$@" "$work/load" -t 6 deep > "$work/honest" 2>> "$log"
        cat "$work/honest" >> "$log"
        done=$(awk '/^name=/ { for (i = 1; i <= NF; i++) { split($i, w, "="); v[w[1]] = w[2] }
                               printf "%d", v["pieces"] * v["piece_us"] / v["seconds"] / 1000 }' "$work/honest")
        done=${done:-0}
}

# beside ATTACK COMMAND...: what the honest program does beside it; the COMMAND's words before each program
beside() {
        local attack=$1 share
        share=$(share_beside "$1")
        shift
        mkfifo "$work/in"
        timeout -s KILL 40 "$@" ${1:+--name attacker --share $((100 - share)) --} "$work/$attack" < "$work/in" > "$work/said" 2>&1 &
        exec 7> "$work/in"
        for ((i = 0; i < 100; i++)); do ! grep -qE '^(computing|cannot)' "$work/said" || break; sleep 0.1; done
        honest "$@" ${1:+--name honest --share "$share" --}
        exec 7>&-
        wait $!
        sed "s/^/# $attack: /" "$work/said" >> "$log"
        rm -f "$work/in"
}

honest env
alone=$done
say "# alone: $alone permille of the device, as load counts"
declare -A native cannot
for attack in "${attacks[@]}"; do
        beside "$attack"
        native[$attack]=$((done * 1000 / alone))
        cannot[$attack]=$(sed -n 's/^cannot=//p' "$work/said")
done

export SUBLET_DIR=$work/node
mkdir -p "$SUBLET_DIR"
"$sublet" daemon --dir "$SUBLET_DIR" >> "$log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ -S "$SUBLET_DIR/tenant.sock" ] && break; sleep 0.02; done
check 'the daemon is there' "$([ -S "$SUBLET_DIR/tenant.sock" ] && echo y)"
for attack in "${attacks[@]}"; do
        if [ "${cannot[$attack]}" ]; then
                n=$((n + 1)) skipped=$((skipped + 1))
                say "ok $n - $attack # SKIP without a control: ${cannot[$attack]}"
                continue
        fi
        beside "$attack" "$sublet" run -q --mem 8G
        of_alone=$((done * 1000 / alone)) due=$(($(share_beside "$attack") * 10))
        check "$attack: the honest tenant has its share of $due ($of_alone permille; without a daemon ${native[$attack]})" \
                "$([ $of_alone -ge $((due - 20)) ] && { takes_nothing "$attack" || [ "${native[$attack]}" -lt $((due - 50)) ]; } && echo y)"
        table+=("$(printf '%-24s %9s %9s' "$attack" "${native[$attack]}" $of_alone)")
done
say "$(printf '%-24s %9s %9s' 'honest beside' 'no daemon' 'tenant')"
for row in "${table[@]}"; do say "$row"; done
say "1..$n"
say "$((n - failed - skipped)) passed, $skipped skipped, $failed failed"
[ $failed -eq 0 ]
