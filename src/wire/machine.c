/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/machine.h"

#include "base/err.h"
#include "gate/policy/own.h"
#include "gate/state/probe.h"

struct gate_driver machine_driver(const struct gpu_backend *backend)
{
        return (struct gate_driver){ backend->context, backend->node, backend->ioctl, backend->open, backend->map };
}

int machine_probe(const struct gpu_backend *backend, struct lease *ret, struct err *err)
{
        struct gate_driver driver = machine_driver(backend);
        struct probe probe;
        int r = probe_init(&probe, &driver, &backend->layout);

        if (r == 0) {
                r = probe_devices(&probe, ret);
                probe_done(&probe);
        }
        for (unsigned int i = 0; r == 0 && i < ret->n_devices; i++)
                own_known(ret->devices[i].architecture, backend->release, &ret->devices[i].own);
        return r < 0 ? err_set(err, r, "asking the driver for its devices") : 0;
}
