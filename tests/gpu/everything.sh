#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that runs on a device, natively and as a tenant: a matrix of programs, with the result of each, its rate,
# and what the gate refused. On a machine with a device; at most seven minutes. On the simulator the rows whose
# libraries are not at hand say so, and the rest runs.
#
#       [OUT=DIR] [ROWS=REGEX] [QUOTA=24G] [ROUNDS=3] [LIMIT=400] tests/gpu/everything.sh [SUBLET]
#       tests/gpu/everything.sh kit DIR
#
# The second form builds, on a machine with Debian's packages libvulkan-dev, libegl-dev, libgles-dev,
# libffmpeg-nvenc-dev and ffmpeg, what a machine with a device seldom can: the programs video, vulkan and gles, and two
# streams of 240 pictures of 1080p. They belong into the folder of SUBLET.
#
# Leaves $OUT/everything.tar.gz (raw output of each row, reports) and $OUT/everything.txt (the table). Exit status 0 if
# every row at hand gives the same result and at least 97 % of the native rate.
set -u
here=$(cd "$(dirname "$0")" && pwd)

kit() {
        local flags="-O2 -std=gnu17"
        mkdir -p "$1"
        # shellcheck disable=SC2086  # a list of flags
        gcc $flags "$here/video.c" -o "$1/video" -ldl && gcc $flags "$here/vulkan.c" -o "$1/vulkan" -lvulkan -ldl &&
                gcc $flags "$here/gles.c" -o "$1/gles" -lEGL -lGLESv2 -ldl || return
        [ -e "$1/t.h264" ] && [ -e "$1/t.hevc" ] && return
        local picture="testsrc2=size=1920x1080:rate=30:duration=8"
        ffmpeg -v error -y -f lavfi -i "$picture" -pix_fmt yuv420p -c:v libx264 -preset veryfast -crf 40 -bf 2 -g 60 \
                -f h264 "$1/t.h264" &&
                ffmpeg -v error -y -f lavfi -i "$picture" -pix_fmt yuv420p -c:v libx265 -preset ultrafast -crf 42 \
                        -x265-params log-level=error -f hevc "$1/t.hevc"
}

if [ "${1:-}" = kit ]; then
        kit "${2:?a folder}"
        exit
fi
sublet=$(readlink -f "${1:-$here/../../build/src/sublet}")
OUT=${OUT:-/tmp/sublet-everything}
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$work/bin raw=$work/raw
mkdir -p "$OUT" "$bin" "$raw"

# The loaders of Vulkan and EGL, where the machine has none but the tree brings packages.
if ! ldconfig -p | grep -q libvulkan.so.1; then
        for f in "$here"/../../.gl/*.deb; do
                # dpkg -x would put a folder in the place of a link such as /lib
                [ -e "$f" ] && dpkg --fsys-tarfile "$f" | tar -x --keep-directory-symlink -C / 2> /dev/null
        done
        ldconfig 2> /dev/null
fi
if [ -d /usr/local/nvidia/share/vulkan/icd.d ]; then
        export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
        export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
fi

for f in video vulkan gles t.h264 t.hevc; do
        [ -e "$(dirname "$sublet")/$f" ] && cp "$(dirname "$sublet")/$f" "$bin/"
done
[ -e "$bin/vulkan" ] && [ -e "$bin/t.hevc" ] || kit "$bin" > "$raw/kit.log" 2>&1

# build NAME HEADER COMMAND...: a program whose header is not here is a row that is not at hand.
build() {
        local name=$1 header=$2
        shift 2
        [ -z "$header" ] || [ -e "$cuda/include/$header" ] || [ -e "$header" ] || return
        "$@" -o "$bin/$name" > "$raw/build-$name.log" 2>&1 || echo "everything: $name does not build: $(head -1 "$raw/build-$name.log")"
}
python=$(python3 -c 'import site; print(site.getsitepackages()[0])' 2> /dev/null)
shmem=$python/nvidia/nvshmem
toolkit=(-O2 -std=gnu17 "-I$cuda/include" "-L$cuda/lib64" "-Wl,-rpath,$cuda/lib64")
cupti=$cuda/extras/CUPTI
{
        simulated=$here/../../include/sublet/sim
        if [ -n "${SUBLET_SIM:-}" ]; then
                build families "" gcc -O2 -std=gnu17 "-I$simulated" "$here/families.c" "-L$(dirname "$sublet")/sim/cuda" -l:libcuda.so.1 &
        else
                build families "" gcc -O2 -std=gnu17 "-I$cuda/include" "$here/families.c" "-L$cuda/lib64/stubs" -lcuda &
        fi
        build jpeg nvjpeg.h gcc "${toolkit[@]}" "$here/everything/jpeg.c" -lnvjpeg -lcudart &
        build pictures npp.h gcc "${toolkit[@]}" "$here/everything/pictures.c" -lnppicc -lnppig -lnppc -lcudart &
        build activity "$cupti/include/cupti.h" gcc "${toolkit[@]}" "-I$cupti/include" "-L$cupti/lib64" \
                "-Wl,-rpath,$cupti/lib64" "$here/everything/activity.c" -lcupti -lcudart &
        build file cufile.h gcc "${toolkit[@]}" "$here/everything/file.c" -lcufile -lcudart &
        build shmem "$shmem/include/nvshmem.h" nvcc -O2 -arch=sm_90 -rdc=true "-I$shmem/include" \
                "$here/everything/shmem.cu" "-L$shmem/lib" -Xlinker "-rpath=$shmem/lib" -lnvshmem_device \
                -l:libnvshmem_host.so.3 &
        wait
        uname -r
        nvidia-smi -L
        ldconfig -p | grep -E 'nvidia|nvcuvid|cuda|nvoptix|vulkan|libEGL|libGL' | awk '{print $NF}'
        ls -la /dev/nvidia* /dev/dri /dev/nvidia-caps
        ls "$bin"
} > "$raw/machine.txt" 2>&1

grep '^everything:' "$raw/machine.txt"
timeout -k 5 $((${LIMIT:-400} + 100)) python3 "$here/everything/matrix.py" "$sublet" "$bin" "$raw" 2>&1 |
        tee "$OUT/everything.txt"
status=${PIPESTATUS[0]}
tar -C "$work" -czf "$OUT/everything.tar.gz" raw
echo "raw output: $OUT/everything.tar.gz ($(stat -c %s "$OUT/everything.tar.gz") bytes), seconds=$SECONDS"
exit "$status"
