#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether memory of a CUDA program can be moved off the device and back by plain driver calls, and how fast: movefacts.c
# on a machine with a device, its parts each under a limit of time. Needs gcc, the CUDA driver headers, root, and for
# the large parts 45 GiB of host memory; about 3 min. Raw output in ${OUT:-/tmp/sublet-gpu}/movefacts.log.
#
#       tests/gpu/movefacts.sh [SMALL]          SMALL: sizes for a machine without a device (1 MiB pieces)
#
# ENGINES="11 12" names the copy engines of the moves. PROGRAM names a program that is built already.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/sublet-gpu}
mkdir -p "$out"
log=$out/movefacts.log
: > "$log"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=${PROGRAM:-$work/movefacts}
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ ! -x "$program" ]; then
        gcc -O2 -std=gnu17 -rdynamic -I"$cuda/include" tests/gpu/movefacts.c tests/gpu/ce.c tests/hostile/kit.c \
                -o "$program" -L"$cuda/lib64/stubs" -L"$cuda/targets/x86_64-linux/lib/stubs" -lcuda -lpthread -ldl ||
                exit 1
fi

step() { # LIMIT NAME ARGUMENT...
        local limit=$1
        shift
        echo "== $*" | tee -a "$log"
        timeout -k 3 "$limit" "$program" "$@" 2>&1 | tee -a "$log"
        echo "   exit ${PIPESTATUS[0]}" | tee -a "$log"
}

if [ "${1:-}" ]; then
        one=(1) large=(4 1) many=(20 1) check=1
else
        cat /proc/driver/nvidia/version | tee -a "$log"
        nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee -a "$log"
        free -g | tee -a "$log"
        grep -i huge /proc/meminfo | tee -a "$log"
        one=(1024) large=(40 1024) many=(10000 2) check=8192
fi
step 30 copy "${one[0]}"
step 30 own 4 "$((one[0] / 4 + 1))"
step 30 all 2 "$((one[0] / 4 + 1))"
step 30 foreign 2 "$((one[0] / 16 + 1))"
step 30 multi 2 "$((one[0] / 16 + 1))"
step 60 own "${large[@]}"
ENGINES=${ENGINES:-"11 12"} step 60 own "${large[@]}"
step 60 own "${many[@]}"
step 45 checkpoint "$check"
step 30 switch

echo '== in short'
grep -E '^==|engine|together|status=|refused=[1-9]|copy (in|out)|suspend|resume|look after|cuCheck|exit' "$log"
