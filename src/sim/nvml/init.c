/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and ending: the sequence of nvidia-smi's calls, recorded on an H200 with 580.159.04.
 * A device is attached when a program first names it, as in the recording.
 */
#include "sim/nvml/state.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct nvml nvml;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int nvml_lock(void)
{
        return pthread_mutex_lock(&mutex);
}

void nvml_unlock(int *locked)
{
        (void)locked;
        (void)pthread_mutex_unlock(&mutex);
}

nvmlReturn_t nvml_check(void)
{
        return nvml.n_init ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvml_result(uint32_t status)
{
        switch (status) {
        case RM_STATUS_OK:
                return NVML_SUCCESS;
        case 0x0f:
        case NV_LOST:
                return NVML_ERROR_GPU_IS_LOST;
        case RM_STATUS_INSUFFICIENT_PERMISSIONS:
                return NVML_ERROR_NO_PERMISSION;
        case RM_STATUS_NOT_SUPPORTED:
                return NVML_ERROR_NOT_SUPPORTED;
        default:
                return NVML_ERROR_UNKNOWN;
        }
}

/* ---- the driver ---------------------------------------------------------------------------- */

static uint32_t control(uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        return nv_control(&nvml.nv, object, cmd, params, size);
}

/* The driver checks that library and driver are of one release. */
static uint32_t version_check(void)
{
        uint8_t block[72] = { 0 };
        uint32_t status;

        memcpy(block + 8, nvml.release, strnlen(nvml.release, 63));
        status = nv_ioctl(nvml.nv.ctl, RM_NR_CHECK_VERSION, block, sizeof(block), UINT32_MAX);
        if (status != RM_STATUS_OK)
                return status;
        return rm_get32(block, sizeof(block), 4) == 1 ? RM_STATUS_OK : RM_STATUS_INVALID_ARGUMENT;
}

static uint32_t ids_probed(uint32_t *ids, uint32_t *ret_n)
{
        uint8_t params[384] = { 0 };
        uint32_t status = control(nvml.nv.client, RM_GET_PROBED_IDS, params, sizeof(params)), n = 0;

        for (; status == RM_STATUS_OK && n < NV_DEVICES && rm_get32(params, sizeof(params), 4 * n) != UINT32_MAX; n++)
                ids[n] = rm_get32(params, sizeof(params), 4 * n);
        *ret_n = n;
        return status;
}

/* Three controls about a device before it is attached; and its node is opened. */
static uint32_t device_probe(struct nvmlDevice_st *device)
{
        static const struct {
                uint32_t cmd, size;
        } controls[] = { { 0x21b, 12 }, { 0x279, 12 }, { 0x289, 4 } };
        uint8_t params[16], block[8] = { 0 };
        char path[32];
        uint32_t status = RM_STATUS_OK;

        for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
                memset(params, 0, sizeof(params));
                rm_put32(params, sizeof(params), 0, device->gpu_id);
                (void)control(nvml.nv.client, controls[i].cmd, params, controls[i].size);
        }
        (void)snprintf(path, sizeof(path), "/dev/nvidia%u", device->info.minor);
        device->node[0] = nv_node_open(path);
        if (device->node[0] < 0)
                return NV_LOST;
        if (nvml.nv.layout.wait_open_size != RM_ABSENT && nvml.nv.layout.wait_open_size <= sizeof(block))
                (void)nv_ioctl(device->node[0], RM_NR_WAIT_OPEN, block, nvml.nv.layout.wait_open_size, UINT32_MAX);
        return status;
}

/* MIG instances are monitored and configured through capabilities, where the machine has them. */
static void take_capability(const char *path, uint32_t class_number)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint32_t object = nvml.nv.prefix + nvml.nv.stride * nvml.next++;
        uint8_t params[8] = { 0 };

        if (fd < 0)
                return;
        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        (void)nv_alloc(&nvml.nv, -1, nvml.nv.client, object, class_number, params);
}

static uint32_t find_devices(const struct nv_device_info *info, uint32_t n_devices)
{
        uint32_t ids[NV_DEVICES], n = 0, status = ids_probed(ids, &n);

        for (uint32_t i = 0; i < n_devices && status == RM_STATUS_OK; i++) {
                struct nvmlDevice_st *device = &nvml.device[nvml.n_devices];

                for (uint32_t k = 0; k < n; k++) {
                        if (ids[k] != info[i].gpu_id)
                                continue;
                        *device = (struct nvmlDevice_st){ .info = info[i], .gpu_id = ids[k], .node = { -1, -1, -1 } };
                        device->index = nvml.n_devices;
                        if (device_probe(device) == RM_STATUS_OK)
                                nvml.n_devices++;
                }
        }
        return status == RM_STATUS_OK ? ids_probed(ids, &n) : status;
}

static uint32_t driver_start(void)
{
        struct nv_device_info info[NV_DEVICES];
        uint32_t n = 0, status = version_check();

        if (status == RM_STATUS_OK)
                status = nv_devices(&nvml.nv, info, &n);
        if (status == RM_STATUS_OK)
                status = nv_alloc(&nvml.nv, -1, 0, 0, RM_CLASS_ROOT, NULL);
        if (status == RM_STATUS_OK)
                status = find_devices(info, n);
        if (status != RM_STATUS_OK)
                return status;
        take_capability("/dev/nvidia-caps/nvidia-cap1", 0xc639);
        take_capability("/dev/nvidia-caps/nvidia-cap2", 0xc640);
        status = nv_uvm_open(&nvml.nv);
        return nvml.nv.uvm < 0 || nvml.nv.uvm_mm < 0 ? RM_STATUS_OK : status; /* NVML can do without UVM */
}

static void read_release(void)
{
        _cleanup_(closep) int fd = open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC);

        memset(nvml.release, 0, sizeof(nvml.release));
        if (fd >= 0 && read(fd, nvml.release, sizeof(nvml.release) - 1) > 0)
                nvml.release[strcspn(nvml.release, "\n")] = 0;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
        LOCKED_NVML;
        uint32_t status;

        (void)flags;
        if (nvml.n_init) {
                nvml.n_init++;
                return NVML_SUCCESS;
        }
        nvml = (struct nvml){ 0 };
        read_release();
        if (nv_init(&nvml.nv, 0xa55a0000, 16) != 0)
                return NVML_ERROR_DRIVER_NOT_LOADED;
        nvml.nv.ctl = nv_node_open("/dev/nvidiactl");
        if (nvml.nv.ctl < 0) {
                nv_done(&nvml.nv);
                return NVML_ERROR_DRIVER_NOT_LOADED;
        }
        status = driver_start();
        if (status != RM_STATUS_OK) {
                nv_done(&nvml.nv);
                return status == RM_STATUS_INVALID_ARGUMENT ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : nvml_result(status);
        }
        nvml.n_init = 1;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
        return nvmlInitWithFlags(0);
}

/* ---- devices ------------------------------------------------------------------------------- */

static uint32_t ask_id(uint32_t gpu_id, uint32_t cmd, uint32_t size, uint32_t *ret_instance)
{
        uint8_t params[128] = { 0 };
        uint32_t status;

        if (cmd != RM_GET_ATTACHED_IDS)
                rm_put32(params, sizeof(params), 0, gpu_id);
        status = control(nvml.nv.client, cmd, params, size);
        if (ret_instance)
                *ret_instance = rm_get32(params, sizeof(params), 8);
        return status;
}

static uint32_t ask_ids(uint32_t gpu_id)
{
        uint32_t status = ask_id(gpu_id, RM_GET_ID_INFO, 40, NULL);

        if (status == RM_STATUS_OK)
                status = ask_id(gpu_id, RM_GET_ATTACHED_IDS, 128, NULL);
        return status == RM_STATUS_OK ? ask_id(gpu_id, RM_GET_ID_INFO, 40, NULL) : status;
}

static uint32_t make_device(struct nvmlDevice_st *device)
{
        uint8_t params[1024] = { 0 };
        uint32_t size = nvml.nv.layout.numa_info_size, status;

        device->node[1] = nv_device_open(&nvml.nv, device->info.minor);
        if (device->node[1] < 0 || size > sizeof(params))
                return NV_LOST;
        (void)nv_ioctl(device->node[1], RM_NR_NUMA_INFO, params, size, UINT32_MAX);
        status = ask_id(device->gpu_id, RM_GET_ID_INFO_V2, 32, &device->instance);
        if (status != RM_STATUS_OK)
                return status;
        memset(params, 0, sizeof(params));
        rm_put32(params, 56, 0, device->instance);
        device->device = nvml.nv.prefix + nvml.nv.stride * nvml.next++;
        status = nv_alloc(&nvml.nv, -1, nvml.nv.client, device->device, RM_CLASS_DEVICE, params);
        memset(params, 0, sizeof(params));
        return status == RM_STATUS_OK ? control(device->device, 0x800289, params, 8) : status;
}

static uint32_t make_subdevice(struct nvmlDevice_st *device)
{
        uint8_t params[512] = { 0 };
        uint32_t status;

        device->node[2] = nv_device_open(&nvml.nv, device->info.minor);
        if (device->node[2] < 0)
                return NV_LOST;
        device->subdevice = nvml.nv.prefix + nvml.nv.stride * nvml.next++;
        status = nv_alloc(&nvml.nv, -1, device->device, device->subdevice, RM_CLASS_SUBDEVICE, params);
        if (status != RM_STATUS_OK)
                return status;
        for (int i = 0; i < 2; i++) { /* clocks of processor and device, compared; of no use here */
                memset(params, 0, sizeof(params));
                rm_put32(params, sizeof(params), 0, 0x501);
                (void)control(device->subdevice, 0x20800406, params, 264);
        }
        memset(params, 0, sizeof(params));
        (void)control(device->subdevice, 0x20801701, params, 16);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 4, 2); /* binary */
        status = control(device->subdevice, 0x2080014a, params, 268);
        memcpy(device->uuid, params + 12, sizeof(device->uuid));
        return status;
}

static uint32_t device_attach(struct nvmlDevice_st *device)
{
        uint8_t params[132] = { 0 };
        uint32_t status;

        rm_put32(params, sizeof(params), 0, device->gpu_id);
        rm_put32(params, sizeof(params), 4, UINT32_MAX);
        status = control(nvml.nv.client, 0x215, params, sizeof(params));
        if (status == RM_STATUS_OK)
                status = ask_ids(device->gpu_id);
        if (status == RM_STATUS_OK)
                status = make_device(device);
        if (status == RM_STATUS_OK)
                status = ask_ids(device->gpu_id);
        if (status == RM_STATUS_OK)
                status = make_subdevice(device);
        device->is_attached = status == RM_STATUS_OK;
        return status;
}

nvmlReturn_t nvml_enter(nvmlDevice_t device)
{
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS)
                return r;
        if (device < nvml.device || device >= nvml.device + nvml.n_devices)
                return NVML_ERROR_INVALID_ARGUMENT;
        return device->is_attached ? NVML_SUCCESS : nvml_result(device_attach(device));
}

static void device_detach(struct nvmlDevice_st *device)
{
        if (device->subdevice)
                (void)nv_free(&nvml.nv, device->device, device->subdevice);
        closep(&device->node[2]);
        if (device->device)
                (void)nv_free(&nvml.nv, nvml.nv.client, device->device);
        closep(&device->node[1]);
}

nvmlReturn_t nvmlShutdown(void)
{
        LOCKED_NVML;
        uint8_t params[128] = { 0 };
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS || --nvml.n_init > 0)
                return r;
        if (nvml.nv.uvm >= 0)
                (void)nv_uvm(&nvml.nv, UVM_DEINITIALIZE, params, 0);
        closep(&nvml.nv.uvm_mm);
        closep(&nvml.nv.uvm);
        for (unsigned int i = nvml.n_devices; i-- > 0;)
                device_detach(&nvml.device[i]);
        rm_put32(params, sizeof(params), 0, 0xffff); /* all */
        rm_put32(params, sizeof(params), 4, UINT32_MAX);
        (void)control(nvml.nv.client, 0x216, params, sizeof(params));
        for (unsigned int i = 0; i < nvml.n_devices; i++)
                closep(&nvml.device[i].node[0]);
        (void)nv_free(&nvml.nv, nvml.nv.client, nvml.nv.client);
        nv_done(&nvml.nv);
        nvml.n_devices = 0;
        return NVML_SUCCESS;
}
