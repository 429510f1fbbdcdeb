#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of two devices joined by NVLink, for tests/gpu/server.sh.

    server.py one                   PyTorch: 1 GiB on both devices, copies between them
    server.py jax                   JAX: six of 1 GiB, a psum over both devices
    server.py jax-one               JAX on one device: as many of 1 GiB as it can hold, at most twelve
    server.py MODE RANK STORE       one of two ranks: ddp, fsdp, reduce (all-reduce bandwidth), small (its latency), nvshmem

Each prints words name=value; `sum` and `ok` are what is right in any case, `gbs` and `steps` are measured.
"""
import os
import sys
import time

os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def one():
    import torch
    held = [torch.empty(1 << 30, dtype=torch.uint8, device=f"cuda:{i}") for i in (0, 1)]
    held[0].fill_(7)
    held[1].copy_(held[0])
    torch.cuda.synchronize(1)
    begin = time.monotonic()
    for _ in range(20):
        held[1].copy_(held[0])
    torch.cuda.synchronize(1)
    torch.cuda.synchronize(0)
    gbs = 20 * (1 << 30) / (time.monotonic() - begin) / 1e9
    print(f"one sum={int(held[1][:1000].sum())} gbs={gbs:.1f}")


def jax_two():
    import jax
    import jax.numpy as jnp
    held = [jax.device_put(jnp.ones((1 << 28,), jnp.float32), jax.devices()[i % 2]).block_until_ready() for i in range(6)]
    total = sum(float(x[5]) for x in held)
    n = jax.device_count()
    out = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.ones((n, 1 << 20)))
    print(f"jax sum={total} psum={float(out[0, 0])}")


def jax_one():
    import jax
    import jax.numpy as jnp
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0) / (1 << 30)
    held = []
    try:
        while len(held) < 12:
            held.append(jax.device_put(jnp.full((1 << 28,), len(held) + 1, jnp.float32)).block_until_ready())
    except RuntimeError as e:
        print(str(e).splitlines()[0])
    is_right = [float(x[5]) for x in held] == [i + 1.0 for i in range(len(held))]
    print(f"jax-one ok={int(is_right)} held={len(held)} limit_gib={limit:.1f}")


def rank_begin(rank, store):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + store, world_size=2, rank=rank,
                            device_id=torch.device("cuda", rank))
    return torch, dist


def steps_of(torch, rank, model, name):
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.ones(512, 4096, device="cuda", dtype=torch.bfloat16)
    for i in range(430):
        if i == 30:
            torch.cuda.synchronize()
            begin = time.monotonic()
        optimiser.zero_grad()
        model(x).float().mean().backward()
        optimiser.step()
    torch.cuda.synchronize()
    print(f"{name} rank={rank} ok=1 steps={400 / (time.monotonic() - begin):.1f}", flush=True)


def layers(torch):
    return torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(8))).to("cuda", torch.bfloat16)


def ddp(rank, store):
    torch, dist = rank_begin(rank, store)
    steps_of(torch, rank, torch.nn.parallel.DistributedDataParallel(layers(torch), device_ids=[rank]), "ddp")
    dist.destroy_process_group()


def fsdp(rank, store):
    torch, dist = rank_begin(rank, store)
    from torch.distributed.fsdp import FullyShardedDataParallel
    steps_of(torch, rank, FullyShardedDataParallel(layers(torch), device_id=rank), "fsdp")
    dist.destroy_process_group()


def reduce(rank, store):
    torch, dist = rank_begin(rank, store)
    for size, rounds in ((1 << 10, 5000), (1 << 20, 3000), (1 << 26, 300), (1 << 28, 100)):
        x = torch.ones(size, device="cuda")
        for _ in range(5):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(rounds):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        took = (time.monotonic() - begin) / rounds
        print(f"reduce rank={rank} bytes={size * 4} us={took * 1e6:.1f} gbs={size * 4 / took / 1e9:.2f}", flush=True)
        del x
    y = torch.ones(1 << 28, device="cuda")
    dist.all_reduce(y)
    print(f"reduce rank={rank} sum={float(y[7])}", flush=True)
    dist.destroy_process_group()


def small(rank, store):
    """Medians of nine, so that what the host does meanwhile does not decide."""
    torch, dist = rank_begin(rank, store)
    for size in (1 << 10, 1 << 20):
        x = torch.ones(size, device="cuda")
        took = []
        for _ in range(10):
            dist.barrier()
            torch.cuda.synchronize()
            begin = time.monotonic()
            for _ in range(1500):
                dist.all_reduce(x)
            torch.cuda.synchronize()
            took.append((time.monotonic() - begin) / 1500 * 1e6)
        took = sorted(took[1:])
        print(f"small rank={rank} bytes={size * 4} least={took[0]:.1f} median={took[4]:.1f} most={took[8]:.1f}", flush=True)
    a = torch.ones(64, device="cuda")
    for name, work in (("launch", lambda: a.add_(1)), ("event", lambda: torch.cuda.Event().record())):
        took = []
        for _ in range(9):
            torch.cuda.synchronize()
            begin = time.monotonic()
            for _ in range(5000):
                work()
            torch.cuda.synchronize()
            took.append((time.monotonic() - begin) / 5000 * 1e6)
        took.sort()
        print(f"small rank={rank} what={name} least={took[0]:.2f} median={took[4]:.2f} most={took[8]:.2f}", flush=True)
    dist.destroy_process_group()


def nvshmem(rank, store):
    torch, dist = rank_begin(rank, store)
    import torch.distributed._symmetric_memory as symm
    dist.barrier()
    symm.set_backend("NVSHMEM")
    x = symm.empty(1 << 22, dtype=torch.float32, device=torch.device("cuda", rank))
    handle = symm.rendezvous(x, dist.group.WORLD.group_name)
    x.fill_(rank + 1)
    dist.barrier()
    other = handle.get_buffer(1 - rank, (1 << 22,), torch.float32)
    print(f"nvshmem rank={rank} sum={float(other[5])}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one()
    elif sys.argv[1] == "jax":
        jax_two()
    elif sys.argv[1] == "jax-one":
        jax_one()
    else:
        {"ddp": ddp, "fsdp": fsdp, "reduce": reduce, "small": small, "nvshmem": nvshmem}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
