# SPDX-License-Identifier: Apache-2.0
"""PyTorch under a quota: it must see the quota, be refused at it, recover, and compute as before.

    torch_oom.py [STEP-MiB]        (step of the filling; default 256)

Prints key=value lines; the last one is result=ok. Exit status 0, or 1 with result=FAILED and why.
The checksums are to be compared between a native and a supervised run of the same machine.
"""
import os
import sys
import traceback

import torch

STEP = (int(sys.argv[1]) if len(sys.argv) > 1 else 256) << 20


def say(key, value):
    print(f"{key}={value}", flush=True)


def mib(n_bytes):
    return n_bytes >> 20


class Numbers(torch.utils.data.Dataset):
    """Made in the workers, so that forked processes do the work and the parent feeds the device."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((3, 64, 64), float(index)), os.getpid()


def fill():
    """Takes memory until refused; what is left must be less than a step and some slack."""
    held = []
    try:
        while True:
            held.append(torch.empty(STEP, dtype=torch.uint8, device="cuda").fill_(1))
    except torch.cuda.OutOfMemoryError as error:
        say("oom", type(error).__name__)
        say("oom_text", str(error).splitlines()[0][:200].replace("=", ":"))
    torch.cuda.synchronize()
    say("filled_mib", mib(len(held) * STEP))
    say("filled_free_mib", mib(torch.cuda.mem_get_info()[0]))
    ends = sum(int(t[0]) + int(t[-1]) for t in held)
    assert ends == 2 * len(held), "memory that was granted does not hold what was written"


def matmul():
    torch.manual_seed(1)
    a = torch.randint(-4, 5, (2048, 2048), device="cuda").float()
    b = torch.randint(-4, 5, (2048, 2048), device="cuda").float()
    on_device = (a @ b).cpu()
    assert torch.equal(on_device, a.cpu() @ b.cpu()), "integers in float32 must multiply exactly"
    say("matmul_checksum", int(on_device.abs().sum(dtype=torch.float64)))


def resnet():
    import torchvision

    torch.manual_seed(2)
    model = torchvision.models.resnet50(weights=None).eval().half().cuda()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 224, 224).half().cuda().to(memory_format=torch.channels_last)
    with torch.inference_mode():
        y = model(x).float()
    assert bool(torch.isfinite(y).all()), "ResNet-50 gave NaN or infinity"
    say("resnet50_checksum", f"{float(y.abs().sum(dtype=torch.float64)):.3f}")


def loader():
    data = torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=4, pin_memory=True,
                                       multiprocessing_context="fork")
    total, workers = torch.zeros((), dtype=torch.float64, device="cuda"), set()
    for batch, pids in data:
        total += batch.cuda(non_blocking=True).sum(dtype=torch.float64)
        workers.update(int(p) for p in pids)
    expected = 3 * 64 * 64 * sum(range(256))
    say("loader_workers", len(workers))
    say("loader_sum", int(total))
    assert len(workers) == 4 and int(total) == expected, f"expected {expected} from 4 workers"


def main():
    say("torch", torch.__version__)
    free, total = torch.cuda.mem_get_info()
    say("total_mib", mib(total))
    say("free_mib", mib(free))
    say("device_total_mib", mib(torch.cuda.get_device_properties(0).total_memory))
    fill()
    torch.cuda.empty_cache()
    say("recovered_free_mib", mib(torch.cuda.mem_get_info()[0]))
    matmul()
    try:
        import torchvision  # noqa: F401
    except ImportError:
        say("resnet50_checksum", "skipped: no torchvision")
    else:
        resnet()
    loader()
    say("peak_reserved_mib", mib(torch.cuda.max_memory_reserved()))
    return 0


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # whatever it was, the run has failed: say what, once
        traceback.print_exc()
        say("result", f"FAILED {type(error).__name__}")
        sys.exit(1)
    say("result", "ok")
