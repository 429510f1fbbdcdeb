#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs see when something goes wrong on the device, or takes long, natively and as a tenant: it must be the
# same (errors.c). On a machine with a device, gcc and the CUDA headers; at most 200 s. A table at the end.
#
#       [OUT=DIR] [CASES="address ..."] tests/gpu/errors.sh [BUILD]
#
# Exit status 0 if each case ends alike both ways.
set -u
cd "$(dirname "$0")/../.." || exit 1
sublet=$(realpath "${1:-build}/src/sublet") || exit 1
out=${OUT:-/tmp/sublet-errors} cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$out"
[ -e /sys/module/nvidia/version ] || { echo "errors.sh: no device here: the simulator runs no code"; exit 0; }
echo "# machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), $(date -u +%F)"
gcc -O2 -I"$cuda/include" tests/gpu/errors.c -o "$out/errors" -L"$cuda/lib64/stubs" -lcuda || exit 1

# once WAY CASE COMMAND...: what it printed, without the times, into $out/WAY.CASE
once() {
        local way=$1 name=$2
        shift 2
        timeout -k 5 120 "$@" "$out/errors" "$name" > "$out/$way.$name.raw" 2> "$out/$way.$name.err" < /dev/null
        echo "exit=$?" >> "$out/$way.$name.raw"
        tr '\n' ' ' < "$out/$way.$name.raw" | sed -E 's/ [a-z]+_ms=[0-9.]+//g' > "$out/$way.$name"
}
as_tenant() {
        local options=() all=compute,utility,profile
        [ "$1" != dumped ] || options=(--no-daemon --capabilities "$all")
        once tenant "$1" "$sublet" run --mem 8G "${options[@]}" --
}

# The long one goes beside all others.
cases=${CASES:-$("$out/errors" list)}
if [[ $cases = *wait_minute* ]]; then
        once native wait_minute &
        as_tenant wait_minute &
fi
failed=0
for name in $cases; do
        [ "$name" = wait_minute ] && continue
        once native "$name"
        as_tenant "$name"
done
wait
for name in $cases; do
        verdict=same
        cmp -s "$out/native.$name" "$out/tenant.$name" || { verdict=DIFFERS; failed=1; }
        printf '%-24s %-8s %s\n' "$name" "$verdict" "$(tr '\n' ' ' < "$out/native.$name.raw")"
        [ $verdict = same ] || printf '%-24s %-8s %s\n' '' tenant "$(tr '\n' ' ' < "$out/tenant.$name.raw")"
        grep '^sublet:' "$out/tenant.$name.err" | sed 's/^/#    /'
done
echo "# $SECONDS s"
exit $failed
