/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the simulated libcuda.so.1 serves: names, numbers and
 * layouts of the public ABI, CUDA 13.0. A program that includes <cuda.h> and uses no more than this
 * builds against NVIDIA's header as well, and the program built here runs on the real library.
 *
 * tests/gpu/meson.build shows how a program is built so; a test compares the exports with the table.
 *
 * What a call does when the header of CUDA says more than the simulator can do is in src/sim/cuda.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 13000
#define CUDAAPI

/* Entry points whose ABI changed keep their plain name in source and a numbered one in the library.
 */
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuCtxCreate cuCtxCreate_v4
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemFree cuMemFree_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemAdvise cuMemAdvise_v2
#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpy2D cuMemcpy2D_v2
#define cuMemcpy3D cuMemcpy3D_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemsetD32 cuMemsetD32_v2
#define cuArrayCreate cuArrayCreate_v2
#define cuArray3DCreate cuArray3DCreate_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#define cuGetProcAddress cuGetProcAddress_v2

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint64_t cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

typedef struct {
        char bytes[16];
} CUuuid;

typedef enum {
        CUDA_SUCCESS = 0,
        CUDA_ERROR_INVALID_VALUE = 1,
        CUDA_ERROR_OUT_OF_MEMORY = 2,
        CUDA_ERROR_NOT_INITIALIZED = 3,
        CUDA_ERROR_DEINITIALIZED = 4,
        CUDA_ERROR_STUB_LIBRARY = 34,
        CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
        CUDA_ERROR_NO_DEVICE = 100,
        CUDA_ERROR_INVALID_DEVICE = 101,
        CUDA_ERROR_INVALID_IMAGE = 200,
        CUDA_ERROR_INVALID_CONTEXT = 201,
        CUDA_ERROR_MAP_FAILED = 205,
        CUDA_ERROR_UNMAP_FAILED = 206,
        CUDA_ERROR_ALREADY_MAPPED = 208,
        CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
        CUDA_ERROR_NOT_MAPPED = 211,
        CUDA_ERROR_ECC_UNCORRECTABLE = 214,
        CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
        CUDA_ERROR_INVALID_PTX = 218,
        CUDA_ERROR_FILE_NOT_FOUND = 301,
        CUDA_ERROR_OPERATING_SYSTEM = 304,
        CUDA_ERROR_INVALID_HANDLE = 400,
        CUDA_ERROR_ILLEGAL_STATE = 401,
        CUDA_ERROR_NOT_FOUND = 500,
        CUDA_ERROR_NOT_READY = 600,
        CUDA_ERROR_ILLEGAL_ADDRESS = 700,
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
        CUDA_ERROR_LAUNCH_TIMEOUT = 702,
        CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
        CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
        CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
        CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
        CUDA_ERROR_LAUNCH_FAILED = 719,
        CUDA_ERROR_NOT_PERMITTED = 800,
        CUDA_ERROR_NOT_SUPPORTED = 801,
        CUDA_ERROR_SYSTEM_NOT_READY = 802,
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
        CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
        CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
        CUDA_ERROR_UNKNOWN = 999,
} CUresult;

/* ---- start, devices -------------------------------------------------------------------------- */

typedef enum {
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
        CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
        CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
        CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
        CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
        CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
        CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
        CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
        CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
        CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
        CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
        CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
        CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
        CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
        CU_DEVICE_ATTRIBUTE_TCC_DRIVER = 35,
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
        CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
        CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
        CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
        CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
        CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
        CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED = 79,
        CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED = 80,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
        CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
        CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
        CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
        CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
        CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
        CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,
        CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS = 129,
} CUdevice_attribute;

CUresult CUDAAPI cuInit(unsigned int flags);
CUresult CUDAAPI cuDriverGetVersion(int *version);
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text);
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text);
CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal);
CUresult CUDAAPI cuDeviceGetCount(int *count);
CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device);
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int size, CUdevice device);

typedef enum {
        CU_GET_PROC_ADDRESS_DEFAULT = 0,
        CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum {
        CU_GET_PROC_ADDRESS_SUCCESS = 0,
        CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
        CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status);

/* ---- contexts -------------------------------------------------------------------------------- */

typedef enum {
        CU_CTX_SCHED_AUTO = 0,
        CU_CTX_SCHED_SPIN = 1,
        CU_CTX_SCHED_YIELD = 2,
        CU_CTX_SCHED_BLOCKING_SYNC = 4,
        CU_CTX_SCHED_MASK = 7,
        CU_CTX_MAP_HOST = 8,
        CU_CTX_LMEM_RESIZE_TO_MAX = 16,
        CU_CTX_COREDUMP_ENABLE = 32,
        CU_CTX_USER_COREDUMP_ENABLE = 64,
        CU_CTX_SYNC_MEMOPS = 128,
        CU_CTX_FLAGS_MASK = 0xff,
} CUctx_flags;

typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int n_params, unsigned int flags,
                                CUdevice device);
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxDestroy_v2(CUcontext context);
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context);
CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                   size_t bytes, CUstream stream);
CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context);
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context);
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *context);
CUresult CUDAAPI cuCtxGetDevice(CUdevice *device);
CUresult CUDAAPI cuCtxSynchronize(void);

/* ---- streams and events ---------------------------------------------------------------------- */

typedef enum {
        CU_STREAM_DEFAULT = 0,
        CU_STREAM_NON_BLOCKING = 1,
} CUstream_flags;

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum {
        CU_EVENT_DEFAULT = 0,
        CU_EVENT_BLOCKING_SYNC = 1,
        CU_EVENT_DISABLE_TIMING = 2,
        CU_EVENT_INTERPROCESS = 4,
} CUevent_flags;

typedef enum {
        CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
        CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum {
        CU_STREAM_CAPTURE_STATUS_NONE = 0,
        CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
        CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef void(CUDAAPI *CUhostFn)(void *argument);

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream);
CUresult CUDAAPI cuStreamSynchronize(CUstream stream);
CUresult CUDAAPI cuStreamQuery(CUstream stream);
CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument);
CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *context);

/* ---- green contexts: some of the multiprocessors of a device --------------------------------- */

typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;

typedef enum {
        CU_DEV_RESOURCE_TYPE_INVALID = 0,
        CU_DEV_RESOURCE_TYPE_SM = 1,
} CUdevResourceType;

typedef enum {
        CU_GREEN_CTX_DEFAULT_STREAM = 1,
} CUgreenCtxCreate_flags;

typedef enum {
        CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 1,
        CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE = 2,
} CUdevSmResourceSplit_flags;

typedef struct {
        unsigned int smCount;
        unsigned int minSmPartitionSize;
        unsigned int smCoscheduledAlignment;
} CUdevSmResource;

typedef struct {
        CUdevResourceType type;
        unsigned char _internal_padding[92];
        union {
                CUdevSmResource sm;
                unsigned char _oversize[48];
        };
} CUdevResource;

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult CUDAAPI cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type);
CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *n_groups, const CUdevResource *input,
                                             CUdevResource *rest, unsigned int flags, unsigned int least);
CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int n);
CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags);
CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green);
CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green);
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags);
CUresult CUDAAPI cuEventDestroy_v2(CUevent event);
CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream);
CUresult CUDAAPI cuEventQuery(CUevent event);
CUresult CUDAAPI cuEventSynchronize(CUevent event);
CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);

/* ---- memory ---------------------------------------------------------------------------------- */

typedef enum {
        CU_MEMORYTYPE_HOST = 1,
        CU_MEMORYTYPE_DEVICE = 2,
        CU_MEMORYTYPE_ARRAY = 3,
        CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

typedef enum {
        CU_MEM_ATTACH_GLOBAL = 1,
        CU_MEM_ATTACH_HOST = 2,
        CU_MEM_ATTACH_SINGLE = 4,
} CUmemAttach_flags;

#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_IOMEMORY 0x04
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08

typedef enum {
        CU_MEM_LOCATION_TYPE_INVALID = 0,
        CU_MEM_LOCATION_TYPE_DEVICE = 1,
        CU_MEM_LOCATION_TYPE_HOST = 2,
        CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
} CUmemLocationType;

typedef struct {
        CUmemLocationType type;
        int id;
} CUmemLocation;

typedef enum {
        CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
        CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
        CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
        CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
        CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
} CUmem_advise;

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *at, size_t bytes);
CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element);
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr at);
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemAllocHost_v2(void **at, size_t bytes);
CUresult CUDAAPI cuMemHostAlloc(void **at, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemFreeHost(void *at);
CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *at, unsigned int flags);
CUresult CUDAAPI cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemHostUnregister(void *at);
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr at, size_t bytes, CUmem_advise advice, CUmemLocation location);
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr at, size_t bytes, CUmemLocation location, unsigned int flags,
                                       CUstream stream);

typedef enum {
        CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
} CUipcMem_flags;

typedef struct {
        char reserved[64];
} CUipcMemHandle;

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at);
CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags);
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr at);

/* ---- virtual memory management --------------------------------------------------------------- */

typedef enum {
        CU_MEM_HANDLE_TYPE_NONE = 0,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
        CU_MEM_HANDLE_TYPE_FABRIC = 8,
} CUmemAllocationHandleType;

typedef struct {
        unsigned char data[64];
} CUmemFabricHandle;

typedef enum {
        CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
        CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} CUmemAccess_flags;

typedef enum {
        CU_MEM_ALLOCATION_TYPE_INVALID = 0,
        CU_MEM_ALLOCATION_TYPE_PINNED = 1,
} CUmemAllocationType;

typedef enum {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} CUmemAllocationGranularity_flags;

typedef struct {
        CUmemAllocationType type;
        CUmemAllocationHandleType requestedHandleTypes;
        CUmemLocation location;
        void *win32HandleMetaData;
        struct {
                unsigned char compressionType;
                unsigned char gpuDirectRDMACapable;
                unsigned short usage;
                unsigned char reserved[4];
        } allocFlags;
} CUmemAllocationProp;

typedef struct {
        CUmemLocation location;
        CUmemAccess_flags flags;
} CUmemAccessDesc;

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                                     unsigned long long flags);
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr at, size_t size);
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *property,
                             unsigned long long flags);
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult CUDAAPI cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags);
CUresult CUDAAPI cuMemUnmap(CUdeviceptr at, size_t size);
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t n);
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *property,
                                               CUmemAllocationGranularity_flags option);
CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long flags);
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                                CUmemAllocationHandleType type);

/* ---- pools ----------------------------------------------------------------------------------- */

typedef struct {
        CUmemAllocationType allocType;
        CUmemAllocationHandleType handleTypes;
        CUmemLocation location;
        void *win32SecurityAttributes;
        size_t maxSize;
        unsigned short usage;
        unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
        unsigned char reserved[64];
} CUmemPoolPtrExportData;

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties);
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool);
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n);
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location);
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream);
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr at, CUstream stream);
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                  unsigned long long flags);
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                                    unsigned long long flags);
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr at);
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *at, CUmemoryPool pool, CUmemPoolPtrExportData *data);

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef enum {
        CU_AD_FORMAT_UNSIGNED_INT8 = 0x01,
        CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
        CU_AD_FORMAT_UNSIGNED_INT32 = 0x03,
        CU_AD_FORMAT_SIGNED_INT8 = 0x08,
        CU_AD_FORMAT_SIGNED_INT16 = 0x09,
        CU_AD_FORMAT_SIGNED_INT32 = 0x0a,
        CU_AD_FORMAT_HALF = 0x10,
        CU_AD_FORMAT_FLOAT = 0x20,
} CUarray_format;

typedef struct {
        size_t Width, Height;
        CUarray_format Format;
        unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
        size_t Width, Height, Depth;
        CUarray_format Format;
        unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape);
CUresult CUDAAPI cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape);
CUresult CUDAAPI cuArrayDestroy(CUarray array);
CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                        unsigned int n_levels);
CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level);
CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray mipmap);

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct {
        size_t srcXInBytes, srcY;
        CUmemorytype srcMemoryType;
        const void *srcHost;
        CUdeviceptr srcDevice;
        CUarray srcArray;
        size_t srcPitch;
        size_t dstXInBytes, dstY;
        CUmemorytype dstMemoryType;
        void *dstHost;
        CUdeviceptr dstDevice;
        CUarray dstArray;
        size_t dstPitch;
        size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct {
        size_t srcXInBytes, srcY, srcZ, srcLOD;
        CUmemorytype srcMemoryType;
        const void *srcHost;
        CUdeviceptr srcDevice;
        CUarray srcArray;
        void *reserved0;
        size_t srcPitch, srcHeight;
        size_t dstXInBytes, dstY, dstZ, dstLOD;
        CUmemorytype dstMemoryType;
        void *dstHost;
        CUdeviceptr dstDevice;
        CUarray dstArray;
        void *reserved1;
        size_t dstPitch, dstHeight;
        size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t n);
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr at, unsigned int value, size_t n);
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t n, CUstream stream);

/* ---- modules and launches -------------------------------------------------------------------- */

#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image);
CUresult CUDAAPI cuModuleUnload(CUmodule module);
CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                unsigned int shared_bytes, CUstream stream, void **params, void **extra);

/* ---- graphs ---------------------------------------------------------------------------------- */

#define CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH 1

typedef struct {
        CUmemPoolProps poolProps;
        const CUmemAccessDesc *accessDescs;
        size_t accessDescCount;
        size_t bytesize;
        CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
        CUdeviceptr dst;
        size_t pitch;
        unsigned int value, elementSize;
        size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags);
CUresult CUDAAPI cuGraphDestroy(CUgraph graph);
CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                       CUdeviceptr at);
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec);
CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device);

/* ---- checkpoints of a process, by another ------------------------------------------------------ */

typedef enum {
        CU_PROCESS_STATE_RUNNING = 0,
        CU_PROCESS_STATE_LOCKED = 1,
        CU_PROCESS_STATE_CHECKPOINTED = 2,
        CU_PROCESS_STATE_FAILED = 3,
} CUprocessState;

typedef struct {
        unsigned int timeoutMs; /* 0: none */
        unsigned int reserved0;
        cuuint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct {
        cuuint64_t reserved[8];
} CUcheckpointCheckpointArgs;

typedef struct {
        cuuint64_t reserved[8];
} CUcheckpointRestoreArgs;

typedef struct {
        cuuint64_t reserved[8];
} CUcheckpointUnlockArgs;

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *state);
CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);
CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args);
CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
