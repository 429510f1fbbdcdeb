#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tenant with memory is suspended and resumed by the driver's checkpoint: what it held leaves the device, comes back
# as it was, and how long that takes. TAP on stdout, the log in ${OUT:-/tmp/sublet-suspend}; on the simulator where
# there is no device.
#
#       tests/gpu/suspend.sh [BUILD]              about 2 minutes; MIB=4096, TIMES=3
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") || exit 1
sublet=$build/src/sublet
if [ -z "${SUBLET_SIM:-}" ] && [ ! -e /sys/module/nvidia/version ]; then
        exec "$sublet" sim --memory 16G -- "$0" "$@"
fi
mib=${MIB:-4096}
out=${OUT:-/tmp/sublet-suspend}
mkdir -p "$out"
log=$out/suspend.log
: > "$log"
work=$(mktemp -d)
export SUBLET_DIR=$work/node
mkdir -p "$SUBLET_DIR"
n=0 failed=0 daemon='' tenant=''

finish() {
        "$sublet" end kept > /dev/null 2>&1
        [ -z "$tenant" ] || wait "$tenant" 2> /dev/null
        [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT
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
                sleep 0.1
        done
}
rounds() { grep -c '^round' "$work/kept"; }
has_more_than() { [ "$(rounds)" -gt "$1" ]; }
has_no_other() { ! grep -vE '^(ready|round [0-9]+)$' "$work/kept"; }
held() { "$sublet" ps --json | grep -o '"held_bytes": *[0-9]*' | head -1 | grep -o '[0-9]*$'; }
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 2> /dev/null || echo '?'; }
is_empty() { [ -z "$("$sublet" ps -q)" ]; }
is_less() { [ "$1" -lt "$2" ]; }
# timed VERB: the seconds that it took are in $took
timed() {
        local began
        began=$(date +%s.%N)
        "$sublet" "$1" kept >> "$log" 2>&1
        code=$?
        took=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
        return "$code"
}

[ ! -e /sys/module/nvidia/version ] || { uname -a; nvidia-smi; date -u; } >> "$log" 2>&1
gcc -O2 tests/gpu/kept.c -o "$work/kept-program" -ldl || cp "$build/tests/gpu/gpu-kept" "$work/kept-program"
"$sublet" daemon --dir "$SUBLET_DIR" --suspend-by checkpoint >> "$log" 2>&1 < /dev/null &
daemon=$!
check "a daemon serves" until_is 30 "$sublet" ps -q
"$sublet" run -q --name kept --mem $((mib + 3072))M -- "$work/kept-program" "$mib" > "$work/kept" 2>> "$log" < /dev/null &
tenant=$!
check "a tenant holds $mib MiB and reads them" until_is 120 has_more_than 0

for ((time = 1; time <= ${TIMES:-3}; time++)); do
        full=$(held)
        say "# held $((full >> 20)) MiB, device $(used) MiB"
        check "suspend $time" timed suspend
        say "# suspend took $took s: held $(($(held) >> 20)) MiB, device $(used) MiB"
        check "what it held has left the device ($time)" is_less "$(($(held) + (mib << 20) / 2))" "$full"
        before=$(rounds)
        sleep 1
        check "it waits ($time)" [ "$(rounds)" -le $((before + 1)) ]
        check "resume $time" timed resume
        say "# resume took $took s: held $(($(held) >> 20)) MiB, device $(used) MiB"
        check "it goes on ($time)" until_is 60 has_more_than "$((before + 2))"
        check "every byte is as it was ($time)" has_no_other
done
"$sublet" events >> "$log"
tail -3 "$work/kept" >> "$log"
say "# $("$sublet" events | grep -cE 'UNKNOWN_|AUDIT_|BOOKS_') events that should not be (in $log)"
check "suspend and end" timed suspend
"$sublet" end kept >> "$log" 2>&1
wait "$tenant" 2>> "$log"
tenant=''
check "nothing of it is left" until_is 30 is_empty
say "1..$n"
say "$((n - failed)) passed, $failed failed"
[ $failed = 0 ]
