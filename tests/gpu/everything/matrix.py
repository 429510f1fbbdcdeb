#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every row natively and as a tenant, in turns, and prints what differs. Called by everything.sh.

    matrix.py SUBLET BIN RAW

SUBLET: the program. BIN: the folder of the rows' own programs. RAW: where raw output goes. Environment: ROWS (a
regular expression of row names), QUOTA (24G), ROUNDS (3: of a rate the best of them counts), LIMIT (400: seconds
after which no further row is begun).

A row is a program of its own, or a function of one of the modules *_rows.py, of which one process runs natively and
one as a tenant. What the gate refused is found per row: of a program in its report, of a module's row in the
tenant's events since the row began, so that there a number is named with the first row that met it only.
"""
import collections
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUBLET, BIN, RAW = sys.argv[1:4]
ROWS = re.compile(os.environ.get("ROWS", "."))
QUOTA = os.environ.get("QUOTA", "24G")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
LIMIT = float(os.environ.get("LIMIT", "400"))
BEGIN = time.monotonic()
ALL = "all"
PROFILE = "all,profile"

# name, seconds at most, capabilities, command. What it prints is its result, but for words rate=NUMBER, which are its
# rate, and `sed` expressions that take away what may differ. {bin} is the folder of programs.
# `check` looks at what the tenant printed: "" or what is wrong with it; a row with `memory` is a tenant of that quota
# alone, since natively it would take the whole device.
Row = collections.namedtuple("Row", "name limit capabilities command without extra check memory")


def program(name, limit, command, capabilities=ALL, without=(), extra=None, check=None, memory=None):
    return Row(name, limit, capabilities, command, without, extra or {}, check, memory)


def mib_of(size):
    return int(size[:-1]) * {"M": 1, "G": 1024}[size[-1]]


def heap_is_quota(text):
    """Vulkan's heap of the device is as large as the quota, and its budget no larger."""
    heaps = [(int(flags, 16), int(size), int(budget)) for flags, size, budget in
             re.findall(r"heap \d+ flags=([0-9a-f]+) size=(\d+) MiB budget=(\d+) MiB", text)]
    local = [(size, budget) for flags, size, budget in heaps if flags & 1]
    if not local or any(abs(size - mib_of(QUOTA)) > 64 or budget > mib_of(QUOTA) for size, budget in local[:1]):
        return f"heap and budget {local} MiB, quota {mib_of(QUOTA)} MiB"
    return ""


def figures_are_quota(text):
    """GL_NVX_gpu_memory_info, where the library has it."""
    figures = {name: int(kib) for name, kib in re.findall(r"memory (\w+)=(\d+) KiB error=0\b", text)}
    if figures.get("total", 0) >> 10 > mib_of(QUOTA) or figures.get("free", 0) > figures.get("total", 0):
        return f"{figures} KiB, quota {mib_of(QUOTA)} MiB"
    return ""


def stops_at(memory, word, least=0.7):
    """A tenant that takes all it can: it ends at the quota, and the API says so in its own word."""
    def check(text):
        got = re.search(r"got_mib=(\d+)", text)
        if not got or not least * mib_of(memory) <= int(got[1]) <= mib_of(memory) or word not in text:
            return f"{text.strip().splitlines()[:1]}, quota {mib_of(memory)} MiB, wanted {word}"
        return ""
    return check


def spills(memory, size):
    """OpenGL never says that video memory is at its end: what does not fit goes to host memory. So the device's part
    ends at the quota, and all of it was there."""
    def check(text):
        figures = {name: int(kib) >> 10 for name, kib in re.findall(r"memory (\w+)=(\d+) KiB error=0\b", text)}
        if f"got_mib={size} error=0" not in text or not mib_of(memory) >= figures.get("total", 1 << 30) or \
                figures.get("free", 1 << 30) > mib_of(memory) // 16:
            return f"{text.strip().splitlines()[-4:]}, quota {mib_of(memory)} MiB, {size} MiB of textures"
        return ""
    return check


def full(name, command, word, memory="2G"):
    return program(name, 30, command, check=stops_at(memory, word), memory=memory)


# A figure that moves by itself: temperatures, clocks, times, process lists, what is in use.
MOVES = [r"[0-9.]+ *(C|W|MHz|MiB|%|KB/s|MB/s|us)\b", r"\b[0-9a-f]{16,}\b", r"Timestamp.*", r"(?m)^#.*$"]


def python(module, row, limit=60, capabilities=ALL, extra=None, name=None):
    return program(name or row, limit, [sys.executable, f"{HERE}/{module}.py", row], capabilities, extra=extra)


PROGRAMS = [
    program("cuda-start", 20, ["{bin}/families", "start"], without=[r"\b[0-9.]+ ?ms", r"=[0-9.]+"]),
    *[program(f"family-{f}", 30, ["{bin}/families", f, "16", "256"], without=[r"(total|free)_mib=\d+"])
      for f in ("alloc", "pitch", "managed", "async", "vmm", "array", "array3d", "mipmap", "graph", "ipc",
                "mempool-export", "host", "register")],
    program("nvdec-caps", 20, ["{bin}/video", "caps"]),
    program("nvdec-64", 30, ["{bin}/video", "decoders", "64"]),
    program("nvdec-h264", 20, ["{bin}/video", "decode", "{bin}/t.h264", "1"]),
    program("nvdec-hevc", 20, ["{bin}/video", "decode", "{bin}/t.hevc", "1"]),
    program("nvjpeg-hardware", 20, ["{bin}/jpeg", "hardware", "0.7"]),
    program("nvjpeg-gpu", 20, ["{bin}/jpeg", "gpu", "0.7"]),
    program("nvjpeg-encode", 20, ["{bin}/jpeg", "encode", "0.5"]),
    program("npp", 20, ["{bin}/pictures", "0.5"]),
    program("cupti-activity", 30, ["{bin}/activity"]),
    program("cufile", 30, ["{bin}/file", "{raw}/cufile.bin"]),
    program("nvshmem", 40, ["{bin}/shmem"], extra={"NVSHMEM_DISABLE_NVLS": "1", "NVSHMEM_REMOTE_TRANSPORT": "none"}),
    program("vulkan-info", 20, ["{bin}/vulkan", "info"], without=[r"(size|budget|usage)=\d+ MiB"],
            check=heap_is_quota),
    program("vulkan-memory", 20, ["{bin}/vulkan", "memory", "256", "1024"], without=[r"(size|budget|usage)=\d+ MiB"]),
    program("vulkan-images", 20, ["{bin}/vulkan", "images", "512"]),
    program("vulkan-sparse", 20, ["{bin}/vulkan", "sparse", "256"]),
    program("vulkan-export", 20, ["{bin}/vulkan", "export"]),
    program("vulkan-clear", 20, ["{bin}/vulkan", "clear", "0.5"]),
    program("vulkan-cuda", 20, ["{bin}/vulkan", "cuda"]),
    program("gles-draw", 20, ["{bin}/gles", "draw", "0.5"]),
    program("gles-info", 20, ["{bin}/gles", "info"], without=[r"=\d+ KiB"], check=figures_are_quota),
    full("vulkan-full", ["{bin}/vulkan", "memory", "16", "8192"], "last=-2"),
    full("vulkan-images-full", ["{bin}/vulkan", "images", "8192"], "last=-2"),
    full("vulkan-sparse-full", ["{bin}/vulkan", "sparse", "8192"], "last=-2"),
    program("gles-full", 30, ["{bin}/gles", "memory", "8192", "info"], check=spills("2G", 8192), memory="2G",
            without=[r"\d+ KiB"]),
    full("cuda-full", ["{bin}/families", "alloc", "16", "8192"], "CUDA_ERROR_OUT_OF_MEMORY", "2G"),
    program("gles-memory", 20, ["{bin}/gles", "memory", "512"]),
    program("gles-cuda", 20, ["{bin}/gles", "cuda"]),
    program("smi", 20, ["nvidia-smi"], without=[*MOVES, r"\d+MiB|\d+W|\d+C|\d\d:\d\d:\d\d|\d+%"]),
    program("smi-list", 20, ["nvidia-smi", "-L"]),
    program("smi-query", 20, ["nvidia-smi", "--query-gpu=name,driver_version,vbios_version,compute_cap,ecc.mode.current,"
                              "persistence_mode,pcie.link.gen.max,clocks.max.sm,mig.mode.current", "--format=csv"]),
    program("smi-all", 20, ["nvidia-smi", "-q"], without=[*MOVES, r":.*"]),
    program("smi-topo", 20, ["nvidia-smi", "topo", "-m"]),
    program("smi-dmon", 20, ["nvidia-smi", "dmon", "-c", "1"], without=[r"\d+|-"]),
    program("smi-pmon", 20, ["nvidia-smi", "pmon", "-c", "1"], without=[r"(?m)^ .*$"]),
    program("smi-apps", 20, ["nvidia-smi", "--query-compute-apps=name", "--format=csv"]),
    program("smi-nvlink", 20, ["nvidia-smi", "nvlink", "-s"]),
    program("smi-xml", 20, ["nvidia-smi", "-q", "-x"], without=[r">[^<]*<"]),
    program("ncu", 90, ["ncu", "--clock-control", "none", "--metrics", "sm__cycles_active.avg", "--launch-count", "1",
                        "{bin}/families", "alloc", "64", "64"], PROFILE,
            without=[r"==PROF==.*", r"[0-9,.]+$", r"\(\d+, \d+, \d+\)", r"@.*", r"[0-9]+,?[0-9.]*", r"(total|free)_mib=\d+"]),
    program("memcheck", 60, ["compute-sanitizer", "--tool", "memcheck", "{bin}/families", "alloc", "16", "64"],
            without=[r"(total|free)_mib=\d+"]),
    program("racecheck", 60, ["compute-sanitizer", "--tool", "racecheck", "{bin}/families", "alloc", "16", "64"],
            without=[r"(total|free)_mib=\d+"]),
    program("cuda-gdb", 60, ["cuda-gdb", "-batch", "-ex", "set cuda break_on_launch application", "-ex", "run", "-ex",
                             "info cuda kernels", "-ex", "kill", "--args", "{bin}/families", "alloc", "16", "16"], PROFILE,
            without=[r"0x[0-9a-f]+", r"(?i)(thread|process|lwp) [0-9]+", r"\[(New|Detaching|Thread).*", r"\(.*\)",
                     r"(total|free)_mib=\d+"]),
    program("mps", 60, ["bash", f"{HERE}/mps.sh", "{bin}/families"], without=[r"(total|free)_mib=\d+"]),
    python("torch_rows", "torch-ipc", 90),
    python("torch_rows", "torch-expandable", 60, extra={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    python("torch_rows", "torch-async-pool", 60, extra={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    python("torch_rows", "torch-profiler", 60),
    python("torch_rows", "torch-symmetric", 60),
    python("driver_rows", "core-dump", 60),
]
# Rows of modules: those that are not programs above and not steps of others.
MODULES = ["driver_rows", "torch_rows", "cupy_rows", "jax_rows"]
ALONE = {row.name for row in PROGRAMS} | {"trap"}


def environment(extra):
    return {**os.environ, "NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
            "NVSHMEM_DISABLE_NVLS": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def as_tenant(command, report, capabilities, name, memory=QUOTA):
    more = [f"--record={RAW}/{name}.calls"] if HAS_RECORD else []
    return [SUBLET, "run", "-v", "--json", "--report", report, "--no-daemon", "--name", name[:60], "--mem", memory,
            "--capabilities", capabilities, *more, "--", *command]


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def clean(text, row):
    """What a program printed, without rates and what may differ; and its best rate."""
    rates = [float(x) for x in re.findall(r"\brate=([0-9.]+)", text)]
    text = re.sub(r"\brate=[0-9.]+\S*( \S+/s)?", "", text)
    for pattern in row.without:
        text = re.sub(pattern, "", text)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("sublet: ", "==WARNING=="))]
    return "\n".join(lines), max(rates, default=None)


class Figures:
    """What a row showed, natively and as a tenant."""

    def __init__(self, name):
        self.name, self.results, self.rates, self.refused, self.wrong = name, {}, {}, {}, ""

    def add(self, side, result, rate):
        self.results.setdefault(side, result)
        if rate is not None:
            self.rates.setdefault(side, []).append(rate)

    def verdict(self):
        native, tenant = self.results.get("native"), self.results.get("tenant")
        if native is None or native.startswith("absent"):
            return "not at hand"
        if self.wrong:
            return "WRONG"
        if native.startswith("failed") and tenant in (None, native):
            return "fails natively"
        if native != tenant:
            return "DIFFERS"
        best = {side: max(rates) for side, rates in self.rates.items()}
        if "native" in best and best.get("tenant", 0) < 0.97 * best["native"]:
            return "SLOWER"
        return "same"


def refusals(report):
    try:
        listed = json.load(open(report))["refused"]
    except (OSError, ValueError, KeyError):
        return {"no report": 1}
    return {f"{r['what']} {r.get('number', 0):#x}" + (f" ({r['needs']})" if r.get("needs") else ""): r["count"]
            for r in listed}


def run_program(row, side, n, figures):
    command = [word.format(bin=BIN, raw=RAW) for word in row.command]
    raw = f"{RAW}/{row.name}.{side}{n}"
    report = f"{raw}.report"
    if side == "tenant":
        command = as_tenant(command, report, row.capabilities, row.name, row.memory or QUOTA)
    with open(f"{raw}.err", "w") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True,
                                   errors="replace", env=environment(row.extra), start_new_session=True)
        try:
            out, _ = process.communicate(timeout=row.limit)
            status = process.returncode
        except subprocess.TimeoutExpired:
            kill(process)
            out, status = "", "timeout"
    open(f"{raw}.out", "w").write(out)
    result, rate = clean(out, row)
    if side == "tenant" and row.check and status == 0:
        figures.wrong = figures.wrong or row.check(out)
    if status == 77 or result.startswith("absent="):
        result = "absent: " + (result.removeprefix("absent=") or "not at hand")
    elif status != 0:
        last = (result or open(f"{raw}.err", errors="replace").read()).strip().splitlines() or [""]
        result = f"failed: {status}: {last[-1][:100]}"
        if "ModuleNotFoundError" in last[-1]:
            result = "absent: " + last[-1]
    figures.add(side, result, rate)
    if side == "tenant" and n == 0:
        figures.refused.update(refusals(report))


def present(row):
    first = row.command[0].format(bin=BIN)
    if "/" in first:
        return os.path.exists(first)
    return any(os.access(os.path.join(d, first), os.X_OK) for d in os.environ["PATH"].split(":"))


def program_row(row):
    figures = Figures(row.name)
    if not present(row):
        figures.results["native"] = "absent: " + row.command[0].format(bin="").strip("/")
        return figures
    if row.memory:
        probe = row._replace(command=[*row.command[:1], "meminfo" if "families" in row.command[0] else "info"])
        run_program(probe, "native", 0, figures)
        native = figures.results["native"]
        if not native.startswith(("absent", "failed")):
            run_program(row, "tenant", 0, figures)
            tenant = figures.results["tenant"]
            figures.wrong = figures.wrong or (tenant if tenant.startswith(("absent", "failed")) else "")
            figures.results["native"] = tenant
        return figures
    for n in range(ROUNDS):
        for side in ("native", "tenant") if n % 2 == 0 else ("tenant", "native"):
            run_program(row, side, n, figures)
        if "native" not in figures.rates or figures.results["native"].startswith(("absent", "failed")):
            break
    return figures


class Server:
    """A process of a module's rows."""

    def __init__(self, module, side, n=0):
        self.module, self.side, self.n = module, side, n
        self.raw = f"{RAW}/{module}.{side}{n}"
        command = [sys.executable, f"{HERE}/{module}.py"]
        if side == "tenant":
            command = as_tenant(command, f"{self.raw}.report", ALL, f"{module}-{n}")
        self.err = open(f"{self.raw}.err", "w")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err,
                                        text=True, env=environment({}), start_new_session=True)
        self.rows = None

    def answer(self, seconds):
        """The next line of JSON, or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            if not ready:
                return None
            line = self.process.stdout.readline()
            if not line:
                return None
            try:
                return json.loads(line)
            except ValueError:
                continue  # what a library printed before the rows began
        return None

    def begin(self):
        if self.rows is None:
            got = self.answer(90)
            self.rows = got["rows"] if got else []
        return self.rows

    def ask(self, name, seconds, limit=60):
        try:
            self.process.stdin.write(f"{name} {seconds}\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return None
        return self.answer(limit)

    def events(self, name):
        """Numbers that the gate refused while the row ran."""
        text = open(f"{self.raw}.err", errors="replace").read()
        part = text.split(f"== {name}\n")[1:]
        found = collections.Counter()
        for piece in part:
            piece = re.split(r"(?m)^== ", piece)[0]
            for event, what in re.findall(r"sublet: \S+: (UNKNOWN_\w+|CAPABILITY_MISSING): .*?: (.*)", piece):
                number = re.search(r"(\w+ 0x[0-9a-f]+)", what)
                found[f"{number[1].lower() if number else what[:40]}"] += 1
        return dict(found)

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            pass
        kill(self.process)
        self.err.close()


def module_row(servers, module, name):
    """Alternates the two processes; one that died or hangs is started again for the rows after."""
    figures = Figures(name)
    for n in range(ROUNDS):
        for side in ("native", "tenant") if n % 2 == 0 else ("tenant", "native"):
            server = servers[side]
            got = server.ask(name, 0.25)
            if got is None:
                code = server.process.poll()
                server.end()
                figures.add(side, f"failed: process {'timeout' if code is None else code}", None)
                servers[side] = Server(module, side, server.n + 1)
                servers[side].begin()
                continue
            result = ("absent: " + got["absent"] if "absent" in got else
                      "failed: " + got["error"] if "error" in got else got["result"])
            figures.add(side, result, got.get("rate"))
            if side == "tenant":
                for what, count in server.events(name).items():
                    figures.refused[what] = max(count, figures.refused.get(what, 0))
        if "native" not in figures.rates:
            break
    return figures


def shown(rates):
    best = max(rates) if rates else None
    return "-" if best is None else f"{best:.0f}" if best >= 100 else f"{best:.2f}"


def table(all_figures):
    print(f"\n{'row':<26} {'verdict':<14} {'native/s':>10} {'tenant/s':>10} {'ratio':>6}  refused by the gate")
    for f in all_figures:
        ratio = (f"{max(f.rates['tenant']) / max(f.rates['native']):.3f}"
                 if f.rates.get("tenant") and f.rates.get("native") else "-")
        refused = ", ".join(f"{what} x{n}" if n > 1 else what for what, n in sorted(f.refused.items())) or "-"
        print(f"{f.name:<26} {f.verdict():<14} {shown(f.rates.get('native')):>10} {shown(f.rates.get('tenant')):>10} "
              f"{ratio:>6}  {refused[:300]}")
    print()
    for f in all_figures:
        if f.wrong:
            print(f"{f.name}: WRONG: {f.wrong[:240]}")
        if f.verdict() in ("DIFFERS", "fails natively", "not at hand"):
            for side in ("native", "tenant"):
                text = f.results.get(side, "-").splitlines() or [""]
                if f.verdict() == "DIFFERS" and len(text) > 1:
                    other = f.results.get("tenant" if side == "native" else "native", "").splitlines()
                    text = [line for line in text if line not in other][:6] or text[:1]
                print(f"{f.name}: {f.verdict()}: {side}: {' | '.join(text)[:240]}")
                if f.verdict() == "not at hand":
                    break
    counts = collections.Counter(f.verdict() for f in all_figures)
    at_hand = len(all_figures) - counts["not at hand"] - counts["fails natively"]
    print(f"\nrows={len(all_figures)} at_hand={at_hand} same={counts['same']} differ={counts['DIFFERS']} "
          f"wrong={counts['WRONG']} slower={counts['SLOWER']} fail_natively={counts['fails natively']} not_at_hand={counts['not at hand']} "
          f"seconds={time.monotonic() - BEGIN:.0f}")


def main():
    # All processes of rows are started first: their imports take seconds and run beside each other.
    modules = {m: {side: Server(m, side) for side in ("native", "tenant")} for m in MODULES if wanted(m)}
    done = []

    def note(figures, begin):
        done.append(figures)
        print(f"{figures.name}: {figures.verdict()} {time.monotonic() - begin:.1f}s "
              f"{shown(figures.rates.get('native'))} {shown(figures.rates.get('tenant'))} "
              f"{figures.refused or ''}", flush=True)

    starters = [threading.Thread(target=server.begin) for servers in modules.values() for server in servers.values()]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    for module, servers in modules.items():
        names = servers["native"].begin() or [f"{module}-all"]
        tenant = servers["tenant"].begin()
        for name in names:
            if name in ALONE or not ROWS.search(name) or time.monotonic() - BEGIN > LIMIT:
                continue
            begin = time.monotonic()
            if not servers["native"].rows:
                figures = Figures(name)
                figures.results["native"] = "absent: " + last_line(servers["native"].raw)
            elif not tenant:
                figures = Figures(name)
                figures.results.update(native="starts", tenant="failed: " + last_line(servers["tenant"].raw))
            else:
                figures = module_row(servers, module, name)
            note(figures, begin)
            if not tenant:
                break
        for server in servers.values():
            server.end()
    for row in PROGRAMS:
        if ROWS.search(row.name) and time.monotonic() - BEGIN < LIMIT:
            begin = time.monotonic()
            note(program_row(row), begin)
    table(done)
    return 0 if done and not any(f.verdict() in ("DIFFERS", "SLOWER", "WRONG") for f in done) else 1


def last_line(raw):
    try:
        lines = [line for line in open(f"{raw}.err", errors="replace").read().splitlines()
                 if line.strip() and not line.startswith("sublet: ")]
    except OSError:
        lines = []
    return lines[-1][:120] if lines else "no output"


def wanted(module):
    """May a row of the module be meant? Names are in the file."""
    text = open(f"{HERE}/{module}.py").read()
    names = [n.replace("_", "-") for n in re.findall(r"(?m)^@row\ndef (\w+)", text)]
    return any(ROWS.search(n) for n in names if n not in ALONE)


HAS_RECORD = "--record" in subprocess.run([SUBLET, "run", "--help"], capture_output=True, text=True).stdout
if __name__ == "__main__":
    sys.exit(main())
