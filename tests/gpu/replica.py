# SPDX-License-Identifier: Apache-2.0
"""A replica of a language model for tests/gpu/route.sh and generations.sh: half of a 7 B Llama with random weights
(--layers 32 --inner 14336: all of one), its KV cache, reuse of cached prefixes by block hash, chunked prefill, decode
in batches, OpenAI's API with server-sent events on a unix socket. A token is four bytes of the prompt.

    replica.py --listen PATH                                on the device
    replica.py --listen PATH --stand-in TOKENS_PER_S,PART,SEAT,FILE
                        no model: it sleeps as long as one would take; FILE is common to all, 128 zeros
    replica.py --listen PATH --words MIB
                        no model: its tokens are words of so much device memory, which libcuda copies; without PyTorch

Besides the API: GET /health, GET /replica/measure (tokens a second of uncached prefill), GET /replica/check
(a reused prefix against a computed one), POST /replica/forget, GET /replica/stats, GET /replica/sums (a hash of all
that it has on the device).
"""
import argparse
import array
import asyncio
import collections
import ctypes
import hashlib
import json
import mmap
import os
import random
import threading
import time

BLOCK = 128  # tokens of a cached block
CHUNK = 2048  # tokens of prefill in one iteration
SLOTS = 16  # sequences at once
LONGEST = 6144  # tokens of a sequence
VOCABULARY = 32000
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Llama:
    """Grouped-query attention, rotary positions, SiLU; `self.kv` holds the sequences, `self.pool` the cached blocks."""

    HIDDEN, HEADS, GROUPS = 4096, 32, 8

    def __init__(self, n_blocks, n_layers, inner):
        import torch
        from torch.nn import functional
        from torch.nn.attention.bias import causal_lower_right

        self.torch, self.f, self.causal = torch, functional, causal_lower_right
        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        self.size = self.HIDDEN // self.HEADS

        def weights(*shape):
            return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_(0, 0.02)

        self.embedding = weights(VOCABULARY, self.HIDDEN)
        self.layers = [
            (
                weights((self.HEADS + 2 * self.GROUPS) * self.size, self.HIDDEN),
                weights(self.HIDDEN, self.HIDDEN),
                weights(2 * inner, self.HIDDEN),
                weights(self.HIDDEN, inner),
            )
            for _ in range(n_layers)
        ]
        shape = (BLOCK, self.GROUPS, self.size)
        self.kv = torch.zeros(n_layers, 2, SLOTS, LONGEST, *shape[1:], device="cuda", dtype=torch.bfloat16)
        self.pool = torch.zeros(n_blocks, n_layers, 2, *shape, device="cuda", dtype=torch.bfloat16)
        angle = torch.outer(
            torch.arange(LONGEST, device="cuda").float(),
            10000 ** (-torch.arange(0, self.size, 2, device="cuda").float() / self.size),
        )
        self.cos, self.sin = angle.cos().bfloat16()[:, None], angle.sin().bfloat16()[:, None]

    def norm(self, x):
        return self.f.rms_norm(x, (self.HIDDEN,), eps=1e-5)

    def turned(self, x, at):
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[at], self.sin[at]
        return self.torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def forward(self, tokens, at, attend):
        """tokens, at: of n rows. attend(layer, q, k, v) -> [n, heads * size]. Returns [n, hidden]."""
        x = self.embedding[tokens]
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            parts = (self.norm(x) @ qkv.T).view(len(tokens), -1, self.size)
            q, k, v = parts.split((self.HEADS, self.GROUPS, self.GROUPS), dim=1)
            x = x + attend(layer, self.turned(q, at), self.turned(k, at), v) @ out.T
            gate, inner = (self.norm(x) @ up.T).chunk(2, dim=-1)
            x = x + (self.f.silu(gate) * inner) @ down.T
        return x

    def best(self, x):
        return (self.norm(x) @ self.embedding.T).argmax(dim=-1).tolist()

    def hidden(self, slot, tokens, start):
        """Of tokens [start, start + n) of the sequence; what is before them must be in its KV."""
        n, end = len(tokens), start + len(tokens)
        causal = self.causal(n, end)

        def attend(layer, q, k, v):
            self.kv[layer, 0, slot, start:end] = k
            self.kv[layer, 1, slot, start:end] = v
            keys, values = (
                self.kv[layer, i, slot, :end].repeat_interleave(self.HEADS // self.GROUPS, dim=1).transpose(0, 1)[None]
                for i in (0, 1)
            )
            mixed = self.f.scaled_dot_product_attention(q.transpose(0, 1)[None], keys, values, attn_mask=causal)
            return mixed[0].transpose(0, 1).reshape(n, -1)

        at = self.torch.arange(start, end, device="cuda")
        return self.forward(self.torch.tensor(tokens, device="cuda"), at, attend)

    def prefill(self, slot, tokens, start):
        return self.best(self.hidden(slot, tokens, start)[-1:])[0]

    def decode(self, rows):
        """rows: (slot, token, position) -> the next token of each."""
        torch = self.torch
        slots, tokens, at = (torch.tensor(column, device="cuda") for column in zip(*rows))
        top = max(row[0] for row in rows) + 1
        longest = -(-(max(row[2] for row in rows) + 1) // BLOCK) * BLOCK
        last = torch.zeros(top, device="cuda", dtype=torch.long)
        last[slots] = at
        seen = (torch.arange(longest, device="cuda")[None] <= last[:, None])[:, None, None]

        def attend(layer, q, k, v):
            self.kv[layer, 0, slots, at] = k
            self.kv[layer, 1, slots, at] = v
            each = self.HEADS // self.GROUPS
            asked = q.new_zeros(top, self.GROUPS, each, self.size)
            asked[slots] = q.view(len(rows), self.GROUPS, each, self.size)
            keys, values = (self.kv[layer, i, :top, :longest].transpose(1, 2) for i in (0, 1))
            mask = seen.expand(top, self.GROUPS, each, longest)
            mixed = self.f.scaled_dot_product_attention(asked, keys, values, attn_mask=mask)
            return mixed[slots].reshape(len(rows), -1)

        return self.best(self.forward(tokens, at, attend))

    def take(self, slot, start, block):
        self.kv[:, :, slot, start : start + BLOCK] = self.pool[block]

    def keep(self, slot, start, block):
        self.pool[block] = self.kv[:, :, slot, start : start + BLOCK]

    def wait(self):
        self.torch.cuda.synchronize()

    def check(self):
        """The last row's hidden state after a reused prefix against all computed at once: relative difference."""
        tokens = [i * 7919 % VOCABULARY for i in range(1000)]
        whole = self.hidden(0, tokens, 0)[-1].float()
        for i in range(4):
            self.keep(0, i * BLOCK, i)
            self.take(1, i * BLOCK, i)
        reused = self.hidden(1, tokens[4 * BLOCK :], 4 * BLOCK)[-1].float()
        self.hidden(2, tokens[:-1], 0)
        decoded = self.best(self.hidden(2, tokens[-1:], 999)) == self.decode([(1, tokens[-1], 999)])
        return {"difference": ((whole - reused).norm() / whole.norm()).item(), "decode_same": decoded}

    def sums(self):
        """Of each 4096 words their sum, and that of the words by their place."""
        torch, told = self.torch, hashlib.blake2b(digest_size=16)
        at = torch.arange(1, self.HIDDEN + 1, device="cuda")
        for tensor in (self.embedding, *(w for layer in self.layers for w in layer), self.kv, self.pool):
            for some in tensor.view(torch.int16).view(-1, self.HIDDEN).split(1 << 13):
                some = some.long()
                told.update(torch.stack((some.sum(dim=1), (some * at).sum(dim=1))).cpu().numpy().tobytes())
        return {"sums": told.hexdigest()}


class StandIn:
    """Takes the time that a share of a device takes: what idle tenants leave is lent to those that work."""

    def __init__(self, rate, part, seat, shared):
        self.rate, self.part, self.seat = float(rate), float(part), int(seat)  # rate: of the whole device
        with open(shared, "r+b") as file:
            self.busy = memoryview(mmap.mmap(file.fileno(), 128)).cast("d")  # by seat: its part while it works

    def work(self, tokens):
        self.busy[self.seat] = self.part
        since = time.perf_counter()
        while tokens > 0:
            rate = self.rate * self.part / max(self.part, sum(self.busy))
            time.sleep(min(0.004, tokens / rate))
            now = time.perf_counter()
            tokens -= (now - since) * rate
            since = now
        self.busy[self.seat] = 0

    def prefill(self, _slot, tokens, _start):
        self.work(len(tokens))
        return 1

    def decode(self, rows):
        self.work(150)
        return [1] * len(rows)

    def take(self, slot, start, block):
        pass

    keep = take

    def wait(self):
        pass

    def check(self):
        return {"difference": 0.0, "decode_same": True}

    def sums(self):
        return {"sums": ""}


class Words(StandIn):
    """Has MIB of device memory, of words that are the same each time; a token is one of them, by what was before."""

    PIECE = 1 << 20

    def __init__(self, mib):
        self.cuda, self.context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        self.must("cuInit", 0)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.must("cuCtxSetCurrent", self.context)
        self.pieces, words = [], random.Random(1)
        for _ in range(mib):
            at = ctypes.c_ulonglong()
            self.must("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(self.PIECE))
            self.must("cuMemcpyHtoD_v2", at, words.randbytes(self.PIECE), ctypes.c_size_t(self.PIECE))
            self.pieces.append(at)

    def must(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise OSError("%s: %d" % (name, result))

    def read(self, piece, offset, size):
        into = ctypes.create_string_buffer(size)
        self.must("cuCtxSetCurrent", self.context)  # of the thread that asks
        self.must("cuMemcpyDtoH_v2", into, ctypes.c_ulonglong(piece.value + offset), ctypes.c_size_t(size))
        return into.raw

    def token(self, before, place):
        at = (before * 7919 + place * 104729) % (len(self.pieces) * self.PIECE // 4) * 4
        return int.from_bytes(self.read(self.pieces[at // self.PIECE], at % self.PIECE, 4), "little") % VOCABULARY

    def prefill(self, _slot, tokens, start):
        before = start
        for token in tokens:
            before = (before * 31 + token) % (1 << 61)
        return self.token(before, start + len(tokens))

    def decode(self, rows):
        return [self.token(token, place) for _slot, token, place in rows]

    def sums(self):
        told = hashlib.blake2b(digest_size=16)
        for piece in self.pieces:
            told.update(self.read(piece, 0, self.PIECE))
        return {"sums": told.hexdigest()}


class Sequence:
    def __init__(self, tokens, output, give):
        self.tokens, self.output, self.give = tokens, output, give  # give(token, cached), in the engine's thread
        self.hashes, before = [], b""
        for i in range(0, len(tokens) - BLOCK + 1, BLOCK):
            block = array.array("I", tokens[i : i + BLOCK]).tobytes()
            before = hashlib.blake2b(before + block, digest_size=16).digest()
            self.hashes.append(before)
        self.done = self.cached = self.n_given = 0
        self.gone = False


class Engine(threading.Thread):
    """Each iteration: a token for all that run, then a chunk of the oldest prompt."""

    def __init__(self, model, n_blocks):
        super().__init__(daemon=True)
        self.model, self.n_blocks = model, n_blocks
        self.changed = threading.Condition()
        self.waiting, self.running, self.filling = collections.deque(), {}, None  # running: slot -> sequence
        self.free = list(range(SLOTS - 1, -1, -1))
        self.blocks, self.spare = collections.OrderedDict(), list(range(n_blocks))  # hash -> block, oldest first
        self.orders = []
        self.n_prompt = self.n_cached = 0

    def put(self, sequence):
        with self.changed:
            self.waiting.append(sequence)
            self.changed.notify()

    def order(self, call):
        """Has the engine's thread call it between two iterations; a future of its result."""
        future = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        with self.changed:
            self.orders.append(lambda: loop.call_soon_threadsafe(future.set_result, call()))
            self.changed.notify()
        return future

    def run(self):
        while True:
            with self.changed:
                while not (self.waiting or self.running or self.filling or self.orders):
                    self.changed.wait()
                orders, self.orders = self.orders, []
            for order in orders:
                order()
            if self.running:
                self.decode()
            if not self.filling and self.waiting and self.free:
                self.begin(self.waiting.popleft())
            if self.filling:
                self.fill(*self.filling)

    def begin(self, sequence):
        slot = self.free.pop()
        for i, key in enumerate(sequence.hashes):
            if key not in self.blocks or (i + 1) * BLOCK >= len(sequence.tokens):
                break
            self.blocks.move_to_end(key)
            self.model.take(slot, i * BLOCK, self.blocks[key])
            sequence.done = sequence.cached = (i + 1) * BLOCK
        self.n_prompt += len(sequence.tokens)
        self.n_cached += sequence.cached
        self.filling = (slot, sequence)

    def fill(self, slot, sequence):
        chunk = sequence.tokens[sequence.done : sequence.done + CHUNK]
        token = self.model.prefill(slot, chunk, sequence.done)
        sequence.done += len(chunk)
        if sequence.done < len(sequence.tokens) and not sequence.gone:
            return
        self.filling = None
        for i in range(sequence.done // BLOCK):
            self.remember(slot, i, sequence.hashes[i])
        self.running[slot] = sequence
        self.given(slot, sequence, token)

    def remember(self, slot, i, key):
        if key in self.blocks:
            self.blocks.move_to_end(key)
            return
        block = self.spare.pop() if self.spare else self.blocks.popitem(last=False)[1]
        self.model.keep(slot, i * BLOCK, block)
        self.blocks[key] = block

    def given(self, slot, sequence, token):
        sequence.tokens.append(token)
        sequence.n_given += 1
        sequence.give(token, sequence.cached)
        if sequence.n_given >= sequence.output or sequence.gone or len(sequence.tokens) >= LONGEST:
            del self.running[slot]
            self.free.append(slot)

    def decode(self):
        rows = list(self.running.items())
        tokens = self.model.decode([(slot, s.tokens[-1], len(s.tokens) - 1) for slot, s in rows])
        for (slot, sequence), token in zip(rows, tokens):
            self.given(slot, sequence, token)

    def forget(self):
        self.spare += self.blocks.values()
        self.blocks.clear()
        self.n_prompt = self.n_cached = 0

    def measure(self, seconds=1.0, n=4096):
        """Uncached prefill, tokens a second."""
        slot, done, since = self.free[-1], 0, time.perf_counter()
        while time.perf_counter() - since < seconds:
            for start in range(0, n, CHUNK):
                self.model.prefill(slot, list(range(start, start + CHUNK)), start)
                done += CHUNK
        return done / (time.perf_counter() - since)

    def warm(self):
        for n in (CHUNK, 1024, 512):
            self.model.prefill(0, list(range(n)), 0)
        self.model.decode([(0, 1, 100), (1, 1, 200)])
        self.model.wait()


class Front:
    def __init__(self, engine, name):
        self.engine, self.name, self.n = engine, name, 0

    async def client(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                method, path, _ = head[0].split(" ", 2)
                await self.answer(method, path, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, method, path, body, writer):
        engine = self.engine
        if method == "POST" and path == "/v1/chat/completions":
            await self.chat(json.loads(body), writer)
        elif path == "/health":
            await self.whole({}, writer)
        elif path == "/replica/stats":
            await self.whole({"prompt": engine.n_prompt, "cached": engine.n_cached}, writer)
        elif path == "/replica/forget":
            await self.whole({"forgot": await engine.order(engine.forget) is None}, writer)
        elif path == "/replica/measure":
            await self.whole({"tokens_per_s": await engine.order(engine.measure)}, writer)
        elif path == "/replica/sums":
            await self.whole(await engine.order(engine.model.sums), writer)
        elif path == "/replica/check":
            await self.whole(await engine.order(engine.model.check), writer)
        else:
            error = {"message": "no such thing", "type": "not_found", "code": 404}
            await self.whole({"error": error}, writer, "404 Not Found")

    async def whole(self, value, writer, status="200 OK"):
        text = json.dumps(value).encode()
        head = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(text))
        writer.write(head.encode() + text)
        await writer.drain()

    def put(self, request):
        text = "".join(message["content"] for message in request["messages"]).encode()
        text += b" " * (-len(text) % 4)
        tokens = [word % VOCABULARY for word in array.array("I", text)][: LONGEST - 1]
        queue, loop = asyncio.Queue(), asyncio.get_running_loop()
        sequence = Sequence(
            tokens,
            max(1, request.get("max_tokens", 16)),
            lambda token, cached: loop.call_soon_threadsafe(queue.put_nowait, (token, cached)),
        )
        self.engine.put(sequence)
        return sequence, queue

    async def chat(self, request, writer):
        self.n += 1
        sequence, queue = self.put(request)
        n_prompt, words = len(sequence.tokens), []
        stream = request.get("stream", False)
        common = {"id": "chatcmpl-%d" % self.n, "created": int(time.time()), "model": self.name}
        try:
            for i in range(min(sequence.output, LONGEST - n_prompt)):
                token, cached = await queue.get()
                words.append(" %d" % token)
                if not stream:
                    continue
                if i == 0:
                    writer.write(STREAM)
                self.event(writer, {**common, "object": "chat.completion.chunk", "choices": [
                    {"index": 0, "delta": {"role": "assistant", "content": words[-1]}, "finish_reason": None}]})
                await writer.drain()
        except ConnectionError:
            sequence.gone = True
            raise
        usage = {"prompt_tokens": n_prompt, "completion_tokens": len(words), "total_tokens": n_prompt + len(words),
                 "prompt_tokens_details": {"cached_tokens": cached}}
        if not stream:
            message = {"role": "assistant", "content": "".join(words)}
            await self.whole({**common, "object": "chat.completion", "usage": usage, "choices": [
                {"index": 0, "message": message, "finish_reason": "length"}]}, writer)
            return
        self.event(writer, {**common, "object": "chat.completion.chunk", "usage": usage, "choices": [
            {"index": 0, "delta": {}, "finish_reason": "length"}]})
        self.event(writer, None)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def event(self, writer, value):
        text = b"data: %s\n\n" % (json.dumps(value).encode() if value else b"[DONE]")
        writer.write(b"%x\r\n%s\r\n" % (len(text), text))


async def serve(options):
    if options.stand_in:
        model = StandIn(*options.stand_in.split(","))
    elif options.words:
        model = Words(options.words)
    else:
        model = Llama(options.blocks, options.layers, options.inner)
    engine = Engine(model, options.blocks)
    engine.warm()
    engine.start()
    front = Front(engine, options.model)
    server = await asyncio.start_unix_server(front.client, options.listen + ".new", limit=1 << 20, backlog=1024)
    os.rename(options.listen + ".new", options.listen)  # there when it is ready
    async with server:
        await server.serve_forever()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--model", default="test")
    parser.add_argument("--blocks", type=int, default=384)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--inner", type=int, default=11008)
    parser.add_argument("--words", type=int, metavar="MIB")
    parser.add_argument("--stand-in", metavar="TOKENS_PER_S,PART,SEAT,FILE")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
