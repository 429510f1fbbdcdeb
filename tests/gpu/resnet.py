# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, fp16, channels last, as a CUDA graph: a tenant that waits for every step. As arguments: batch sizes, and
"bert" (an encoder of BERT-base's size, 8 sequences of 128), "decoder" (one token of 4 sequences by a decoder of 1.1 B
weights with 512 tokens behind it), "jpeg" (a picture of 640 x 480 decoded on the device, scaled, and ResNet-50).

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
    return graph_of(MODEL, x)


class Decoder(torch.nn.Module):
    """A step of generation: 20 layers of 2048, 8192 between, and keys and values of 512 tokens."""

    def __init__(self, layers=20, width=2048, heads=16, past=512, batch=4):
        super().__init__()
        make = lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.layers = torch.nn.ModuleList(torch.nn.ModuleList(
            [torch.nn.LayerNorm(width), make(width, 3 * width), make(width, width), torch.nn.LayerNorm(width),
             make(width, 4 * width), make(4 * width, width)]) for _ in range(layers))
        self.out = make(width, 32000)
        self.heads, self.width = heads, width
        self.register_buffer("past", torch.randn(layers, 2, batch, heads, past, width // heads))

    def forward(self, x):
        batch = x.shape[0]
        for layer, past in zip(self.layers, self.past):
            norm, qkv, project, norm2, up, down = layer
            q, k, v = qkv(norm(x)).view(batch, 3, self.heads, 1, self.width // self.heads).unbind(1)
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + project(seen.reshape(batch, self.width))
            x = x + down(torch.nn.functional.gelu(up(norm2(x))))
        return self.out(x).argmax(-1)


def graph_of(model, x):
    """The step as a CUDA graph, in a stream of its own, and what must not be freed meanwhile."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    graph.replay()
    torch.cuda.synchronize()
    return graph, (model, x)


class Pictures:
    """Not a graph: the decoder of pictures is not captured."""

    def __init__(self):
        picture = torch.randint(0, 255, (3, 480, 640), dtype=torch.uint8)
        self.bytes = torchvision.io.encode_jpeg(picture)

    def replay(self):
        picture = torchvision.io.decode_jpeg(self.bytes, device="cuda").half()[None] / 255
        MODEL(torch.nn.functional.interpolate(picture, (224, 224)).to(memory_format=torch.channels_last))


def made(name):
    if name == "bert":
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval().half().cuda()
        return graph_of(model, torch.randn(8, 128, 768, device="cuda", dtype=torch.half))
    if name == "decoder":
        return graph_of(Decoder().eval().half().cuda(), torch.randn(4, 2048, device="cuda", dtype=torch.half))
    if name == "jpeg":
        pictures = Pictures()
        pictures.replay()
        torch.cuda.synchronize()
        return pictures, None
    return captured(int(name))


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


def main(names):
    with torch.inference_mode():
        graphs = {name: made(name) for name in names}
        print("ready", flush=True)
        for line in sys.stdin:
            mode, batch, seconds, *period = line.split()
            took, elapsed = done(graphs[batch][0], mode, float(seconds), float(period[0]) * 1e-3 if period else 0)
            took.sort()
            print(
                "mode=%s batch=%s steps=%d img_s=%.1f p50_us=%.1f p99_us=%.1f max_us=%.1f"
                % (
                    mode,
                    batch,
                    len(took),
                    len(took) * (int(batch) if batch.isdigit() else 1) / elapsed,
                    took[len(took) // 2] * 1e6,
                    took[int(len(took) * 0.99)] * 1e6,
                    took[-1] * 1e6,
                ),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
