/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userd - whether the gate may look at what a tenant's channels have put and got: a second handle, of another client
 * of this process, of video memory as libcuda has it for USERD, and one page of it mapped through that. TAP.
 *
 * The gate maps so (src/gate/demand.c): the page stays what it is when the first client dies.
 */
#include "base/clock.h"
#include "base/err.h"
#include "gate/gate.h"
#include "gate/state/probe.h"
#include "gpu/client.h"
#include "rm/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int n_tests;

static bool ok(bool is, const char *what)
{
        printf("%sok %d - %s\n", is ? "" : "not ", ++n_tests, what);
        return is;
}

/* As libcuda asks for it (580.159.04): 2 MiB, attr 0x11800000. */
static uint32_t userd(struct gpu_client *tenant)
{
        enum { SIZE = 2 << 20, ATTR = 0x11800000 };
        uint32_t params_size = tenant->backend->layout.memory_params_size, handle = 0;
        uint8_t params[256] = { 0 };

        rm_put32(params, params_size, 0, 1);
        rm_put32(params, params_size, 24, ATTR);
        rm_put64(params, params_size, 64, SIZE);
        printf("# allocation: %d\n",
               client_alloc(tenant, tenant->device, RM_CLASS_VIDEO_MEMORY, params, params_size, &handle));
        return handle;
}

static void read_page(const void *page)
{
        const volatile uint32_t *words = page;
        nsec start = clock_now();
        uint32_t sum = 0;

        for (int i = 0; i < 1000; i++)
                sum += words[0x88 / 4];
        printf("# a read: %lld ns (sum %u)\n", (long long)((clock_now() - start) / 1000), sum);
}

int main(void)
{
        struct gpu_backend backend;
        struct gate_driver driver;
        struct gpu_client *tenant = NULL;
        struct lease lease = { 0 };
        struct probe probe;
        struct err err = { 0 };
        const void *page = NULL;
        uint32_t memory, ours;

        if (gpu_backend_find(&backend, &err) < 0) {
                printf("1..0 # skip %s\n", err.text);
                return 0;
        }
        driver = (struct gate_driver){ backend.context, backend.node, backend.ioctl, backend.open, backend.map };
        ok(gpu_client_open(&backend, 0, &tenant) == 0, "a client at the device");
        ok(probe_init(&probe, &driver, &backend.layout) == 0 && probe_devices(&probe, &lease) == 0,
           "the gate's own client");
        memory = userd(tenant);
        ok(memory, "memory as USERD has it");
        ours = probe_dup(&probe, 0, tenant->client, memory);
        ok(ours, "a second handle of it, of the gate's client");
        if (ok(probe_map(&probe, 0, ours, 0x2000, 4096, &page) == 0, "a page of it, mapped through that"))
                read_page(page);
        gpu_client_close(tenant);
        if (page)
                read_page(page);
        ok(true, "and read after the first client has gone");
        if (page)
                (void)munmap((void *)(uintptr_t)page, 4096);
        probe_drop(&probe, ours);
        probe_done(&probe);
        printf("1..%d\n", n_tests);
        return 0;
}
