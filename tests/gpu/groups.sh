#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On which engine channel groups run, and what switching their channels costs and does: tests/gpu/groups.c on a
# machine with a device, its parts each under a limit of time. Needs gcc and the CUDA driver headers; about 80 s.
#
#       tests/gpu/groups.sh [PATH-OF-GPU-METER]         the meter's program (build/tests/gpu/gpu-meter), for the records
set -u
cd "$(dirname "$0")/../.." || exit 1
meter=${1:-build/tests/gpu/gpu-meter}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cuda=${CUDA_HOME:-/usr/local/cuda}
gcc -O2 -std=gnu17 -rdynamic -I"$cuda/include" tests/gpu/groups.c tests/hostile/kit.c -o "$work/groups" \
        -L"$cuda/lib64/stubs" -L"$cuda/targets/x86_64-linux/lib/stubs" -lcuda -lpthread -ldl || exit 1
groups() { timeout -k 2 "${limit:-8}" "$work/groups" "$@" || echo "exit $?"; }

cat /proc/driver/nvidia/version
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
echo '== engines'
groups engines
echo '== ordinary'
groups ordinary
echo '== groups that say another engine'
for engine in 1 9 10 11 12 13 14 18 19 34 38 43 51; do groups says $engine; done
echo '== what the meter sees of them'
if [ -x "$meter" ]; then
        groups work kernels 4 > /dev/null &
        sleep 0.2
        GROUPS_SAY=9 groups work kernels 4 > /dev/null &
        GROUPS_SAY=11 groups work kernels 4 > /dev/null &
        sleep 1
        pgrep -x groups | tr '\n' ' '
        timeout -k 2 6 "$meter" 1.5 | grep -E 'pid|records'
        wait
fi
echo '== switching'
limit=25 groups switch
echo '== beside others: alone, then beside one that goes off and on'
groups work kernels 1.5
groups work copies 1.5
for toggle in compute all; do
        for what in kernels copies; do
                groups work both 3 $toggle > "$work/toggled" &
                sleep 0.7
                groups work $what 1.5
                wait
                sed 's/^/    beside: /' "$work/toggled"
        done
done
