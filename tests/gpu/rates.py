#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What programs of two devices do, natively and as a tenant by turns, for tests/gpu/server.sh.

    rates.py compare VERDICTS COMMAND...    a table; lines of TAP to the file VERDICTS; COMMAND... makes a tenant
    rates.py torch | jax                    a side, both devices: reads "ROW COUNT" lines, answers "ROW SECONDS"

A machine's rate drifts, so single runs say nothing of a percent. Both sides live side by side, each has started its
libraries once, and one of them waits for a line, on no processor and with nothing on a device, while the other has a
round: a second or so of steps of tens of ms, or of many small ones. Who is first changes from round to round. What is
compared are medians. The spread of a row is the middle half of its native rounds; the median of seven is known to a
third of that, so a row that spreads over more than a percent decides nothing, and is said to be undecided.

Environment: ROUNDS=7, WINDOW=1.0 seconds of a round, LIMIT=160 seconds for all; ROWS: a regular expression.
"""
import importlib.util
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Kernels that are chosen by trying them could be others on the two sides.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

LEAST_ROUNDS = 5
BOUND = 0.99  # of native
SPREAD = 0.01  # more than this, and a row decides nothing
# what it is: unit, bytes of a step (0: steps are counted)
ROWS = {
    "torch": {"reduce-1M": 1 << 20, "reduce-256M": 1 << 28, "reduce-1G": 1 << 30, "ddp": 0, "fsdp": 0},
    "jax": {"pmap": 0},
}
WIDTH, LAYERS, BATCH = 8192, 8, 8192  # a step computes some 26 Tflop on each device
if os.environ.get("RATES_TINY"):  # where there is no device, to try the script
    WIDTH, LAYERS, BATCH = 64, 2, 64


# ---- a side -------------------------------------------------------------------------------------
class Torch:
    """One of two ranks. Rank 0 starts the other, and hands each line on to it."""

    def __init__(self, rank, store):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.rank = torch, dist, rank
        self.is_cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", rank) if self.is_cuda else torch.device("cpu")
        self.type = torch.bfloat16 if self.is_cuda else torch.float32
        more = {}
        if self.is_cuda:
            torch.cuda.set_device(rank)
            more = {"device_id": self.device}
        dist.init_process_group("nccl" if self.is_cuda else "gloo", init_method="file://" + store, world_size=2,
                                rank=rank, **more)
        self.steps = {}

    def settle(self):
        if self.is_cuda:
            self.torch.cuda.synchronize()

    def layers(self):
        how = {"bias": False, "device": self.device, "dtype": self.type}
        return self.torch.nn.Sequential(*(self.torch.nn.Linear(WIDTH, WIDTH, **how) for _ in range(LAYERS)))

    def trained(self, model):
        optimizer = self.torch.optim.SGD(model.parameters(), lr=1e-6)
        data = self.torch.randn(BATCH, WIDTH, device=self.device, dtype=self.type)

        def step():
            optimizer.zero_grad()
            model(data).float().mean().backward()
            optimizer.step()

        return step

    def make(self, row):
        """The function that does one step of it."""
        if row.startswith("reduce"):
            x = self.torch.ones(ROWS["torch"][row] // 4, device=self.device)
            return lambda: self.dist.all_reduce(x)
        if row == "ddp":
            ids = [self.rank] if self.is_cuda else None
            return self.trained(self.torch.nn.parallel.DistributedDataParallel(self.layers(), device_ids=ids))
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        each = ModuleWrapPolicy({self.torch.nn.Linear})
        return self.trained(FullyShardedDataParallel(self.layers(), auto_wrap_policy=each, device_id=self.rank))

    def round(self, row, count):
        step = self.steps.get(row) or self.steps.setdefault(row, self.make(row))
        self.dist.barrier()
        self.settle()
        begin = time.monotonic()
        for _ in range(count):
            step()
        self.settle()
        return time.monotonic() - begin


class Jax:
    """One process with both devices: a training step by pmap, whose gradients are summed over them."""

    def __init__(self):
        import jax
        import jax.numpy as jnp
        self.jax, self.n = jax, jax.local_device_count()

        def loss(weights, x):
            for w in weights:
                x = x @ w
            return jnp.mean(x.astype(jnp.float32))

        def step(weights, x):
            slopes = jax.lax.psum(jax.grad(loss)(weights, x), "i")
            return [w - 1e-6 * s for w, s in zip(weights, slopes)]

        self.step = jax.pmap(step, axis_name="i", donate_argnums=0)
        self.weights = jax.pmap(lambda key: [jax.random.normal(k, (WIDTH, WIDTH), jnp.bfloat16) / WIDTH ** 0.5
                                             for k in jax.random.split(key, LAYERS)])(
            jax.random.split(jax.random.PRNGKey(0), self.n))
        self.data = jax.pmap(lambda key: jax.random.normal(key, (BATCH, WIDTH), jnp.bfloat16))(
            jax.random.split(jax.random.PRNGKey(1), self.n))

    def round(self, row, count):
        self.jax.block_until_ready(self.weights)
        begin = time.monotonic()
        for _ in range(count):
            self.weights = self.step(self.weights, self.data)
        self.jax.block_until_ready(self.weights)
        return time.monotonic() - begin


def side(kind, rank, store):
    other = None
    if kind == "torch" and rank == 0:
        store = tempfile.mktemp()
        other = subprocess.Popen([sys.executable, __file__, kind, "1", store], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, text=True)
    worker = Torch(rank, store) if kind == "torch" else Jax()
    if rank == 0:
        print("up 0", flush=True)
    while line := sys.stdin.readline():
        if other:
            other.stdin.write(line)
            other.stdin.flush()
        row, count = line.split()
        took = worker.round(row, int(count))
        if rank == 0:
            print(row, took, flush=True)
    if other:
        other.stdin.close()
        other.wait()
    os._exit(0)  # what the libraries do at their end is not what is measured


# ---- both by turns --------------------------------------------------------------------------------
class Silent(Exception):
    """A side that has ended, or says nothing."""


class Side:
    def __init__(self, kind, before):
        self.name = f"{kind}, {'a tenant' if before else 'natively'}"
        self.process = subprocess.Popen([*before, sys.executable, __file__, kind], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        self.rest = b""

    def answer(self, word, until):
        while True:
            line, newline, rest = self.rest.partition(b"\n")
            if newline:
                self.rest = rest
                words = line.decode(errors="replace").split()
                if len(words) == 2 and words[0] == word:
                    return float(words[1])
                print(line.decode(errors="replace"), file=sys.stderr)  # a library's word
                continue
            if not select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))[0]:
                raise Silent(f"{self.name}: no answer to {word}")
            piece = os.read(self.process.stdout.fileno(), 4096)
            if not piece:
                raise Silent(f"{self.name}: it has ended at {word}")
            self.rest += piece

    def round(self, row, count, until):
        try:
            self.process.stdin.write(f"{row} {count}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError as e:
            raise Silent(f"{self.name}: it has ended at {row}") from e
        return self.answer(row, min(until, time.monotonic() + 40))

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def rounds_of(kind, rows, tenant, soft, until):
    """For each row its rates, natively and as a tenant: no more than the fewest rounds after `soft`."""
    rates = {row: ([], []) for row in rows}
    sides = Side(kind, []), Side(kind, tenant)
    try:
        for s in sides:
            s.answer("up", until)
        counts = {}
        for row in rows:
            for s in sides:
                s.round(row, 3, until)  # makes what it needs
            few = 5 * max(1, int(0.02 / (sides[0].round(row, 3, until) / 3)))
            counts[row] = max(1, round(few * float(os.environ.get("WINDOW", 1)) / sides[0].round(row, few, until)))
            sides[1].round(row, few, until)
        for i in range(int(os.environ.get("ROUNDS", 7))):
            if i >= LEAST_ROUNDS and time.monotonic() > soft:
                break
            for row in rows:
                for n in (0, 1) if i % 2 == 0 else (1, 0):
                    rates[row][n].append(counts[row] / sides[n].round(row, counts[row], until))
    except Silent as e:
        print(f"# {e}", flush=True)
    finally:
        for s in sides:
            s.end()
    return rates


def spread_of(values):
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / statistics.median(values)


def judge(row, native, tenant):
    """A line of TAP."""
    if min(len(native), len(tenant)) < LEAST_ROUNDS:
        return f"not ok - {row}: {min(len(native), len(tenant))} rounds of {LEAST_ROUNDS}"
    part, spread = statistics.median(tenant) / statistics.median(native), spread_of(native)
    claim = f"{row}: within 1 % of native ({part:.4f}; native spreads over {100 * spread:.2f} %)"
    if part < BOUND - spread:  # whatever the spread is
        return f"not ok - {claim}"
    if spread > SPREAD:
        return f"ok - {claim} # SKIP not decided"
    return f"{'ok' if part >= BOUND else 'not ok'} - {claim}"


def text_of(row, rate):
    size = {**ROWS["torch"], **ROWS["jax"]}[row]
    return f"{rate * size / 1e9:.2f} GB/s" if size else f"{rate:.2f} /s"


def row_of(row, native, own):
    """A row of the table."""
    each = [text_of(row, rate) for rate in (statistics.median(native), statistics.median(own), min(native), max(native),
                                            min(own), max(own))]
    return (f"{row:12} {each[0]:>12} {each[1]:>12} {statistics.median(own) / statistics.median(native):7.4f} "
            f"{100 * spread_of(native):6.2f} %   {len(native)}: {each[2]} to {each[3]}, a tenant's {each[4]} to {each[5]}")


def compare(verdicts, tenant):
    begin, limit = time.monotonic(), float(os.environ.get("LIMIT", 160))
    print(f"{'by turns':12} {'natively':>12} {'a tenant':>12} {'part':>7} {'spread':>8}   rounds, the least to the most")
    for kind, rows in ROWS.items():
        chosen = [row for row in rows if re.search(os.environ.get("ROWS", ""), row)]
        if not chosen:
            continue
        if not importlib.util.find_spec(kind):
            verdicts.writelines(f"ok - {row}: within 1 % of native # SKIP no {kind} here\n" for row in chosen)
            continue
        soft = begin + limit * (0.65 if kind == "torch" else 0.9)
        for row, (native, own) in rounds_of(kind, chosen, tenant, soft, begin + limit).items():
            verdicts.write(judge(row, native, own) + "\n")
            verdicts.flush()
            if len(native) > 1 and own:
                print(row_of(row, native, own), flush=True)
    print(f"# {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the sides are ended
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            compare(file, sys.argv[3:])
    else:
        side(sys.argv[1], int((sys.argv[2:3] or ["0"])[0]), (sys.argv[3:4] or [""])[0])
