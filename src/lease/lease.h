/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant was granted: a quota per device, and one of host memory. */
#pragma once

#include "lease/quota.h"

#include <stdbool.h>
#include <stdint.h>

enum {
        LEASE_DEVICES_MAX = 32, /* what one driver serves */
        LEASE_OWN = 4,          /* kinds of objects in gate/policy/own.def */
};

enum lease_managed {
        LEASE_MANAGED_CHARGE, /* a managed range is charged at its length, on every device leased */
        LEASE_MANAGED_DENY,
        LEASE_MANAGED_ALLOW, /* not charged: the operator accepts the overcommitment */
};

/* What the driver takes of a device for an object of each kind without being asked; unknown: the largest known. */
struct lease_own {
        struct {
                bool is_known;
                bytes size;
        } of[LEASE_OWN];
};

struct lease_device {
        bool is_granted;
        bool is_node;          /* its memory is a NUMA node of the host's, or may be: no quota holds there */
        uint32_t instance;     /* the driver's number for it (deviceId) */
        uint32_t gpu_id;       /* the driver's id for it */
        uint32_t minor;        /* N of /dev/nvidiaN */
        char name[64];         /* "NVIDIA H200"; "": not known */
        char uuid[64];         /* "GPU-..."; "": not known */
        char bus_id[24];       /* "00000000:18:00.0", as nvidia-smi writes it */
        uint32_t architecture; /* as the driver numbers them: 0x180 is Hopper; 0: not known */
        struct lease_own own;
        bytes total; /* what the device has, as memory info would say */
        struct quota quota;
        struct quota fabric; /* addresses of the fabric: few, and shared by all; src/gate/memory.c says how many */
        struct {
                bool is_one;           /* the tenant is on a MIG instance */
                uint32_t gpu, compute; /* the driver's ids of it: no others may be named */
        } mig;
};

struct lease {
        char tenant[64];
        struct lease_device devices[LEASE_DEVICES_MAX]; /* by PCI bus order, as nvidia-smi numbers */
        unsigned int n_devices;                         /* how many the machine has */
        struct quota host; /* host memory that the driver allocates and pins for the tenant */
        enum lease_managed managed;
        unsigned int capabilities; /* of lease/capabilities.h */
        uint32_t groups_max;       /* channel groups; a run list is finite and shared */
        uint32_t channels_max;
};
