/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page that is almost right: three bytes each are an offset and what is changed there; the first byte says whether
 * its sum is made right again (whoever wrote it meant it). What is accepted is within all bounds that the gate's code
 * relies on, and a page whose sum was left alone is accepted only as it was.
 */
#include "preload/lease_descriptor.h"

#include <stdlib.h>
#include <string.h>

static struct lease_descriptor good, forged, got;

static void begin(void)
{
        struct rm_version version = { 580, 159, 4 };

        good = (struct lease_descriptor){
                .tenancy = 4711, .attach = LEASE_DESCRIPTOR_ATTACH_AUTO, .n_filter = 100, .uvm_major = 511
        };
        (void)strcpy(good.lease.tenant, "chat-1");
        (void)strcpy(good.listening_socket, "/run/sublet/attach.sock");
        good.lease.n_devices = 2;
        good.lease.devices[1].is_granted = true;
        good.lease.devices[1].quota.size = 8 * GIB;
        if (rm_layout_for(version, &good.layout) != RM_OK || lease_descriptor_seal(&good) < 0)
                abort();
}

static void check(const struct lease_descriptor *descriptor)
{
        struct rm_layout known;

        if (descriptor->lease.n_devices > LEASE_DEVICES_MAX || descriptor->n_filter > LEASE_DESCRIPTOR_FILTER_MAX ||
            descriptor->attach > LEASE_DESCRIPTOR_ATTACH_REQUIRED || descriptor->lease.managed > LEASE_MANAGED_ALLOW ||
            !descriptor->tenancy || !memchr(descriptor->listening_socket, 0, sizeof(descriptor->listening_socket)) ||
            !memchr(descriptor->lease.tenant, 0, sizeof(descriptor->lease.tenant)) ||
            rm_layout_for(descriptor->layout.version, &known) != RM_OK ||
            memcmp(&known, &descriptor->layout, sizeof(known)) != 0)
                abort();
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                if (descriptor->lease.devices[i].is_granted && descriptor->lease.devices[i].mig.is_one &&
                    descriptor->lease.devices[i].mig.gpu == UINT32_MAX)
                        return; /* reading them is the point: a bool is 0 or 1 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        bool is_meant = size && data[0] & 1;

        if (!good.tenancy)
                begin();
        forged = good;
        for (size_t i = 1; i + 2 < size; i += 3)
                ((uint8_t *)&forged)[(data[i] | (size_t)data[i + 1] << 8) % sizeof(forged)] ^= data[i + 2];
        if (is_meant)
                (void)lease_descriptor_seal(&forged);
        if (lease_descriptor_parse(&forged, sizeof(forged), &got) == 0) {
                check(&got);
                if (!is_meant && memcmp(&got, &good, sizeof(good)) != 0)
                        abort(); /* FNV-1a tells any few bytes apart */
        }
        if (lease_descriptor_parse(data, size, &got) == 0)
                check(&got);
        return 0;
}
