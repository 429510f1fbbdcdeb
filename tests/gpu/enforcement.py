# SPDX-License-Identifier: Apache-2.0
"""Results that must be the same natively and in every enforcement mode: sums of work that is exact or exactly repeatable.

Prints key=value lines: cublas_sum (a loop of matmuls of small integers), graph_sum (a captured graph, replayed), resnet50_sum,
total_mib; graph_us is the time of one replay. Exit status 0; an exception otherwise.
"""
import time

import torch


def say(key, value):
    print(f"{key}={value}", flush=True)


def cublas(rounds=300):
    torch.manual_seed(1)
    a = torch.randint(-2, 3, (1024, 1024), device="cuda").float()
    b = torch.randint(-2, 3, (1024, 1024), device="cuda").float()
    total = 0.0
    for _ in range(rounds):
        c = a @ b  # integers below 2^24 in float32: exact in whatever order
        total += c.sum(dtype=torch.float64).item()
        a = a.roll(1, 0)
    say("cublas_sum", int(total))


def graph(replays=2000):
    torch.manual_seed(2)
    x = torch.zeros(1 << 16, dtype=torch.int64, device="cuda")
    steps = torch.randint(0, 1000, (1 << 16,), device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            x.add_(steps)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(20):
            x.add_(steps)
            x.bitwise_xor_(steps)
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(replays):
        captured.replay()
    torch.cuda.synchronize()
    say("graph_us", f"{(time.monotonic() - begin) / replays * 1e6:.2f}")
    say("graph_sum", int(x.sum().item()))


def resnet():
    import torchvision

    torch.manual_seed(3)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    model = torchvision.models.resnet50(weights=None).eval().cuda()
    with torch.no_grad():
        for _ in range(3):
            out = model(torch.ones(8, 3, 224, 224, device="cuda"))
    say("resnet50_sum", f"{out.double().sum().item():.6f}")


say("total_mib", torch.cuda.mem_get_info()[1] >> 20)
cublas()
graph()
resnet()
