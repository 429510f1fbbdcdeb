#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What all programs of a device share, and whether one can take all of it (tests/gpu/sharedfacts.c): without a gate, on
# a device that nobody else uses. Needs gcc and the CUDA driver headers. Each part for 60 s at most, 5 min in all. The
# output is also in ${OUT:-/tmp/sublet-gpu}/sharedfacts.txt.
#
#       tests/gpu/sharedfacts.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/sublet-gpu}
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$out"
all=$out/sharedfacts.txt
program=$(mktemp)
trap 'rm -f "$program"' EXIT
gcc -O2 -std=gnu17 -rdynamic -Itests/hostile -I"$cuda/include" tests/gpu/sharedfacts.c tests/hostile/kit.c -o "$program" \
        -L"$cuda/lib64/stubs" -L"$cuda/targets/x86_64-linux/lib/stubs" -lcuda -ldl -lpthread || exit 1
{ date -u; nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader; } > "$all"
for part in windows offsets listens groups mappings; do
        echo "# $part" >> "$all"
        QUOTA_MIB=1024 timeout -k 2 60 "$program" "$part" >> "$all" 2>&1 < /dev/null
        echo "# $part: status $?" >> "$all"
done
cat "$all"
