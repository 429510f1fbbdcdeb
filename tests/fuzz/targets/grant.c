/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user asks for, a line each: memory, devices, host memory, managed memory, capabilities; a line that is not
 * there is not asked. Refused in a line, or a lease within the machine; and what is wrong on any machine is refused on
 * this one.
 */
#include "base/err.h"
#include "lease/capabilities.h"
#include "wire/grant.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
        FIELDS = 5,
        TEXT_MAX = 4096,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

static struct lease machine(void)
{
        struct lease lease = { .n_devices = 2 };

        lease.devices[0].total = 80 * GIB;
        lease.devices[1].total = 24 * GIB;
        (void)strcpy(lease.devices[0].uuid, "GPU-7375626c-6574-4073-806d-000000000000");
        (void)strcpy(lease.devices[1].uuid, "GPU-7375626d-6574-4073-806d-000000000000");
        (void)strcpy(lease.devices[0].bus_id, "00000000:18:00.0");
        (void)strcpy(lease.devices[1].bus_id, "00000001:AF:00.0");
        return lease;
}

static void check_lease(const struct lease *lease)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                need(i < lease->n_devices || !lease->devices[i].is_granted);
                n += lease->devices[i].is_granted;
                if (lease->devices[i].is_granted)
                        need(lease->devices[i].quota.size && lease->devices[i].quota.size <= lease->devices[i].total);
        }
        need(n > 0 && lease->n_devices == 2);
        need(lease->host.size && lease->groups_max && lease->channels_max);
        need(lease->managed <= LEASE_MANAGED_ALLOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct lease lease = machine();
        struct err err = { 0 }, again = { 0 };
        char text[TEXT_MAX], *rest = text, *fields[FIELDS];
        struct grant grant;
        int r;

        size = size < TEXT_MAX ? size : TEXT_MAX - 1;
        memcpy(text, data, size);
        text[size] = '\0';
        for (int i = 0; i < FIELDS; i++)
                fields[i] = strsep(&rest, "\n");
        grant = (struct grant){ fields[0], fields[1], fields[2], fields[3], fields[4] };
        r = grant_check(&grant, &err);
        need(r == 0 || (err.text[0] && !strchr(err.text, '\n')));
        if (grant_apply(&grant, &lease, &again) < 0) {
                need(again.text[0] && !strchr(again.text, '\n'));
                return 0;
        }
        need(r == 0);
        check_lease(&lease);
        return 0;
}
