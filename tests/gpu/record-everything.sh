#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Records what libraries beside CUDA say to the driver: video, pictures, graphics, profilers, figures; and runs the same
# programs as tenants, to see which still stop.
#
#       [ONLY=REGEX] tests/gpu/record-everything.sh [SUBLET]    on a machine with a GPU; about two minutes
#
# The programs video, vulkan and gles, and the streams t.h264 and t.hevc, lie beside SUBLET: they need headers which
# machines with a GPU seldom have. Leaves $OUT/everything.tar.gz (traces, outputs) and $OUT/everything.txt, and
# prints for each program the classes, controls and requests of the driver that rules.def and engines.def lack.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
OUT=${OUT:-/tmp/out}
sublet=${1:-$root/build/src/sublet}
sublet=$(readlink -f "$sublet")
kit=$(dirname "$sublet")
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
traces=$work/traces
mkdir -p "$OUT" "$traces"
gcc -O2 -shared -fPIC "$root/tools/record.c" -o "$work/record.so" -ldl || exit 1
gcc -O2 -std=gnu17 "$here/families.c" -I"$cuda/include" -L"$cuda/lib64/stubs" -lcuda -o "$work/families" || exit 1

{
        nvidia-smi -q -d MEMORY | head -12
        echo "== libraries of the driver"
        ldconfig -p | grep -E 'nvidia|nvcuvid|cuda|nvoptix|vulkan|libEGL|libGL' | awk '{print $NF}'
        ls /usr/local/nvidia /usr/local/nvidia/lib* /usr/local/nvidia/share/* 2>/dev/null
        echo "== nodes"
        ls -la /dev/nvidia* /dev/dri /dev/nvidia-caps 2>/dev/null
} > "$work/machine.txt" 2>&1

cat > "$work/jpeg.py" <<'END'
import sys
import time
import torch
import torchvision
torch.manual_seed(1)
y, x = torch.meshgrid(torch.arange(1080), torch.arange(1920), indexing="ij")
picture = torch.stack([(x + y) % 256, (x * 2) % 256, (y * 3) % 256]).to(torch.uint8)
data = [torchvision.io.encode_jpeg(picture, quality=80) for _ in range(32)]
out = torchvision.io.decode_jpeg(data, device="cuda")
print("jpeg_sum", int(sum(int(o.to(torch.int64).sum()) for o in out)))
torch.cuda.synchronize()
begin, n = time.perf_counter(), 0
while time.perf_counter() - begin < float(sys.argv[1]):
    torchvision.io.decode_jpeg(data, device="cuda")
    torch.cuda.synchronize()
    n += 32
print(f"jpeg_rate={n / (time.perf_counter() - begin):.0f}/s")
END
cat > "$work/profiled.py" <<'END'
import torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1024, 1024, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    (x @ x).sum().item()
print("kernels", sum(1 for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA))
END
cat > "$work/libraries.py" <<'END'
import torch
x = torch.randn(64, 64, 64, device="cuda")
print("fft", float(torch.fft.fftn(x).abs().sum()) > 0)
a = torch.randn(256, 256, device="cuda", dtype=torch.float64)
print("solve", bool(torch.allclose(a @ torch.linalg.solve(a, a), a, atol=1e-6)))
s = torch.eye(512, device="cuda").to_sparse_csr()
print("sparse", float((s @ torch.ones(512, 1, device="cuda")).sum()))
print("conv", float(torch.nn.functional.conv2d(torch.ones(1, 3, 64, 64, device="cuda"), torch.ones(8, 3, 3, 3, device="cuda")).sum()))
print("rand", float(torch.rand(1000, device="cuda").mean()) > 0)
END
cat > "$work/load.py" <<'END'
import ctypes
for name in ("libnvidia-encode.so.1", "libnvidia-opticalflow.so.1", "libnvoptix.so.1", "libnvidia-fbc.so.1",
             "libnvidia-ngx.so.1", "libnvidia-ml.so.1", "libnvidia-nvvm.so.4", "libnvidia-opencl.so.1", "libnvcuvid.so.1",
             "libcudadebugger.so.1", "libnvidia-ptxjitcompiler.so.1", "libvdpau_nvidia.so", "libnvidia-sandboxutils.so.1"):
    try:
        ctypes.CDLL(name)
        print("loads", name)
    except OSError as e:
        print("absent", name, str(e)[:60])
END
cat > "$work/encode.py" <<'END'
"""Opens an encoder session: what a device without encoders answers, and what the driver is asked for it."""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
encode = ctypes.CDLL("libnvidia-encode.so.1")
version = ctypes.c_uint32()
print("max version", encode.NvEncodeAPIGetMaxSupportedVersion(ctypes.byref(version)), hex(version.value))
api = 12
table = (ctypes.c_uint64 * 1000)()
ctypes.memmove(table, (ctypes.c_uint32 * 1)((api | (2 << 16) | (0x7 << 28))), 4)
print("create instance", encode.NvEncodeAPICreateInstance(table))
print("functions", sum(1 for f in table[1:60] if f))
END
cat > "$work/opencl.py" <<'END'
import ctypes
cl = ctypes.CDLL("libnvidia-opencl.so.1")
get = cl.clGetExtensionFunctionAddress
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))(get(b"clIcdGetPlatformIDsKHR"))
n = ctypes.c_uint()
platform = (ctypes.c_void_p * 4)()
print("platforms", f(4, platform, ctypes.byref(n)), n.value)
END
cat > "$work/nvml.py" <<'END'
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
names = [x for x in dir(n) if x.startswith("nvmlDeviceGet") and not x.startswith("nvmlDeviceGetHandle")]
good, bad = 0, []
for name in sorted(names):
    try:
        getattr(n, name)(h)
        good += 1
    except TypeError:
        pass
    except n.NVMLError as e:
        bad.append(f"{name}:{e.value}")
    except Exception as e:
        bad.append(f"{name}:{type(e).__name__}")
print("good", good)
print("refused", " ".join(bad))
END

export NCCL_NVLS_ENABLE=0
# both NAME SECONDS COMMAND...: recorded natively, then as a tenant of 12 GiB
both() {
        local name=$1 limit=$2 status
        shift 2
        [[ $name =~ ${ONLY:-.} ]] || return
        timeout -k 2 "$limit" env SUBLET_RECORD="$traces/$name" LD_PRELOAD="$work/record.so" "$@" > "$work/$name.out" 2>&1 < /dev/null
        status=$?
        echo "$name native status=$status: $(grep -v '^$' "$work/$name.out" | tail -2 | tr '\n' ' ' | cut -c1-200)"
        [ -x "$sublet" ] || return
        timeout -k 2 "$limit" "$sublet" run -v --mem 12G --capabilities "${CAPABILITIES:-all,profile}" -- \
                env SUBLET_RECORD="$traces/tenant-$name" LD_PRELOAD="$work/record.so" "$@" > "$work/$name.tenant" 2>&1 < /dev/null
        echo "$name tenant status=$?: $(grep -vE '^$|^sublet: |^=='  "$work/$name.tenant" | tail -2 | tr '\n' ' ' | cut -c1-200)"
        grep -E '^sublet: .*: [A-Z_]+: ' "$work/$name.tenant" | cut -c1-150 | sort | uniq -c | head -6
}
{
both start 20 "$work/families" start
both video-caps 20 "$kit/video" caps
both video-decoders 30 "$kit/video" decoders 64
both video-h264 20 "$kit/video" decode "$kit/t.h264" 1
both video-hevc 20 "$kit/video" decode "$kit/t.hevc" 1
both jpeg 40 python3 "$work/jpeg.py" 1
both vulkan-info 20 "$kit/vulkan" info
both vulkan-memory 20 "$kit/vulkan" memory 256 1024
both vulkan-images 20 "$kit/vulkan" images 512
both vulkan-sparse 20 "$kit/vulkan" sparse 256
both vulkan-export 20 "$kit/vulkan" export
both vulkan-clear 20 "$kit/vulkan" clear 0.5
both gles-draw 20 "$kit/gles" draw 0.5
both gles-memory 20 "$kit/gles" memory 512
both vulkan-sparse-free 30 "$kit/vulkan" sparse-free 1024
# What a tenant of 4 GiB gets, by pieces, pictures, textures, and by what is freed while it is mapped.
for what in "vulkan memory 64 16384" "vulkan memory 1 6144" "vulkan images 16384" "vulkan sparse 16384" \
            "vulkan sparse-free 16384" "gles memory 8192" "video decoders 256"; do
        # shellcheck disable=SC2086  # a program and its words
        ( "$sublet" run --mem 4G --capabilities all -- "$kit"/$what > "$work/quota.out" 2>&1 < /dev/null; echo $? > "$work/code" ) &
        most=0
        while kill -0 $! 2> /dev/null; do
                used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
                [ "$used" -gt "$most" ] && most=$used
        done
        wait
        echo "quota 4096 MiB: $what: device at most $most MiB, exit $(cat "$work/code"): $(grep -E 'got_mib|decoders|quota' "$work/quota.out" | tail -2 | tr '\n' ' ')"
done
both profile 60 python3 "$work/profiled.py"
both libraries 60 python3 "$work/libraries.py"
both load 20 python3 "$work/load.py"
both encode 20 python3 "$work/encode.py"
both opencl 20 python3 "$work/opencl.py"
both nvml 30 python3 "$work/nvml.py"
both smi 20 nvidia-smi -q
if command -v ncu > /dev/null; then
        both ncu 60 ncu --clock-control none --metrics sm__cycles_active.avg --launch-count 1 "$work/families" alloc 64 64
fi
} 2>&1 | tee "$OUT/everything.txt"

python3 - "$traces" "$root/src/gate/policy/rules.def" "$root/src/gate/policy/engines.def" >> "$OUT/everything.txt" <<'END'
"""What each program asked for that rules.def lacks; the grammar is in tools/record.c."""
import collections
import os
import re
import sys


def unhex(text):
    return b"".join(bytes(int(m[1])) if m[1] else bytes.fromhex(m[2])
                    for m in re.finditer(r"z(\d+)\.|([0-9a-f]+)", text))


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little") if len(data) >= at + 4 else -1


known = collections.defaultdict(set)
for m in re.finditer(r"^RULE(?:_OF)?\((?:\s*[A-Z_| ]+,)??\s*(\w+),\s*(0x[0-9a-f]+)", "".join(open(f).read() for f in sys.argv[2:]), re.M):
    known[m[1]].add(int(m[2], 16))
programs = collections.defaultdict(lambda: collections.defaultdict(list))
for name in sorted(n for n in os.listdir(sys.argv[1]) if not n.startswith("tenant-")):
    program = name.rsplit(".", 1)[0]
    nodes = {}
    for line in open(os.path.join(sys.argv[1], name), errors="replace"):
        words = line.split()
        if words[0] in ("open", "have"):
            nodes[words[1]] = words[2]
            continue
        if words[0] != "ioctl":
            continue
        request, rc = int(words[2], 16), int(words[4])
        data = {k: unhex(v) for k, v in (w.split("=", 1) for w in words[7:])}
        block = data.get("in", b"")
        after = data.get("out", block)
        if "nvidia-uvm" in nodes.get(words[1], ""):
            key = f"uvm {request:x}"
        elif request & 0xff == 0x2b:
            number = u32(block, 12)
            if number in known["CLASS"] or (number & 0xff) == 0x6f:
                continue
            key = f"class {number:x}/{len(data.get('pin', b''))} -> {u32(after, 40 if len(block) == 48 else 28):x}"
        elif request & 0xff == 0x2a:
            if u32(block, 8) in known["CONTROL"]:
                continue
            key = f"control {u32(block, 8):x}/{u32(block, 24)} -> {u32(after, 28):x}"
        else:
            key = f"request {request & 0xff:x}/{len(block)}"
        programs[program][key].append(rc)
base = set(programs.get("start", {}))
for program, keys in programs.items():
    print(program, " ".join(f"{k}x{len(v)};" for k, v in sorted(keys.items()) if program == "start" or k not in base))
END
tail -n +1 "$OUT/everything.txt" | tail -40
mkdir -p "$work/out" && cp "$work"/*.out "$work"/*.tenant "$work/out/" 2>/dev/null
tar -C "$work" -czf "$OUT/everything.tar.gz" traces out machine.txt
ls -l "$OUT/everything.tar.gz"
echo "seconds=$SECONDS"
