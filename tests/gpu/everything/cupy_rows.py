# SPDX-License-Identifier: Apache-2.0
"""CuPy, Numba and cuda.core: toolkit libraries without PyTorch, kernels compiled here by NVRTC and NVVM."""
import cupy as cp
import numpy as np
from rows import Absent, rate_of, row, serve


def sync():
    cp.cuda.Device().synchronize()


def numbers(*shape, dtype=cp.float32):
    n = 1
    for side in shape:
        n *= side
    return ((cp.arange(n, dtype=cp.int64) * 7919 % 1000).astype(dtype) / 1000).reshape(shape).astype(dtype)


def brief(x):
    return f"{float(cp.sum(x.astype(cp.float64))):.6g}"


@row
def cupy_nvrtc(seconds):
    kernel = cp.RawKernel(r'extern "C" __global__ void f(float *x, int n) {'
                          r' int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * 2 + 1; }', "f",
                          backend="nvrtc")
    x = numbers(1 << 20)
    kernel((4096,), (256,), (x, np.int32(x.size)))
    kernel((4096,), (256,), (x, np.int32(x.size)))
    result = brief(x)
    return result, rate_of(lambda: kernel((4096,), (256,), (x, np.int32(x.size))), seconds, done=sync)


@row
def cupy_nvcc(seconds):
    kernel = cp.RawModule(code=r'extern "C" __global__ void g(int *x) { x[threadIdx.x] += threadIdx.x; }',
                          backend="nvcc").get_function("g")
    x = cp.zeros(256, dtype=cp.int32)
    kernel((1,), (256,), (x,))
    return int(x.sum())


@row
def cupy_printf(seconds):
    """A kernel that prints: the device's ring of printf."""
    kernel = cp.RawKernel(r'extern "C" __global__ void p() { printf("from the device %d\n", (int)threadIdx.x); }', "p")
    kernel((1,), (2,), ())
    sync()
    return "done"


@row
def cupy_cublas(seconds):
    a = numbers(2048, 2048)
    return brief(a @ a), rate_of(lambda: a @ a, seconds, done=sync)


@row
def cupy_cufft(seconds):
    x = numbers(1024, 1024).astype(cp.complex64)
    return f"{float(cp.abs(cp.fft.fft2(x)).mean()):.5g}", rate_of(lambda: cp.fft.fft2(x), seconds, done=sync)


@row
def cupy_cusparse(seconds):
    import cupyx.scipy.sparse as sparse
    s = sparse.random(2000, 2000, density=0.01, format="csr", random_state=5)
    one = cp.ones(2000, dtype=s.dtype)
    return abs(float((s @ one).sum()) - float(s.sum())) < 1e-3, rate_of(lambda: s @ one, seconds, done=sync)


@row
def cupy_cusolver(seconds):
    a = numbers(512, 512, dtype=cp.float64) + 600 * cp.eye(512)
    return bool(cp.allclose(a @ cp.linalg.inv(a), cp.eye(512), atol=1e-6)), rate_of(
        lambda: cp.linalg.inv(a), seconds, done=sync)


@row
def cupy_curand(seconds):
    cp.random.seed(9)
    return f"{float(cp.random.rand(1 << 20).sum()):.6g}", rate_of(lambda: cp.random.rand(1 << 22), seconds, done=sync)


@row
def cupy_managed(seconds):
    """Managed memory that host and device write in turns."""
    before = cp.cuda.get_allocator()
    cp.cuda.set_allocator(cp.cuda.malloc_managed)
    try:
        x = cp.ones(16 << 20, dtype=cp.float32)
        x *= 3
        sync()
        return brief(x)
    finally:
        cp.cuda.set_allocator(before)


@row
def cupy_async_pool(seconds):
    before = cp.cuda.get_allocator()
    cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    try:
        def work():
            return cp.empty(4 << 20, dtype=cp.float32)
        x = work()
        x.fill(1)
        result = brief(x)
        return result, rate_of(work, seconds, done=sync)
    finally:
        cp.cuda.set_allocator(before)


@row
def cupy_graph(seconds):
    x = numbers(1 << 16)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x *= 1
        stream.synchronize()
        stream.begin_capture()
        for _ in range(8):
            x *= 1
        graph = stream.end_capture()
        graph.launch()
        stream.synchronize()
    return brief(x), rate_of(lambda: graph.launch(stream), seconds, done=stream.synchronize)


@row
def cupy_texture(seconds):
    """A CUDA array read through a texture: memory that is tiled."""
    from cupy.cuda import runtime, texture
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 256, 256)
    array.copy_from(numbers(256, 256))
    view = texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array),
                                 texture.TextureDescriptor((runtime.cudaAddressModeClamp, runtime.cudaAddressModeClamp),
                                                           runtime.cudaFilterModePoint, runtime.cudaReadModeElementType))
    kernel = cp.RawKernel(r'extern "C" __global__ void t(float *out, cudaTextureObject_t in) {'
                          r' out[blockIdx.x * 256 + threadIdx.x] = tex2D<float>(in, threadIdx.x, blockIdx.x); }', "t")
    out = cp.zeros((256, 256), dtype=cp.float32)
    kernel((256,), (256,), (out, view))
    return brief(out)


@row
def cupy_pinned_mapped(seconds):
    """A kernel that reads host memory across the link."""
    import cupyx
    host = cupyx.empty_pinned((1 << 20,), dtype=np.float32)
    host[:] = 2
    there = cp.asarray(host)
    return brief(there), rate_of(lambda: there.set(host), seconds, done=sync)


@row
def numba_kernel(seconds):
    from numba import cuda

    @cuda.jit
    def twice(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2
    x = cuda.to_device(np.arange(1 << 20, dtype=np.int64))
    twice[4096, 256](x)
    cuda.synchronize()
    result = int(x.copy_to_host().sum())
    return result, rate_of(lambda: twice[4096, 256](x), seconds, done=cuda.synchronize)


@row
def numba_reduce(seconds):
    from numba import cuda
    add = cuda.reduce(lambda a, b: a + b)
    return float(add(cuda.to_device(np.arange(1 << 16, dtype=np.float64))))


@row
def cuda_core(seconds):
    """NVIDIA's own binding: NVRTC, a module, a launch."""
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    device = Device()
    device.set_current()
    stream = device.create_stream()
    major, minor = device.compute_capability
    program = Program('extern "C" __global__ void k(int *x) { x[threadIdx.x] = threadIdx.x; }', "c++",
                      ProgramOptions(arch=f"sm_{major}{minor}"))
    kernel = program.compile("cubin").get_kernel("k")
    x = cp.zeros(256, dtype=cp.int32)
    sync()
    launch(stream, LaunchConfig(grid=1, block=256), kernel, x.data.ptr)
    stream.sync()
    return int(x.sum())


@row
def onnxruntime_cuda(seconds):
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise Absent("onnxruntime without CUDA")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    del onnx
    y = session.run(None, {"x": np.ones((64, 64), dtype=np.float32)})[0]
    return f"{float(y.sum()):.6g}", rate_of(lambda: session.run(None, {"x": np.ones((64, 64), dtype=np.float32)}), seconds)


@row
def opencv_cuda(seconds):
    import cv2
    if not hasattr(cv2, "cuda") or cv2.cuda.getCudaEnabledDeviceCount() == 0:
        raise Absent("OpenCV without CUDA")
    m = cv2.cuda_GpuMat()
    m.upload(np.ones((64, 64), dtype=np.uint8))
    return int(m.download().sum())


if __name__ == "__main__":
    serve()
