# SPDX-License-Identifier: Apache-2.0
"""What the driver's own libraries do beside launching kernels, through ctypes: no header and no compiler is needed."""
import ctypes
import os
import subprocess
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from rows import Absent, rate_of, row, serve

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 v) {
 .reg .u64 %a, %o; .reg .u32 %t, %v, %b, %n;
 ld.param.u64 %a, [p]; ld.param.u32 %v, [v];
 mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %b, %n, %t;
 mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; st.global.u32 [%a], %v; ret;
}
"""
state = {}


def library(name):
    try:
        return ctypes.CDLL(name)
    except OSError as e:
        raise Absent(f"{name}: {str(e)[:60]}") from None


def must(status, what):
    if status:
        raise RuntimeError(f"{what}: {status}")


def cuda():
    """libcuda with a current context; one for all rows."""
    if "cuda" not in state:
        lib, context = library("libcuda.so.1"), c_void_p()
        must(lib.cuInit(0), "cuInit")
        must(lib.cuCtxCreate_v2(byref(context), 0, 0), "cuCtxCreate")
        state.update(cuda=lib, context=context)
    must(state["cuda"].cuCtxSetCurrent(state["context"]), "cuCtxSetCurrent")
    return state["cuda"]


def alloc(size):
    at = c_uint64()
    must(cuda().cuMemAlloc_v2(byref(at), c_size_t(size)), "cuMemAlloc")
    return at


def words(at, n):
    out = (c_uint * n)()
    must(cuda().cuMemcpyDtoH_v2(out, at, c_size_t(4 * n)), "cuMemcpyDtoH")
    return sum(out)


@row
def ptx_jit(seconds):
    """A module of PTX text: the driver's own compiler."""
    lib, module, function = cuda(), c_void_p(), c_void_p()
    must(lib.cuModuleLoadData(byref(module), c_char_p(PTX)), "cuModuleLoadData")
    must(lib.cuModuleGetFunction(byref(function), module, b"fill"), "cuModuleGetFunction")
    at, value = alloc(1 << 20), c_uint(3)
    arguments = (c_void_p * 2)(ctypes.cast(byref(at), c_void_p), ctypes.cast(byref(value), c_void_p))

    def work():
        must(lib.cuLaunchKernel(function, 1024, 1, 1, 256, 1, 1, 0, None, arguments, None), "cuLaunchKernel")
    work()
    must(lib.cuCtxSynchronize(), "cuCtxSynchronize")
    got = words(at, 1 << 18)
    rate = rate_of(work, seconds, done=lib.cuCtxSynchronize)
    lib.cuMemFree_v2(at)
    return got, rate


@row
def device_attributes(seconds):
    """All attributes of the device: one answer must not depend on who asks."""
    lib, values, value = cuda(), [], c_int()
    for i in range(1, 160):
        values.append(value.value if lib.cuDeviceGetAttribute(byref(value), i, 0) == 0 else -1)
    return f"{sum(v >= 0 for v in values)}:{hash(tuple(values)) & 0xffffffff:08x}"


@row
def allocations(seconds):
    lib, at = cuda(), c_uint64()

    def work():
        must(lib.cuMemAlloc_v2(byref(at), c_size_t(64 << 20)), "cuMemAlloc")
        must(lib.cuMemFree_v2(at), "cuMemFree")
    work()
    return "done", rate_of(work, seconds)


@row
def dmabuf_export(seconds):
    """A DMA-BUF of device memory, which a network there would import."""
    lib, fd, supported = cuda(), c_int(-1), c_int()
    lib.cuDeviceGetAttribute(byref(supported), 124, 0)
    at = alloc(4 << 20)
    status = lib.cuMemGetHandleForAddressRange(byref(fd), at, c_size_t(4 << 20), 1, c_uint64(0))
    if fd.value >= 0:
        os.close(fd.value)
    lib.cuMemFree_v2(at)
    return f"attribute={supported.value} status={status} descriptor={fd.value >= 0}"


@row
def virtual_memory(seconds):
    """Reserved addresses, a physical piece, a descriptor for it, and the piece from that descriptor again."""
    lib, prop = cuda(), (c_uint * 8)(1, 1, 1, 0, 0, 0, 0, 0)
    size, handle, at = c_size_t(), c_uint64(), c_uint64()
    must(lib.cuMemGetAllocationGranularity(byref(size), prop, 0), "granularity")
    must(lib.cuMemCreate(byref(handle), size, prop, c_uint64(0)), "cuMemCreate")
    must(lib.cuMemAddressReserve(byref(at), size, c_size_t(0), c_uint64(0), c_uint64(0)), "cuMemAddressReserve")
    must(lib.cuMemMap(at, size, c_size_t(0), handle, c_uint64(0)), "cuMemMap")
    must(lib.cuMemSetAccess(at, size, (c_uint * 3)(1, 0, 3), c_size_t(1)), "cuMemSetAccess")
    must(lib.cuMemsetD32_v2(at, 5, c_size_t(1024)), "cuMemsetD32")
    got, fd, again = words(at, 1024), c_int(-1), c_uint64()
    must(lib.cuMemExportToShareableHandle(byref(fd), handle, 1, c_uint64(0)), "export")
    must(lib.cuMemImportFromShareableHandle(byref(again), c_void_p(fd.value), 1), "import")
    os.close(fd.value)
    must(lib.cuMemRelease(again), "cuMemRelease")
    must(lib.cuMemUnmap(at, size), "cuMemUnmap")
    must(lib.cuMemRelease(handle), "cuMemRelease")
    must(lib.cuMemAddressFree(at, size), "cuMemAddressFree")
    return got


@row
def fabric_handle(seconds):
    """Memory that could be exported over NVLink: refused to tenants, as it is on machines without a fabric."""
    lib, supported = cuda(), c_int()
    must(lib.cuDeviceGetAttribute(byref(supported), 128, 0), "attribute")
    return f"attribute={supported.value}"


@row
def green_context(seconds):
    """A context on some of the multiprocessors."""
    lib = cuda()
    resource, part, rest = (ctypes.c_ubyte * 256)(), (ctypes.c_ubyte * 256)(), (ctypes.c_ubyte * 256)()
    n, description, green = c_uint(1), c_void_p(), c_void_p()
    if not hasattr(lib, "cuGreenCtxCreate"):
        raise Absent("green contexts")
    must(lib.cuDeviceGetDevResource(0, resource, 1), "cuDeviceGetDevResource")
    must(lib.cuDevSmResourceSplitByCount(part, byref(n), resource, rest, 0, 16), "cuDevSmResourceSplitByCount")
    must(lib.cuDevResourceGenerateDesc(byref(description), part, 1), "cuDevResourceGenerateDesc")
    must(lib.cuGreenCtxCreate(byref(green), description, 0, 1), "cuGreenCtxCreate")
    must(lib.cuGreenCtxDestroy(green), "cuGreenCtxDestroy")
    return "made"


@row
def stream_memory_operations(seconds):
    """A stream that waits for a word which another stream writes."""
    lib, first, second, at = cuda(), c_void_p(), c_void_p(), alloc(4096)
    must(lib.cuMemsetD32_v2(at, 0, c_size_t(1024)), "cuMemsetD32")
    must(lib.cuStreamCreate(byref(first), 1), "cuStreamCreate")
    must(lib.cuStreamCreate(byref(second), 1), "cuStreamCreate")
    must(lib.cuStreamWaitValue32_v2(first, at, c_uint(7), 0), "cuStreamWaitValue32")
    must(lib.cuStreamWriteValue32_v2(second, at, c_uint(7), 0), "cuStreamWriteValue32")
    must(lib.cuStreamSynchronize(first), "cuStreamSynchronize")
    got = words(at, 1)
    lib.cuMemFree_v2(at)
    return got


@row
def batch_mapped_host(seconds):
    """Host memory of ours, pinned and mapped to the device."""
    lib = cuda()
    memory = ctypes.create_string_buffer(8 << 20)
    base = (ctypes.addressof(memory) + 4095) & ~4095
    must(lib.cuMemHostRegister_v2(c_void_p(base), c_size_t(4 << 20), 2), "cuMemHostRegister")
    at = c_uint64()
    must(lib.cuMemHostGetDevicePointer_v2(byref(at), c_void_p(base), 0), "cuMemHostGetDevicePointer")
    must(lib.cuMemsetD32_v2(at, 9, c_size_t(1 << 20)), "cuMemsetD32")
    must(lib.cuCtxSynchronize(), "cuCtxSynchronize")
    got = sum((c_uint * 1024).from_address(base))
    must(lib.cuMemHostUnregister(c_void_p(base)), "cuMemHostUnregister")
    return got


@row
def core_dump_settings(seconds):
    lib, value, size = cuda(), c_int(), c_size_t(4)
    if not hasattr(lib, "cuCoredumpGetAttribute"):
        raise Absent("core dumps by attribute")
    return f"{lib.cuCoredumpGetAttribute(1, byref(value), byref(size))} {value.value}"


@row
def checkpoint_state(seconds):
    """The state of a process that may be checkpointed: our own child's."""
    lib = cuda()
    if not hasattr(lib, "cuCheckpointProcessGetState"):
        raise Absent("checkpoints")
    value = c_int(-1)
    return f"{lib.cuCheckpointProcessGetState(os.getpid(), byref(value))} {value.value}"


@row
def mps_query(seconds):
    lib = cuda()
    if not hasattr(lib, "cuDeviceGetExecAffinitySupport"):
        raise Absent("affinity")
    value = c_int()
    return f"{lib.cuDeviceGetExecAffinitySupport(byref(value), 0, 0)} {value.value}"


@row
def nvml(seconds):
    """Every getter of NVML that takes a device alone: how many answer, and which do not."""
    import pynvml as n
    n.nvmlInit()
    device, good, bad = n.nvmlDeviceGetHandleByIndex(0), 0, []
    names = [x for x in dir(n) if x.startswith("nvmlDeviceGet") and not x.startswith("nvmlDeviceGetHandle")]
    for name in sorted(names):
        try:
            getattr(n, name)(device)
            good += 1
        except n.NVMLError as e:
            bad.append(f"{name[13:]}:{e.value}")
        except Exception:  # noqa: BLE001  wants more arguments
            pass
    print("nvml refused", " ".join(bad), file=sys.stderr, flush=True)
    return f"good={good} bad={len(bad)}:{','.join(bad)}"


@row
def nvml_rate(seconds):
    import pynvml as n
    n.nvmlInit()
    device = n.nvmlDeviceGetHandleByIndex(0)
    return n.nvmlDeviceGetName(device), rate_of(lambda: n.nvmlDeviceGetMemoryInfo(device), seconds)


@row
def opencl(seconds):
    """OpenCL without a loader: platforms and devices."""
    lib = library("libnvidia-opencl.so.1")
    get = lib.clGetExtensionFunctionAddress
    get.restype, get.argtypes = c_void_p, [c_char_p]
    platforms = ctypes.CFUNCTYPE(c_int, c_uint, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint))(
        get(b"clIcdGetPlatformIDsKHR"))
    n, platform = c_uint(), (c_void_p * 4)()
    must(platforms(4, platform, byref(n)), "clIcdGetPlatformIDsKHR")
    # The first pointer of a platform is the table of functions: 1 is clGetPlatformInfo, 2 clGetDeviceIDs.
    table = ctypes.cast(ctypes.cast(platform[0], ctypes.POINTER(c_void_p))[0], ctypes.POINTER(c_void_p))
    devices = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint))(
        table[2])
    device, found = (c_void_p * 4)(), c_uint()
    status = devices(platform[0], 4, 4, device, byref(found))
    make = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_uint, ctypes.POINTER(c_void_p), c_void_p, c_void_p,
                            ctypes.POINTER(c_int))(table[7])
    made = c_int(-1)
    if found.value:
        make(None, 1, device, None, None, byref(made))
    return f"platforms={n.value} status={status} devices={found.value} context={made.value}"


@row
def encoder(seconds):
    """Opens an encoder session; a device without encoders answers so."""
    lib, table = library("libnvidia-encode.so.1"), (c_uint64 * 1000)()
    version = ctypes.c_uint32()
    cuda()
    must(lib.NvEncodeAPIGetMaxSupportedVersion(byref(version)), "NvEncodeAPIGetMaxSupportedVersion")
    api = 12
    ctypes.memmove(table, (ctypes.c_uint32 * 1)(api | (2 << 16) | (7 << 28)), 4)
    must(lib.NvEncodeAPICreateInstance(table), "NvEncodeAPICreateInstance")
    # The last function of API 12.0's table at index 29 opens a session: structVersion, deviceType 1 (CUDA), device.
    asked = (c_uint64 * 256)()
    ctypes.memmove(asked, (ctypes.c_uint32 * 2)(api | (1 << 16) | (7 << 28), 1), 8)
    asked[1] = state["context"].value
    ctypes.memmove(ctypes.addressof(asked) + 24, (ctypes.c_uint32 * 1)(api), 4)
    session = c_void_p()
    opened = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(c_void_p))(table[30])(asked, byref(session))
    return f"open={opened}"


@row
def optical_flow(seconds):
    lib, table, handle = library("libnvidia-opticalflow.so.1"), (c_uint64 * 64)(), c_void_p()
    cuda()
    must(lib.NvOFAPICreateInstanceCuda(c_uint(0x50), table), "NvOFAPICreateInstanceCuda")
    made = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(c_void_p))(table[0])(state["context"], byref(handle))
    values, n = (c_uint * 64)(), c_uint(64)
    got = -1
    if made == 0:
        got = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint, ctypes.POINTER(c_uint), ctypes.POINTER(c_uint))(table[11])(
            handle, 0, values, byref(n))
        ctypes.CFUNCTYPE(c_int, c_void_p)(table[9])(handle)
    return f"create={made} caps={got} grids={list(values[:n.value]) if got == 0 else ''}"


@row
def optix(seconds):
    lib = library("libnvoptix.so.1")
    cuda()
    for abi, size in ((105, 0), (93, 0), (87, 0)):
        table = (c_uint64 * 128)()
        for n in range(40, 60):
            status = lib.optixQueryFunctionTable(abi, 0, None, None, table, c_size_t(8 * n))
            if status == 0:
                context = c_void_p()
                made = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, ctypes.POINTER(c_void_p))(table[2])(
                    state["context"], None, byref(context))
                return f"abi={abi} functions={n} context={made}"
    return f"no table, status {status}"


@row
def libraries(seconds):
    """Which libraries of the driver can be loaded."""
    found = []
    for name in ("libnvidia-encode.so.1", "libnvidia-opticalflow.so.1", "libnvoptix.so.1", "libnvidia-fbc.so.1",
                 "libnvidia-ngx.so.1", "libnvidia-ml.so.1", "libnvidia-nvvm.so.4", "libnvidia-opencl.so.1",
                 "libnvcuvid.so.1", "libcudadebugger.so.1", "libnvidia-ptxjitcompiler.so.1", "libvdpau_nvidia.so",
                 "libnvidia-sandboxutils.so.1"):
        try:
            ctypes.CDLL(name)
            found.append(name.split(".")[0][3:])
        except OSError:
            pass
    return " ".join(found)


@row
def core_dump(seconds):
    """A kernel that traps, and the driver's core dump of it: in a child, whose context is lost."""
    work = state.setdefault("dump", os.path.join(os.environ.get("TMPDIR", "/tmp"), f"everything-core-{os.getpid()}"))
    env = dict(os.environ, CUDA_ENABLE_COREDUMP_ON_EXCEPTION="1", CUDA_COREDUMP_FILE=work)
    done = subprocess.run([sys.executable, __file__, "trap"], env=env, capture_output=True, text=True, timeout=60)
    size = os.path.getsize(work) if os.path.exists(work) else 0
    if size:
        os.unlink(work)
    return f"dump={size > 0} {'status' in done.stdout and done.stdout.split('status=')[1].split()[0]}"


@row
def trap(seconds):
    lib, module, function = cuda(), c_void_p(), c_void_p()
    text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry t() { trap; }\n"
    must(lib.cuModuleLoadData(byref(module), c_char_p(text)), "cuModuleLoadData")
    must(lib.cuModuleGetFunction(byref(function), module, b"t"), "cuModuleGetFunction")
    lib.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return f"status={lib.cuCtxSynchronize()}"


if __name__ == "__main__":
    serve()
