# SPDX-License-Identifier: Apache-2.0
"""What cuBLAS does with a product on part of the multiprocessors: its rate, the kernel that it chose, and that one's grid.

Prints a line for each type and size: product=fp32 size=4096 rate=... kernel=... grid=... block=... us=... The kernel is
PyTorch's profiler's word; where that cannot look, there is none.
"""
import json
import os
import sys
import tempfile
import time

import torch


def rate(work, seconds=0.7):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(10):
            work()
        torch.cuda.synchronize()
        n += 10
    return n / (time.perf_counter() - begin)


def kernels(work):
    """(name, grid, block, microseconds) of the longest kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    path = os.path.join(tempfile.mkdtemp(), "trace")
    profile.export_chrome_trace(path)
    with open(path) as file:
        found = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "kernel"]
    longest = max(found, key=lambda e: e["dur"])
    return longest["name"].replace(" ", ""), longest["args"]["grid"], longest["args"]["block"], longest["dur"]


for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        line = f"product={name} size={size} rate={rate(lambda: a @ b):.1f}"
        if "--kernels" in sys.argv:
            try:
                kernel, grid, block, us = kernels(lambda: a @ b)
                line += f" us={us} grid={grid} block={block} kernel={kernel}".replace(", ", ",")
            except Exception as error:  # the profiler does not work everywhere
                line += f" profiler={str(error)[:80]!r}"
        print(line, flush=True)
