# SPDX-License-Identifier: Apache-2.0
"""Time from the end of `import torch` to the first tensor on the device, in milliseconds.

Prints one line:  first_tensor_ms=412.3 import_ms=2801.0 total_mib=143771 free_mib=143120
"""
import time

begin = time.monotonic()
import torch  # noqa: E402  (the import is what is timed)

imported = time.monotonic()
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
ready = time.monotonic()
free, total = torch.cuda.mem_get_info()
print(f"first_tensor_ms={(ready - imported) * 1e3:.1f} import_ms={(imported - begin) * 1e3:.1f} "
      f"total_mib={total >> 20} free_mib={free >> 20}", flush=True)
