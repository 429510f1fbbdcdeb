# SPDX-License-Identifier: Apache-2.0
"""PyTorch that keeps the device busy: matrix products, some ahead of the device, for SECONDS.

    torch_burn.py SECONDS
"""
import sys
import time

import torch

end = time.monotonic() + float(sys.argv[1])
a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
c = torch.empty_like(a)
print(f"total_mib={torch.cuda.mem_get_info()[1] >> 20}", flush=True)
n = 0
while time.monotonic() < end:
    for _ in range(64):
        torch.mm(a, b, out=c)
    torch.cuda.current_stream().synchronize() if n % 4 == 0 else None
    n += 1
print(f"products={64 * n}", flush=True)
