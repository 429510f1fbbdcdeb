#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records what unmodified programs say to the driver on a machine with two devices joined by NVLink: tools/record.c.
#
#       tests/gpu/record-server.sh      two devices, gcc, the CUDA driver headers; at most 100 seconds
#
# Leaves $OUT/server-traces.tar.xz (traces, each program's output, machine.txt) and $OUT/server-summary.txt: the
# calls of each program that tests/trace and the gate's rules do not know yet, their sizes, and what was refused.
# Three lanes run side by side, each part under its own limit; a part that fails does not end the others.
# NVLink multicast stays off: it can put devices that others share out of service.
# shellcheck disable=SC2016  # what stands in single quotes is for the inner shells
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
OUT=${OUT:-/tmp/sublet-gpu}
cuda=${CUDA_HOME:-/usr/local/cuda}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export NCCL_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=lo XLA_PYTHON_CLIENT_PREALLOCATE=false
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT" "$work/bin" "$work/traces" "$work/out"
bin=$work/bin traces=$work/traces

stubs="-L$cuda/lib64/stubs -L$cuda/targets/x86_64-linux/lib/stubs"
gcc -O2 -shared -fPIC "$root/tools/record.c" -o "$bin/record.so" -ldl || exit 1
for p in families peers; do
        # shellcheck disable=SC2086  # a list of flags
        gcc -O2 -std=gnu17 "$here/$p.c" -I"$cuda/include" $stubs -lcuda -ldl -o "$bin/$p" || exit 1
done

{
        uname -a
        cat /proc/driver/nvidia/version
        ls -la /dev/nvidia* /dev/nvidia-caps* /dev/dri 2>/dev/null
        grep -i nvidia /proc/devices
        timeout -k 2 15 nvidia-smi topo -m
        timeout -k 2 15 nvidia-smi nvlink -s
        timeout -k 2 15 nvidia-smi -q | grep -A 9 -i fabric
        env | grep -E 'NVLS|SYMM|NVSHMEM|NCCL|XLA'
} > "$work/machine.txt" 2>&1

# record NAME SECONDS COMMAND...
record() {
        local name=$1 limit=$2 begin=$SECONDS status
        shift 2
        [ $((begin + limit)) -le 93 ] || limit=$((93 - begin))
        [ "$limit" -ge 3 ] || { echo "$name not run: no time left" >> "$work/table.txt"; return; }
        timeout -k 2 "$limit" env SUBLET_RECORD="$traces/$name" LD_PRELOAD="$bin/record.so${LD_PRELOAD:+:$LD_PRELOAD}" "$@" \
                > "$work/out/$name" 2>&1 < /dev/null
        status=$?
        printf '%-18s status=%-3s %3ds  %s\n' "$name" "$status" $((SECONDS - begin)) \
                "$(grep -E '=|error|Error' "$work/out/$name" | tail -2 | tr '\n' ' ' | cut -c1-180)" >> "$work/table.txt"
}

# ---- the programs ------------------------------------------------------------------------------
cat > "$work/one.py" <<'END'
import torch
held = [torch.empty(1 << 30, dtype=torch.uint8, device=f"cuda:{i}") for i in (0, 1)]
held[0].fill_(7)
held[1].copy_(held[0])
torch.cuda.synchronize(1)
print(f"torch_sum={int(held[1][:1000].sum())} peer={torch.cuda.can_device_access_peer(0, 1)}")
del held
torch.cuda.empty_cache()
x = torch.ones(4096, 4096, device="cuda:1")
print(f"torch_product={float((x @ x)[0, 0])}")
END
cat > "$work/rank.py" <<'END'
import os
import sys
import torch
import torch.distributed as dist
rank, store = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + store, world_size=2, rank=rank, device_id=torch.device("cuda", rank))
for size in (1 << 10, 1 << 20, 1 << 28):
    x = torch.ones(size, device="cuda")
    dist.all_reduce(x)
    print(f"rank={rank} all_reduce={size * 4} sum={float(x[0])}", flush=True)
    del x
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4096, 4096).cuda(), device_ids=[rank])
model(torch.ones(64, 4096, device="cuda")).sum().backward()
torch.cuda.synchronize()
print(f"rank={rank} ddp=ok", flush=True)
dist.destroy_process_group()
END
cat > "$work/symm.py" <<'END'
import sys
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm
rank, store, backend = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + store, world_size=2, rank=rank, device_id=torch.device("cuda", rank))
dist.barrier()
symm.set_backend(backend)
x = symm.empty(1 << 22, dtype=torch.float32, device=torch.device("cuda", rank))
handle = symm.rendezvous(x, dist.group.WORLD.group_name)
x.fill_(rank + 1)
dist.barrier()
other = handle.get_buffer(1 - rank, (1 << 22,), torch.float32)
print(f"rank={rank} symm={backend} other={float(other[5])}", flush=True)
dist.barrier()
dist.destroy_process_group()
END
cat > "$work/both_jax.py" <<'END'
import jax
import jax.numpy as jnp
held = [jax.device_put(jnp.ones((1 << 28,), jnp.float32), jax.devices()[i % 2]).block_until_ready() for i in range(6)]
print(f"jax_held={len(held)}", flush=True)
del held
n = jax.device_count()
out = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.ones((n, 1 << 20)))
print(f"jax_psum={float(out[0, 0])} devices={n}", flush=True)
END
cat > "$work/both" <<'END'
#!/bin/bash
# both PROGRAM [ARGUMENT]: two ranks of a Python program, one per device
store=$(mktemp -u)
python3 "$1" 0 "$store" "${@:2}" &
python3 "$1" 1 "$store" "${@:2}"
second=$?
wait $! && exit $second
END
chmod +x "$work/both"

libcuda_lane() {
        record start-both 15 "$bin/families" start
        record alloc-both 15 "$bin/families" alloc 512 2048
        record vmm-both 15 "$bin/families" vmm 512 1024
        record ipc-both 15 "$bin/families" ipc 512 1024
        record peers-plain-64 15 "$bin/peers" plain 64 2
        record peers-plain-1024 15 "$bin/peers" plain 1024 1
        record peers-plain-2048 15 "$bin/peers" plain 2048 2
        record peers-ipc 15 "$bin/peers" ipc 1024 2
        record peers-vmm 15 "$bin/peers" vmm 1024 2
        record peers-vmm-fd 15 "$bin/peers" vmm-fd 1024 2
        record peers-vmm-fd-64 15 "$bin/peers" vmm-fd 64 2
        record peers-vmm-fabric 15 "$bin/peers" vmm-fabric 512 2
        record peers-async 15 "$bin/peers" async 512 2
        record peers-managed 15 "$bin/peers" managed 256 1
}
torch_lane() {
        record torch-both 60 python3 "$work/one.py"
        record ddp 45 "$work/both" "$work/rank.py"
        record ddp-ipc 45 env NCCL_CUMEM_ENABLE=0 "$work/both" "$work/rank.py"
        record symm-cuda 40 "$work/both" "$work/symm.py" CUDA
        record symm-nvshmem 40 "$work/both" "$work/symm.py" NVSHMEM
}
other_lane() {
        record smi 15 nvidia-smi
        record smi-nvlink 15 nvidia-smi nvlink -s
        record smi-nvlink-caps 15 nvidia-smi nvlink -c
        record smi-topo 15 nvidia-smi topo -m
        record smi-p2p 15 nvidia-smi topo -p2p r
        record jax 70 python3 "$work/both_jax.py"
}
libcuda_lane & lane1=$!
torch_lane & lane2=$!
other_lane & lane3=$!
wait $lane1 $lane2 $lane3

# ---- summary ------------------------------------------------------------------------------------
cat "$work/machine.txt" > "$OUT/server-summary.txt"
cat "$work/table.txt" >> "$OUT/server-summary.txt"
timeout -k 2 30 python3 "$here/record_server.py" "$traces" "$root/src/gate/policy/rules.def" >> "$OUT/server-summary.txt" 2>&1
cp "$OUT/server-summary.txt" "$work/summary.txt"
timeout -k 2 20 tar -C "$work" -c traces out machine.txt summary.txt | xz -T0 -1 > "$OUT/server-traces.tar.xz"
ls -l "$OUT"
if [ "$(stat -c %s "$OUT/server-traces.tar.xz")" -gt 14000000 ]; then # the largest are the least needed
        rm -f "$traces"/jax.* "$traces"/symm-*
        tar -C "$work" -c traces out machine.txt summary.txt | xz -T0 -1 > "$OUT/server-traces.tar.xz"
fi
cat "$work/table.txt"
tail -n +1 "$OUT/server-summary.txt" | cut -c1-220 | tail -130
echo "seconds=$SECONDS"
