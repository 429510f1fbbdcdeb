#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Records the driver calls of unmodified programs on this machine, with tools/record.c.
#
#       tests/gpu/record.sh             on a machine with a GPU; about two minutes
#
# Leaves $OUT/traces.tar.gz (traces, each program's output, machine.txt) and $OUT/summary.txt, and
# prints the summary's short form. No quota is needed: every family takes three steps of 64 MiB.
# A step that fails or runs out of time is reported and does not end the script.
# shellcheck disable=SC2016  # what stands in single quotes is for the inner shells
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
OUT=${OUT:-/tmp/out}
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT" "$work/bin" "$work/traces"
bin=$work/bin traces=$work/traces

# ---- build ------------------------------------------------------------------------------------
gcc -O2 -shared -fPIC "$root/tools/record.c" -o "$bin/record.so" -ldl || exit 1
for p in families memb; do
        gcc -O2 -std=gnu17 "$here/$p.c" -I"$cuda/include" -L"$cuda/lib64/stubs" -lcuda -o "$bin/$p" || exit 1
done
gcc -O2 -std=gnu17 -static "$here/raw.c" -o "$bin/raw" || echo "raw: no static libc here"
gcc -O2 -std=gnu17 -DRAW_LIBC "$here/raw.c" -o "$bin/raw_libc" || exit 1

# ---- the machine ------------------------------------------------------------------------------
# machine TITLE COMMAND...: a section of machine.txt; silent if the machine lacks the command
machine() {
        echo "== $1"
        shift
        timeout -k 2 20 "$@" 2>&1
}
{
        machine kernel uname -a
        machine cpu sh -c 'grep -m1 "model name" /proc/cpuinfo; nproc'
        machine version cat /proc/driver/nvidia/version /sys/module/nvidia/version
        machine params cat /proc/driver/nvidia/params
        machine smi sh -c 'nvidia-smi -q | head -60'
        machine devices grep -i nvidia /proc/devices
        machine nodes sh -c 'ls -la /dev/nvidia* /dev/dri /dev/nvidia-caps 2>/dev/null'
        machine module_parameters sh -c 'for f in /sys/module/nvidia*/parameters/*; do [ -r "$f" ] && echo "$f=$(cat "$f" 2>/dev/null)"; done'
        machine yama cat /proc/sys/kernel/yama/ptrace_scope
        machine seccomp sh -c 'cat /proc/sys/kernel/seccomp/actions_avail; grep -E "Seccomp|NoNewPrivs|Cap(Eff|Bnd)" /proc/self/status'
        machine config sh -c '{ zcat /proc/config.gz || cat "/boot/config-$(uname -r)"; } 2>/dev/null | grep -E "SECCOMP|KCMP|CHECKPOINT_RESTORE|IA32_EMULATION|X86_X32|YAMA|USER_NS|TIME_NS|HMM|DEVICE_PRIVATE|CGROUP_(DEVICE|BPF)|BPF_LSM"'
        machine limits sh -c 'ulimit -a; cat /proc/self/cgroup; df -h /dev/shm'
        machine tools sh -c 'gcc --version | head -1; python3 --version; command -v runc containerd bwrap unshare nsenter nginx docker nvidia-cuda-mps-control'
} > "$work/machine.txt" 2>&1

# ---- record -----------------------------------------------------------------------------------
# record NAME SECONDS COMMAND...
record() {
        local name=$1 limit=$2 begin=$SECONDS status
        shift 2
        timeout -k 2 "$limit" env SUBLET_RECORD="$traces/$name" LD_PRELOAD="$bin/record.so" "$@" \
                > "$work/$name.out" 2>&1 < /dev/null
        status=$?
        printf '%-22s status=%-3s %3ds  %s\n' "$name" "$status" $((SECONDS - begin)) \
                "$(grep -E '=|error|Error' "$work/$name.out" | tail -2 | tr '\n' ' ' | cut -c1-170)" |
                tee -a "$work/table.txt"
}

record start 20 "$bin/families" start
record exit 20 "$bin/families" exit
record meminfo 20 "$bin/families" meminfo
for family in alloc pitch managed async vmm array array3d mipmap graph host register ipc mempool-export; do
        record "family-$family" 20 "$bin/families" "$family" 64 192
done
for spelling in plain legacy xfer type; do
        record "raw-$spelling" 10 "$bin/raw_libc" "--$spelling" --steps 64 --max 192
done
record raw-dup 10 "$bin/raw_libc" --dup c1d0ffff 5c000001
record smi 20 nvidia-smi
record smi-memory 20 nvidia-smi -q -d MEMORY
record smi-apps 20 nvidia-smi --query-compute-apps=pid,used_memory --format=csv

cat > "$work/one.py" <<'END'
import torch
x = torch.ones(512, 512, device="cuda")
print(f"torch_sum={float((x @ x).sum())}")
END
record torch 60 python3 "$work/one.py"

cat > "$work/nccl.py" <<'END'
import os
import tempfile
import torch
import torch.distributed as dist
store = os.path.join(tempfile.mkdtemp(), "store")
dist.init_process_group("nccl", init_method="file://" + store, world_size=1, rank=0, device_id=torch.device("cuda:0"))
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x)
print(f"nccl_sum={float(x.sum())}")
dist.destroy_process_group()
END
record nccl 40 env NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=lo python3 "$work/nccl.py"

# The recorder cannot see a static program: this shows that the driver accepts these spellings of its requests.
if [ -x "$bin/raw" ]; then
        for spelling in plain legacy xfer type i386 x32; do
                echo "raw --$spelling: $(timeout -k 2 10 "$bin/raw" "--$spelling" --steps 64 --max 192 2>&1 |
                        grep -E '^(raw|setup)')"
        done
fi
echo "memb, not recorded: $(timeout -k 2 30 "$bin/memb" native 2>&1)" | tee "$work/memb.out"

# ---- summary ----------------------------------------------------------------------------------
python3 - "$traces" "$OUT/summary.txt" <<'END'
"""Which classes, controls and UVM requests each program used; the grammar is in tools/record.c."""
import collections
import os
import re
import sys


def unhex(text):
    return b"".join(bytes(int(m[1])) if m[1] else bytes.fromhex(m[2])
                    for m in re.finditer(r"z(\d+)\.|([0-9a-f]+)", text))


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little") if len(data) >= at + 4 else -1


STATUS_AT = {0x29: 12, 0x2a: 28, 0x34: 24, 0x4a: 20, 0x4e: 40, 0x4f: 24}
programs = collections.OrderedDict()
for name in sorted(os.listdir(sys.argv[1])):
    program = name.rsplit(".", 1)[0]
    seen = programs.setdefault(program, collections.defaultdict(collections.Counter))
    nodes = {}
    for line in open(os.path.join(sys.argv[1], name), errors="replace"):
        words = line.split()
        seen["lines"][words[0]] += 1
        seen["bytes"][""] += len(line)
        if words[0] in ("open", "have"):
            nodes[words[1]] = words[2]
        elif words[0] == "dup":
            nodes[words[2]] = nodes.get(words[1], "?")
        if words[0] != "ioctl":
            continue
        request, size, rc, error = int(words[2], 16), int(words[3]), int(words[4]), int(words[5])
        data = {k: unhex(v) for k, v in (w.split("=", 1) for w in words[7:])}
        block, after = data.get("in", b""), data.get("out", data.get("in", b""))
        status, what = 0, None
        if "nvidia-uvm" in nodes.get(words[1], ""):
            what = ("uvm", f"{request:x}" if size else f"{request:x}?")
        else:
            nr = request & 0xff
            if nr == 0x2b:
                what = ("class", f"{u32(block, 12):x}/{len(data.get('pin', b''))}")
                status = u32(after, 40 if size == 48 else 28)
            elif nr == 0x2a:
                what = ("control", f"{u32(block, 8):x}/{u32(block, 24)}")
                status = u32(after, 28)
            else:
                what = ("nr", f"{nr:x}/{size}")
                status = u32(after, STATUS_AT[nr]) if nr in STATUS_AT else 0
        seen[what[0]][what[1]] += 1
        if rc < 0 or status not in (0, -1):
            seen["refused"][f"{what[0]}:{what[1]}->{'errno ' + str(error) if rc < 0 else hex(status)}"] += 1

KINDS = ("class", "control", "nr", "uvm", "refused")


def sets(seen, base=None):
    for kind in KINDS:
        items = {k: n for k, n in seen[kind].items() if not base or k not in base[kind]}
        if items:
            yield f"    {kind}: " + " ".join(f"{k}x{n}".replace(" ", "_") for k, n in sorted(items.items()))


with open(sys.argv[2], "w") as full:
    for program, seen in programs.items():
        print(f"{program} {dict(seen['lines'])} bytes={seen['bytes']['']}", *sets(seen), sep="\n", file=full)
base = programs.get("start")
for program, seen in programs.items():
    n = seen["lines"]
    print(f"{program:<22} lines={sum(n.values())} ioctl={n['ioctl']} mmap={n['mmap']} KiB={seen['bytes'][''] >> 10}")
    if program != "start":
        print(*sets(seen, base), sep="\n")
if base:
    print("start itself:", *sets(base), sep="\n")
END

mkdir "$work/out" && cp "$work"/*.out "$work/out/"
cat "$work/table.txt" >> "$OUT/summary.txt"
cp "$OUT/summary.txt" "$work/summary.txt"
tar -C "$work" -czf "$OUT/traces.tar.gz" traces out machine.txt summary.txt
ls -l "$OUT/traces.tar.gz"
head -24 "$work/machine.txt" | cut -c1-160
echo "seconds=$SECONDS"
