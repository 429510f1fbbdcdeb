/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints by the simulated libcuda, of this process itself; runs on a simulated machine. */
#include "unit.h"

#include "sublet/sim/cuda.h"
#include "sublet/sim/nvml.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        LARGE = 64 << 20,
        SMALL = 4096,
};

#define MUST(call) assert_int_equal(call, CUDA_SUCCESS)

static int enter_context(void **state)
{
        CUcontext context;

        (void)state;
        return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
               nvmlInit() != NVML_SUCCESS;
}

static unsigned long long device_used(void)
{
        nvmlMemory_t memory;
        nvmlDevice_t device;

        assert_int_equal(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
        assert_int_equal(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
        return memory.used;
}

static CUprocessState state_now(void)
{
        CUprocessState state = CU_PROCESS_STATE_FAILED;

        MUST(cuCheckpointProcessGetState(getpid(), &state));
        return state;
}

/* Its last byte is never written. */
static void fill(CUdeviceptr at, unsigned char seed, size_t size)
{
        unsigned char *bytes = malloc(size);

        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)(seed + i * 7 + (i >> 12));
        MUST(cuMemcpyHtoD(at, bytes, size - 1));
        free(bytes);
}

static void assert_filled(CUdeviceptr at, unsigned char seed, size_t size)
{
        unsigned char *bytes = malloc(size);

        assert_non_null(bytes);
        MUST(cuMemcpyDtoH(bytes, at, size));
        for (size_t i = 0; i < size - 1; i++)
                if (bytes[i] != (unsigned char)(seed + i * 7 + (i >> 12)))
                        fail_msg("byte %zu differs", i);
        assert_int_equal(bytes[size - 1], 0);
        free(bytes);
}

static void memory_leaves_the_device_and_comes_back_as_it_was(void **state)
{
        CUdeviceptr large, small;
        unsigned long long full;

        (void)state;
        MUST(cuMemAlloc(&large, LARGE));
        MUST(cuMemAlloc(&small, SMALL));
        fill(large, 3, LARGE);
        fill(small, 5, SMALL);
        full = device_used();
        for (int round = 0; round < 2; round++) {
                MUST(cuCheckpointProcessLock(getpid(), NULL));
                assert_int_equal(state_now(), CU_PROCESS_STATE_LOCKED);
                MUST(cuCheckpointProcessCheckpoint(getpid(), NULL));
                assert_int_equal(state_now(), CU_PROCESS_STATE_CHECKPOINTED);
                assert_true(device_used() + LARGE <= full);
                MUST(cuCheckpointProcessRestore(getpid(), NULL));
                assert_int_equal(device_used(), full);
                MUST(cuCheckpointProcessUnlock(getpid(), NULL));
                assert_int_equal(state_now(), CU_PROCESS_STATE_RUNNING);
                assert_filled(large, 3, LARGE);
                assert_filled(small, 5, SMALL);
        }
        MUST(cuMemFree(large));
        MUST(cuMemFree(small));
}

static void a_step_out_of_its_order_is_refused(void **state)
{
        (void)state;
        assert_int_equal(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
        assert_int_equal(cuCheckpointProcessRestore(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
        assert_int_equal(cuCheckpointProcessUnlock(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
        MUST(cuCheckpointProcessLock(getpid(), NULL));
        assert_int_equal(cuCheckpointProcessLock(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
        MUST(cuCheckpointProcessUnlock(getpid(), NULL));
}

static atomic_bool has_called;

static void *call(void *context)
{
        CUdeviceptr at;

        MUST(cuCtxSetCurrent(context));
        MUST(cuMemAlloc(&at, LARGE));
        has_called = true;
        MUST(cuMemFree(at));
        return NULL;
}

static void a_call_of_a_locked_process_waits_until_it_is_unlocked(void **state)
{
        pthread_t thread;
        CUcontext context;

        (void)state;
        MUST(cuCtxGetCurrent(&context));
        MUST(cuCheckpointProcessLock(getpid(), NULL));
        assert_int_equal(pthread_create(&thread, NULL, call, context), 0);
        (void)usleep(100000);
        assert_false(has_called);
        MUST(cuCheckpointProcessUnlock(getpid(), NULL));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(has_called);
}

static void a_process_without_cuda_cannot_be_checkpointed(void **state)
{
        CUprocessState ignored;

        (void)state;
        assert_int_equal(cuCheckpointProcessGetState(getppid(), &ignored), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuCheckpointProcessLock(getppid(), NULL), CUDA_ERROR_INVALID_VALUE);
}

static void what_has_managed_memory_is_refused_and_goes_on(void **state)
{
        CUdeviceptr managed;

        (void)state;
        MUST(cuMemAllocManaged(&managed, LARGE, CU_MEM_ATTACH_GLOBAL));
        MUST(cuCheckpointProcessLock(getpid(), NULL));
        assert_int_equal(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_NOT_SUPPORTED);
        assert_int_equal(state_now(), CU_PROCESS_STATE_LOCKED);
        MUST(cuCheckpointProcessUnlock(getpid(), NULL));
        MUST(cuMemFree(managed));
}

/* Last: what was shared once is taken for shared as long as the process lives. */
static void what_shares_memory_is_refused_and_goes_on(void **state)
{
        CUipcMemHandle handle;
        CUdeviceptr at;

        (void)state;
        MUST(cuMemAlloc(&at, LARGE));
        MUST(cuIpcGetMemHandle(&handle, at));
        MUST(cuCheckpointProcessLock(getpid(), NULL));
        assert_int_equal(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_NOT_SUPPORTED);
        MUST(cuCheckpointProcessUnlock(getpid(), NULL));
        MUST(cuMemFree(at));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(memory_leaves_the_device_and_comes_back_as_it_was),
                cmocka_unit_test(a_step_out_of_its_order_is_refused),
                cmocka_unit_test(a_call_of_a_locked_process_waits_until_it_is_unlocked),
                cmocka_unit_test(a_process_without_cuda_cannot_be_checkpointed),
                cmocka_unit_test(what_has_managed_memory_is_refused_and_goes_on),
                cmocka_unit_test(what_shares_memory_is_refused_and_goes_on),
        };

        return cmocka_run_group_tests(tests, enter_context, NULL);
}
