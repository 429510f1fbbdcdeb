/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the simulated libcuda that no other program here makes; runs on a simulated machine of two devices. */
#include "unit.h"

#include "sublet/sim/cuda.h"
#include "sublet/sim/nvml.h"

#include <stdio.h>
#include <string.h>

enum {
        DEVICES = 2,
        MIB = 1 << 20,
};

#define MUST(call) assert_int_equal(call, CUDA_SUCCESS)

static int enter_second_device(void **state)
{
        CUcontext context;

        (void)state;
        return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 1) || cuCtxSetCurrent(context);
}

static int leave_second_device(void **state)
{
        (void)state;
        return (int)cuDevicePrimaryCtxRelease(1);
}

static void the_version_and_the_number_of_devices_are_answered(void **state)
{
        int version = 0, count = 0;

        (void)state;
        MUST(cuDriverGetVersion(&version));
        assert_int_equal(version, CUDA_VERSION);
        assert_int_equal(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
        MUST(cuDeviceGetCount(&count));
        assert_int_equal(count, DEVICES);
        assert_int_equal(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void a_device_has_the_name_uuid_and_pci_address_that_nvml_gives_it(void **state)
{
        (void)state;
        assert_int_equal(nvmlInit(), NVML_SUCCESS);
        for (int i = 0; i < DEVICES; i++) {
                char name[64], bus_id[32], uuid_text[64] = "GPU-", nvml_name[64], nvml_uuid[64];
                CUuuid uuid;
                nvmlPciInfo_t pci;
                nvmlDevice_t device;

                assert_int_equal(nvmlDeviceGetHandleByIndex((unsigned int)i, &device), NVML_SUCCESS);
                assert_int_equal(nvmlDeviceGetName(device, nvml_name, sizeof(nvml_name)), NVML_SUCCESS);
                assert_int_equal(nvmlDeviceGetUUID(device, nvml_uuid, sizeof(nvml_uuid)), NVML_SUCCESS);
                assert_int_equal(nvmlDeviceGetPciInfo(device, &pci), NVML_SUCCESS);

                MUST(cuDeviceGetName(name, sizeof(name), i));
                assert_string_equal(name, nvml_name);
                MUST(cuDeviceGetUuid(&uuid, i));
                for (size_t k = 0, at = 4; k < sizeof(uuid.bytes); k++)
                        at += (size_t)sprintf(uuid_text + at, "%s%02x",
                                              k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
                                              (unsigned char)uuid.bytes[k]);
                assert_string_equal(uuid_text, nvml_uuid);
                MUST(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), i));
                assert_string_equal(bus_id, pci.busIdLegacy);
        }
        assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
}

static void a_device_that_is_not_there_or_text_without_room_is_refused(void **state)
{
        char text[12];
        CUuuid uuid;

        (void)state;
        assert_int_equal(cuDeviceGetName(text, sizeof(text), DEVICES), CUDA_ERROR_INVALID_DEVICE);
        assert_int_equal(cuDeviceGetUuid(&uuid, -1), CUDA_ERROR_INVALID_DEVICE);
        assert_int_equal(cuDeviceGetPCIBusId(text, sizeof(text), 0), CUDA_ERROR_INVALID_VALUE);
        MUST(cuDeviceGetName(text, 7, 0)); /* cut, and ended */
        assert_string_equal(text, "NVIDIA");
}

static void the_device_of_the_current_context_is_the_one_it_was_made_for(void **state)
{
        CUcontext context;
        CUdevice device = -1;

        (void)state;
        MUST(cuCtxGetDevice(&device));
        assert_int_equal(device, 1);
        MUST(cuCtxPopCurrent(&context));
        assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
        MUST(cuCtxPushCurrent(context));
}

static void bytes_go_to_the_device_within_it_and_back(void **state)
{
        char sent[] = "forward, across and back", got[sizeof(sent)] = "";
        CUdeviceptr a, b;

        (void)state;
        MUST(cuMemAlloc(&a, MIB));
        MUST(cuMemAlloc(&b, MIB));
        MUST(cuMemcpyHtoD(a, sent, sizeof(sent)));
        MUST(cuMemcpyDtoD(b, a, sizeof(sent)));
        MUST(cuMemcpyDtoH(got, b, sizeof(got)));
        assert_string_equal(got, sent);
        assert_int_equal(cuMemcpyHtoD(a + MIB, sent, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
        MUST(cuMemFree(a));
        MUST(cuMemFree(b));
}

/* Without the free node the second launch would find the memory of the first. */
static void a_graph_that_frees_what_it_allocates_can_be_launched_again(void **state)
{
        CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
                .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } },
                .bytesize = 64 * MIB,
        };
        CUgraphNode taken, given;
        CUgraphExec exec;
        CUstream stream;
        CUgraph graph;

        (void)state;
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuGraphCreate(&graph, 0));
        MUST(cuGraphAddMemAllocNode(&taken, graph, NULL, 0, &wanted));
        assert_int_equal(cuGraphAddMemFreeNode(&given, NULL, &taken, 1, wanted.dptr), CUDA_ERROR_INVALID_VALUE);
        MUST(cuGraphAddMemFreeNode(&given, graph, &taken, 1, wanted.dptr));
        MUST(cuGraphInstantiate(&exec, graph, 0));
        MUST(cuGraphLaunch(exec, stream));
        MUST(cuGraphLaunch(exec, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuGraphExecDestroy(exec));
        MUST(cuGraphDestroy(graph));
        MUST(cuStreamDestroy(stream));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_version_and_the_number_of_devices_are_answered),
                cmocka_unit_test(a_device_has_the_name_uuid_and_pci_address_that_nvml_gives_it),
                cmocka_unit_test(a_device_that_is_not_there_or_text_without_room_is_refused),
                cmocka_unit_test(the_device_of_the_current_context_is_the_one_it_was_made_for),
                cmocka_unit_test(bytes_go_to_the_device_within_it_and_back),
                cmocka_unit_test(a_graph_that_frees_what_it_allocates_can_be_launched_again),
        };

        return cmocka_run_group_tests(tests, enter_second_device, leave_second_device);
}
