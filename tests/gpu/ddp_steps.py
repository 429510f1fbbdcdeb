# SPDX-License-Identifier: Apache-2.0
"""A data-parallel job whose ranks wait for each other in each step: PyTorch DDP, 8 x 4096^2 bf16, NCCL.

    ddp_steps.py -n NAME -b DIR -o FILE -t SECONDS [--ranks N] [--rank R --port P]

Says DIR/NAME.ready, waits for DIR/go, does nothing while DIR/NAME.pause is there, and ends when DIR/stop is. FILE gets
the time of each step (CLOCK_MONOTONIC, seconds, a line each). Without --rank it starts all ranks, --ranks of them
(two), one per device; with --rank it is that rank, on its first device (the ranks of a job of two tenants).
"""
import argparse
import datetime
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("-n", dest="name", default="job")
parser.add_argument("-b", dest="dir", default="/tmp")
parser.add_argument("-o", dest="log")
parser.add_argument("-t", dest="seconds", type=float, default=60)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--rank", type=int)
parser.add_argument("--device", type=int, default=0)
parser.add_argument("--port", type=int)
parser.add_argument("--batch", type=int, default=1024)
args = parser.parse_args()
EACH = 8  # steps between two looks at the directory: all ranks have to agree


def here(name):
    return os.path.exists(os.path.join(args.dir, name))


def start_ranks():
    port = args.port or 20000 + os.getpid() % 20000
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--rank", str(r), "--device", str(r),
                               "--port", str(port)]) for r in range(args.ranks)]
    codes = [rank.wait() for rank in ranks]
    sys.exit(max(codes))


if args.rank is None:
    start_ranks()

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), NCCL_NVLS_ENABLE="0")
torch.cuda.set_device(args.device)
dist.init_process_group("nccl", rank=args.rank, world_size=args.ranks, timeout=datetime.timedelta(seconds=10))
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False) for _ in range(8)])
model = torch.nn.parallel.DistributedDataParallel(model.cuda().to(torch.bfloat16), device_ids=[args.device])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
data = torch.randn(args.batch, 4096, device="cuda", dtype=torch.bfloat16)
flags = torch.zeros(2, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=False)
    model(data).float().mean().backward()
    optimizer.step()
    torch.cuda.synchronize()


def agree():
    """Whether any rank sees that the job is to pause, or to end."""
    flags.copy_(torch.tensor([here(args.name + ".pause"), here("stop")], dtype=torch.float32))
    dist.all_reduce(flags)
    return [bool(x) for x in flags.tolist()]


for _ in range(5):
    step()
dist.barrier()
if args.rank == 0:
    open(os.path.join(args.dir, args.name + ".ready"), "w").close()
while not here("go"):
    time.sleep(0.001)
end = time.monotonic() + args.seconds
log = open(args.log, "w") if args.log and args.rank == 0 else None
n = 0
while True:
    pause, stop = agree()
    while pause and here(args.name + ".pause") and not here("stop"):
        time.sleep(0.002)
    if stop or time.monotonic() > end:
        break
    for _ in range(EACH):
        step()
        n += 1
        if log:
            log.write(f"{time.monotonic():.6f}\n")
    if log:
        log.flush()
if args.rank == 0:
    print(f"name={args.name} steps={n}", flush=True)
os._exit(0)  # the other rank may have seen the end first
