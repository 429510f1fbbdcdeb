# SPDX-License-Identifier: Apache-2.0
"""PyTorch on part of the multiprocessors: where its streams compute, and that what it computes is right.

Prints name=value words: the count that it is told, on how many multiprocessors blocks were that were put into its default
stream, a side stream and a stream of another thread; products a second; errors against double precision; img/s.
"""
import ctypes
import threading
import time

import torch
import torchvision

WHERE = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry where(.param .u64 bits)
{
        .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<9>;
        ld.param.u64 %d1, [bits]; mov.u32 %r1, %smid; mov.u64 %d2, %globaltimer;
        shr.u32 %r2, %r1, 6; and.b32 %r3, %r1, 63; mul.wide.u32 %d3, %r2, 8;
        add.u64 %d4, %d1, %d3; mov.u64 %d5, 1; shl.b64 %d5, %d5, %r3;
        atom.global.or.b64 %d6, [%d4], %d5;
STAY:   mov.u64 %d7, %globaltimer; sub.u64 %d8, %d7, %d2;
        setp.lt.u64 %p1, %d8, 200000; @%p1 bra STAY;
        ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")


def check(status):
    if status:
        raise RuntimeError(f"CUDA error {status}")


def where():
    """On how many multiprocessors the current stream's blocks are."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    bits = torch.zeros(4, dtype=torch.int64, device="cuda")
    check(cuda.cuModuleLoadData(ctypes.byref(module), WHERE))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"where"))
    argument = ctypes.c_uint64(bits.data_ptr())
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    check(cuda.cuLaunchKernel(function, 1056, 1, 1, 256, 1, 1, 0, stream, arguments, None))
    torch.cuda.synchronize()
    return sum(bin(word & (1 << 64) - 1).count("1") for word in bits.tolist())


def rate(work, seconds=1.0):
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


def train():
    model = torchvision.models.resnet18(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(16, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (16,), device="cuda")
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # in threads of its own
        optimizer.step()
        losses.append(loss.item())
    return losses[-1] < losses[0]


def main():
    print("count=%d" % torch.cuda.get_device_properties(0).multi_processor_count)
    print("default_sms=%d" % where())
    with torch.cuda.stream(torch.cuda.Stream()):
        print("stream_sms=%d" % where())
    got = []

    def other():
        with torch.cuda.stream(torch.cuda.Stream()):
            got.append(where())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    print("thread_sms=%d" % got[0], flush=True)

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    exact = a[:256].double() @ b.double()
    error = float(((a[:256] @ b).double() - exact).norm() / exact.norm())
    print("bf16_error=%.1e bf16_s=%.1f" % (error, rate(lambda: a @ b)), flush=True)
    c = torch.randn(4096, 4096, device="cuda")
    print("fp32_s=%.1f" % rate(lambda: c @ c), flush=True)
    streams = [torch.cuda.Stream() for _ in range(8)]
    small = torch.randn(1024, 1024, device="cuda")

    def many():
        for stream in streams:
            with torch.cuda.stream(stream):
                small @ small

    print("streams_s=%.1f" % rate(many), flush=True)
    print("trained=%s" % ("ok" if train() else "no"))


if __name__ == "__main__":
    main()
