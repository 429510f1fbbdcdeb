#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the driver takes of a device's memory beside what it is asked for (tests/gpu/ownmem). Needs an NVIDIA GPU that
# nobody else uses, gcc and the CUDA driver headers. Each part for 20 s at most. The output is also in
# ${OUT:-/tmp/sublet-gpu}/ownmem.txt.
#
#       tests/gpu/ownmem.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/sublet-gpu}
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$out"
all=$out/ownmem.txt
program=$(mktemp)
trap 'rm -f "$program"' EXIT
gcc -O2 -std=gnu17 -rdynamic -Itests/hostile -I"$cuda/include" tests/gpu/ownmem/*.c tests/hostile/kit.c -o "$program" \
        -L"$cuda/lib64/stubs" -L"$cuda/targets/x86_64-linux/lib/stubs" -lcuda -ldl -lpthread || exit 1
{ date -u; nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader; } > "$all"
for part in calls groups objects ranges; do
        echo "# $part" >> "$all"
        QUOTA_MIB=1024 timeout -k 2 20 "$program" $part >> "$all" 2>&1 < /dev/null
        echo "# $part: status $?" >> "$all"
done
cat "$all"
