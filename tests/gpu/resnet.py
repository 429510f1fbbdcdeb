# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, fp16, channels last, as a CUDA graph: a tenant that waits for every step.

Prints `ready`, then takes lines from stdin and answers each with one line of name=value words:

    sync BATCH SECONDS                  step after step
    periodic BATCH SECONDS PERIOD_MS    a step every so often; latency from its start
    poisson BATCH SECONDS PERIOD_MS     a step arrives every so often in the mean; latency from its arrival
    deep BATCH SECONDS                  16 steps in flight; no latencies
"""
import random
import sys
import time

import torch
import torchvision

# What benchmarking picks differs from process to process by 2 to 5 %, the more when two do it at once.
torch.backends.cudnn.benchmark = False
MODEL = torchvision.models.resnet50(weights=None).eval().half().cuda().to(memory_format=torch.channels_last)


def captured(batch):
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            MODEL(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        MODEL(x)
    graph.replay()
    torch.cuda.synchronize()
    return graph, x


def steps(graph, seconds, period):
    begin = due = time.perf_counter()
    took = []
    while time.perf_counter() - begin < seconds:
        since = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - since)
        if period:
            due += period
            time.sleep(max(0.0, due - time.perf_counter()))
    return took, time.perf_counter() - begin


def arrivals(graph, seconds, period):
    begin = due = time.perf_counter()
    took = []
    while time.perf_counter() - begin < seconds:
        due += random.expovariate(1 / period)
        time.sleep(max(0.0, due - time.perf_counter()))
        graph.replay()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - due)
    return took, time.perf_counter() - begin


def deep(graph, seconds):
    begin = time.perf_counter()
    events, n = [torch.cuda.Event() for _ in range(16)], 0
    while time.perf_counter() - begin < seconds:
        events[n % 16].synchronize()
        graph.replay()
        events[n % 16].record()
        n += 1
    torch.cuda.synchronize()
    return [0.0] * n, time.perf_counter() - begin


def done(graph, mode, seconds, period):
    if mode == "poisson":
        return arrivals(graph, seconds, period)
    if mode == "deep":
        return deep(graph, seconds)
    return steps(graph, seconds, period)


def main(batches):
    with torch.inference_mode():
        graphs = {batch: captured(batch) for batch in batches}
        print("ready", flush=True)
        for line in sys.stdin:
            mode, batch, seconds, *period = line.split()
            took, elapsed = done(graphs[int(batch)][0], mode, float(seconds), float(period[0]) * 1e-3 if period else 0)
            took.sort()
            print(
                "mode=%s batch=%s steps=%d img_s=%.1f p50_us=%.1f p99_us=%.1f max_us=%.1f"
                % (
                    mode,
                    batch,
                    len(took),
                    len(took) * int(batch) / elapsed,
                    took[len(took) // 2] * 1e6,
                    took[int(len(took) * 0.99)] * 1e6,
                    took[-1] * 1e6,
                ),
                flush=True,
            )


if __name__ == "__main__":
    main([int(batch) for batch in sys.argv[1:]])
