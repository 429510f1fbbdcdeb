/*
 * MIG: which instance a tenant may subscribe to. Without a subscription a client has none of a device in MIG mode.
 *
 * Parameters of both classes: descriptor of the capability@0 (u64), id@8. Source: open-gpu-kernel-modules,
 * sdk/nvidia/inc/class/clc637.h and clc638.h; read, not run: no device in MIG mode was there. The driver looks at the
 * capability besides (perform.c gives it our duplicate).
 */
#include "gate/policy/decide.h"

#include "lease/lease.h"
#include "lease/ledger.h"
#include "rm/numbers.h"

enum {
        GPU_INSTANCE = 0xc637,
        COMPUTE_INSTANCE = 0xc638,
        PARAMS_SIZE = 16,
};

uint32_t gate_check_instance(const struct lease *lease, uint32_t class_number, const void *params, size_t params_size,
                             const struct ledger_object *parent)
{
        bool is_compute = class_number == COMPUTE_INSTANCE;
        uint32_t id = rm_get32(params, params_size, 8);
        const struct lease_device *device;

        if (!is_compute && class_number != GPU_INSTANCE)
                return RM_STATUS_OK;
        if (params_size < PARAMS_SIZE)
                return RM_STATUS_INVALID_PARAM_STRUCT;
        if (parent->class_number != (is_compute ? GPU_INSTANCE : RM_CLASS_SUBDEVICE))
                return RM_STATUS_INVALID_ARGUMENT;
        if (parent->device < 0 || (unsigned int)parent->device >= lease->n_devices)
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        device = &lease->devices[parent->device];
        if (!device->is_granted || !device->mig.is_one || id != (is_compute ? device->mig.compute : device->mig.gpu))
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        return RM_STATUS_OK;
}
