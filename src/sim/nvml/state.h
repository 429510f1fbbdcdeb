/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated NVML holds: a client of the driver, and the devices it attached to.
 * One lock for all of it, held across calls into the driver: nothing here waits for work.
 */
#pragma once

#include "sim/cuda/driver/nv.h"
#include "sublet/sim/nvml.h"

#include <stdbool.h>

/* Not known to programs: a pointer into the table. */
struct nvmlDevice_st {
        struct nv_device_info info;
        unsigned int index;
        uint32_t gpu_id, instance;
        uint32_t device, subdevice; /* handles */
        int node[3];                /* opened in init, for the device, for the subdevice */
        bool is_attached;
        uint8_t uuid[16];
};

enum {
        NVML_INSTANCES = 7,
};

/* Programs pass its address as a device. */
struct nvml_instance {
        struct nvmlDevice_st handle; /* first; its info is that of the device */
        unsigned int gpu, compute;
        unsigned long long memory;
        char uuid[64];
};

struct nvml {
        struct nv nv;
        char release[64];
        unsigned int n_init; /* nvmlInit nests */
        struct nvmlDevice_st device[NV_DEVICES];
        unsigned int n_devices;
        uint32_t next;                                 /* number of the next handle */
        struct nvml_instance instance[NVML_INSTANCES]; /* of device 0 */
        unsigned int n_instances;
};

extern struct nvml nvml; /* under the lock */

int nvml_lock(void); /* for the macro */
void nvml_unlock(int *locked);

#define LOCKED_NVML __attribute__((cleanup(nvml_unlock), unused)) int locked_ = nvml_lock()

nvmlReturn_t nvml_result(uint32_t status);
nvmlReturn_t nvml_check(void); /* NVML_ERROR_UNINITIALIZED */

/* A device that a program named, attached; its sequence is libnvidia-ml's. */
nvmlReturn_t nvml_enter(nvmlDevice_t device);

/* NULL: the handle is no MIG instance's. */
const struct nvml_instance *nvml_instance_of(nvmlDevice_t device);

/* "GPU-cc075878-..." */
void nvml_uuid_format(const uint8_t uuid[16], char text[static 41]);
nvmlReturn_t nvml_put_text(const char *text, char *to, unsigned int length);
