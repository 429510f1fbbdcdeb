# SPDX-License-Identifier: Apache-2.0
"""PyTorch, and through it cuBLASLt, cuDNN, cuFFT, cuSPARSE, cuSOLVER, cuRAND, NVRTC, nvJPEG, Triton, NCCL."""
import os

import torch
import torch.nn.functional as F
from rows import Absent, rate_of, row, serve

DEVICE = os.environ.get("EVERYTHING_DEVICE", "cuda")
sync = torch.cuda.synchronize if DEVICE == "cuda" else (lambda: None)


def numbers(*shape, dtype=torch.float32):
    """The same numbers in every process: no generator is asked."""
    n = 1
    for side in shape:
        n *= side
    return ((torch.arange(n, device=DEVICE) * 7919 % 1000).float() / 1000).reshape(shape).to(dtype)


def brief(x):
    return f"{float(x.double().sum()):.6g}"


@row
def torch_matmul(seconds):
    a = numbers(4096, 4096, dtype=torch.bfloat16)
    return brief(a @ a), rate_of(lambda: a @ a, seconds, done=sync)


@row
def torch_small(seconds):
    """Many small kernels, each waited for: what a launch and a wait cost."""
    a = numbers(256)

    def work():
        a.mul_(1.0)
        sync()
    return brief(a), rate_of(work, seconds, done=sync)


@row
def torch_fp8(seconds):
    a = numbers(2048, 2048).to(torch.float8_e4m3fn)
    one = torch.ones((), device=DEVICE)

    def work():
        return torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return brief(work()), rate_of(work, seconds, done=sync)


@row
def torch_sdpa(seconds):
    q = numbers(4, 16, 1024, 64, dtype=torch.bfloat16)
    return brief(F.scaled_dot_product_attention(q, q, q, is_causal=True)), rate_of(
        lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True), seconds, done=sync)


@row
def torch_conv(seconds):
    x, w = numbers(16, 64, 64, 64, dtype=torch.float16), numbers(64, 64, 3, 3, dtype=torch.float16)
    return brief(F.conv2d(x, w, padding=1)), rate_of(lambda: F.conv2d(x, w, padding=1), seconds, done=sync)


@row
def torch_conv_backward(seconds):
    x, w = numbers(8, 32, 32, 32).requires_grad_(), numbers(32, 32, 3, 3).requires_grad_()
    F.conv2d(x, w, padding=1).sum().backward()
    return f"{brief(x.grad)} {float(w.grad.double().sum()):.4g}"


@row
def torch_linalg(seconds):
    a = torch.eye(512, device=DEVICE, dtype=torch.float64) * 600 + numbers(512, 512, dtype=torch.float64)
    exact = torch.allclose(a @ torch.linalg.solve(a, a), a, atol=1e-6)
    values = torch.linalg.svdvals(a[:128, :128])
    lower = torch.linalg.cholesky(a @ a.t())
    q, _ = torch.linalg.qr(a)
    symmetric = torch.linalg.eigvalsh(a[:128, :128] + a[:128, :128].t())
    return f"{exact} {brief(values)} {brief(lower)} {q.shape[0]} {brief(symmetric)}", rate_of(
        lambda: torch.linalg.solve(a, a), seconds, done=sync)


@row
def torch_fft(seconds):
    x = numbers(256, 256, 64)
    return brief(torch.fft.fftn(x).abs()), rate_of(lambda: torch.fft.fftn(x), seconds, done=sync)


@row
def torch_sparse(seconds):
    s = torch.eye(2048, device=DEVICE).to_sparse_csr()
    d = numbers(2048, 256)
    return brief(s @ d), rate_of(lambda: s @ d, seconds, done=sync)


@row
def torch_random(seconds):
    torch.manual_seed(7)
    return f"{brief(torch.rand(1 << 20, device=DEVICE))} {brief(torch.randn(1 << 20, device=DEVICE))}", rate_of(
        lambda: torch.rand(1 << 22, device=DEVICE), seconds, done=sync)


@row
def torch_sort(seconds):
    x = numbers(1 << 22)
    return brief(x.sort().values[::4096]), rate_of(lambda: x.sort(), seconds, done=sync)


@row
def torch_graphs(seconds):
    x = numbers(1024, 1024)
    y = x @ x
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x @ x
    sync()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(8):
            y = x @ x
    graph.replay()
    return brief(y), rate_of(graph.replay, seconds, done=sync)


@row
def torch_compile(seconds):
    @torch.compile
    def f(x):
        return torch.sin(x).mul(2).add(1).relu().sum()
    return f"{float(f(numbers(1 << 20))):.4g}"


@row
def torch_streams(seconds):
    x, streams = numbers(1 << 20), [torch.cuda.Stream() for _ in range(16)]
    sync()
    out = []
    for stream in streams:
        with torch.cuda.stream(stream):
            out.append(x * 2)
    for stream in streams:
        stream.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    x.mul(2)
    end.record()
    end.synchronize()
    return f"{brief(sum(out))} {begin.elapsed_time(end) > 0}"


def copies(seconds, to_device):
    host = torch.arange(64 << 20, dtype=torch.uint8).pin_memory()
    there = torch.empty_like(host, device=DEVICE)
    there.copy_(host)
    work = (lambda: there.copy_(host, non_blocking=True)) if to_device else (lambda: host.copy_(there, non_blocking=True))
    rate = rate_of(work, seconds, units=64 / 1024, done=sync)
    return int(there.long().sum()), rate


@row
def torch_copy_in(seconds):
    return copies(seconds, True)


@row
def torch_copy_out(seconds):
    return copies(seconds, False)


@row
def torch_copy_pageable(seconds):
    host = torch.ones(32 << 20, dtype=torch.uint8)
    there = host.to(DEVICE)
    return int(there.long().sum()), rate_of(lambda: there.copy_(host), seconds, done=sync)


@row
def torch_allocate(seconds):
    """Memory taken and given back past the cache of PyTorch: what an allocation costs."""
    def work():
        x = torch.empty(64 << 20, dtype=torch.uint8, device=DEVICE)
        del x
        torch.cuda.empty_cache()
    work()
    return "done", rate_of(work, seconds, done=sync)


@row
def torch_resnet(seconds):
    import torchvision
    torch.manual_seed(3)
    model = torchvision.models.resnet18(weights=None).to(DEVICE).eval().half()
    x = numbers(16, 3, 224, 224, dtype=torch.float16)
    with torch.no_grad():
        y = model(x)
        return f"{tuple(y.shape)} {bool(torch.isfinite(y).all())}", rate_of(lambda: model(x), seconds, 16, sync)


@row
def torch_train(seconds):
    torch.manual_seed(5)
    model = torch.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = numbers(16, 64, 256)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return f"{losses[0]:.3g} {losses[-1] < losses[0]}"


@row
def torch_jpeg(seconds):
    import torchvision
    y, x = torch.meshgrid(torch.arange(1080), torch.arange(1920), indexing="ij")
    picture = torch.stack([(x + y) % 256, (x * 2) % 256, (y * 3) % 256]).to(torch.uint8)
    data = [torchvision.io.encode_jpeg(picture, quality=80) for _ in range(32)]

    def work():
        return torchvision.io.decode_jpeg(data, device=DEVICE)
    return int(sum(int(o.long().sum()) for o in work())), rate_of(work, max(seconds, 0.5), 32, sync)


@row
def torch_jpeg_encode(seconds):
    import torchvision
    y, x = torch.meshgrid(torch.arange(512), torch.arange(512), indexing="ij")
    picture = torch.stack([(x + y) % 256, (x * 2) % 256, (y * 3) % 256]).to(torch.uint8).to(DEVICE)

    def work():
        return torchvision.io.encode_jpeg([picture] * 4, quality=80)
    return int(work()[0].long().sum()), rate_of(work, seconds, 4, sync)


@row
def torch_audio(seconds):
    import torchaudio
    wave = torch.sin(torch.arange(160000, device=DEVICE) / 20)[None]
    mel = torchaudio.transforms.MelSpectrogram(16000).to(DEVICE)(wave)
    slow = torchaudio.functional.resample(wave, 16000, 8000)
    return f"{tuple(mel.shape)} {tuple(slow.shape)} {bool(torch.isfinite(mel).all())}"


@row
def triton_kernel(seconds):
    import triton
    import triton_kernels
    a = numbers(1 << 22)
    out = torch.empty_like(a)
    grid = (triton.cdiv(a.numel(), 1024),)
    triton_kernels.double[grid](a, out, a.numel(), BLOCK=1024)
    return brief(out), rate_of(lambda: triton_kernels.double[grid](a, out, a.numel(), BLOCK=1024), seconds, done=sync)


@row
def torch_nccl(seconds):
    """One rank: NCCL starts, and its kernels run."""
    import torch.distributed as dist
    import tempfile
    if not dist.is_nccl_available():
        raise Absent("NCCL")
    store = dist.FileStore(tempfile.mktemp(), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = numbers(1 << 20)
    dist.all_reduce(x)
    sync()
    rate = rate_of(lambda: dist.all_reduce(x), seconds, done=sync)
    dist.destroy_process_group()
    return brief(x), rate


@row
def torch_symmetric(seconds):
    """Symmetric memory of one rank."""
    import tempfile
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm
    store = dist.FileStore(tempfile.mktemp(), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
    try:
        x = symm.empty(1 << 20, dtype=torch.float32, device=DEVICE)
        handle = symm.rendezvous(x, dist.group.WORLD)
        x.fill_(2)
        return f"{brief(x)} {handle.world_size}"
    finally:
        dist.destroy_process_group()


@row
def torch_ipc(seconds):
    """A tensor that another process of the same tenant reads and writes."""
    import torch.multiprocessing as mp
    from torch_child import child
    context = mp.get_context("spawn")
    ask, reply = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(ask, reply))
    process.start()
    x = numbers(1 << 20)
    ask.put(x)
    total = reply.get(timeout=40)
    process.join(20)
    return f"{total:.6g} {brief(x)} {process.exitcode}"


@row
def torch_expandable(seconds):
    """Needs PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so it is a process of its own."""
    parts = [torch.full((8 << 20,), i, dtype=torch.uint8, device=DEVICE) for i in range(32)]
    total = sum(int(p.long().sum()) for p in parts)
    del parts
    big = torch.ones(200 << 20, dtype=torch.uint8, device=DEVICE)
    return f"{total} {int(big.long().sum())} {torch.cuda.memory_stats()['num_ooms']}"


@row
def torch_async_pool(seconds):
    """PyTorch on the driver's own pools; the allocator is chosen by the environment."""
    x = numbers(1 << 22)
    parts = [x * i for i in range(8)]
    return f"{brief(sum(parts))} {torch.cuda.get_allocator_backend()}"


@row
def torch_profiler(seconds):
    """CUPTI's activities: which kernels ran and how long. A process of its own, for what it leaves on."""
    from torch.profiler import ProfilerActivity, profile
    x = numbers(1024, 1024)
    (x @ x).sum().item()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        (x @ x).sum().item()
    kernels = [e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return f"{len(kernels)} {all(e.device_time >= 0 for e in kernels)}"


@row
def torch_memory_snapshot(seconds):
    free, total = torch.cuda.mem_get_info()
    torch.cuda.memory._record_memory_history()
    x = numbers(1 << 20)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    del x
    return f"{0 < free <= total} {len(snapshot['segments']) > 0}"


if __name__ == "__main__":
    serve()
