/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the process: calls of libcuda before it opens a device; recorded. */
#include "sim/cuda/driver/start.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdio.h>

/* A client of its own, only to compare the library's version with the driver's. */
static uint32_t ask_version(struct nv *nv, struct start_process *ret)
{
        char driver[80] = { 0 }, title[80] = { 0 }, version[80] = { 0 };
        uint8_t params[40] = { 0 };
        uint32_t status;

        status = nv_devices(nv, ret->devices, &ret->n_devices);
        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, 0, 0, RM_CLASS_ROOT, NULL);
        if (status != RM_STATUS_OK)
                return status;
        rm_put32(params, sizeof(params), 0, sizeof(driver));
        rm_put64(params, sizeof(params), 8, (uintptr_t)driver);
        rm_put64(params, sizeof(params), 16, (uintptr_t)version);
        rm_put64(params, sizeof(params), 24, (uintptr_t)title);
        status = nv_control(nv, nv->client, 0x101, params, sizeof(params));
        (void)nv_free(nv, nv->client, nv->client);
        return status;
}

static uint32_t make_client(struct nv *nv, struct start_process *ret)
{
        static const uint32_t policies[2][2] = { { 1, 4 }, { 4, 0x40004 } };
        uint8_t params[12] = { 0 };
        uint32_t status = nv_devices(nv, ret->devices, &ret->n_devices);

        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, 0, 0, RM_CLASS_ROOT, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(policies) && status == RM_STATUS_OK; i++) {
                rm_put32(params, sizeof(params), 0,
                         nv->client); /* the default policy for dups of this client's objects */
                rm_put32(params, sizeof(params), 4, policies[i][0]);
                rm_put32(params, sizeof(params), 8, policies[i][1]);
                status = nv_control(nv, nv->client, 0xd04, params, sizeof(params));
        }
        return status;
}

static uint32_t devices_probe(struct nv *nv, struct start_process *ret)
{
        uint8_t params[4096] = { 0 };
        uint32_t status = nv_control(nv, nv->client, RM_GET_PROBED_IDS, params, 384), n = 0;

        while (status == RM_STATUS_OK && n < NV_DEVICES && rm_get32(params, 384, 4 * n) != UINT32_MAX) {
                ret->probed[n] = rm_get32(params, 384, 4 * n);
                n++;
        }
        ret->n_probed = n;
        memset(params, 0, sizeof(params));
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0xa04, params, 2244);
        if (status != RM_STATUS_OK)
                return status;

        memset(params, 0, sizeof(params));
        for (uint32_t i = 0; i < 32; i++)
                rm_put32(params, 132, 4 * i, i < n ? ret->probed[i] : i == n ? UINT32_MAX : 0);
        return nv_control(nv, nv->client, 0x215, params, 132); /* attach */
}

/* libcuda opens the first device's node to see whether it may; the descriptor stays open. */
static void node_open_check(const struct start_process *process)
{
        char path[32];

        if (!process->n_devices)
                return;
        (void)snprintf(path, sizeof(path), "/dev/nvidia%u", process->devices[0].minor);
        (void)nv_node_open(path);
}

uint32_t start_process(struct nv *nv, struct start_process *ret)
{
        uint8_t params[4096] = { 0 }, block[16] = { 0 };
        uint32_t status, object;

        nv->ctl = nv_node_open("/dev/nvidiactl");
        if (nv->ctl < 0)
                return NV_LOST;
        status = ask_version(nv, ret);
        closep(&nv->ctl);
        if (status == RM_STATUS_OK)
                nv->ctl = nv_node_open("/dev/nvidiactl");
        if (nv->ctl < 0)
                return status != RM_STATUS_OK ? status : NV_LOST;

        object = nv_handle_take(nv);
        status = make_client(nv, ret);
        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, nv->client, object, 0xcb33, params);
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0x1f0, params, 4);
        if (status == RM_STATUS_OK)
                status = nv_uvm_open(nv);
        if (status == RM_STATUS_OK)
                status = nv_uvm(nv, 39, block, 4);
        if (status == RM_STATUS_OK)
                status = devices_probe(nv, ret);
        if (status == RM_STATUS_OK)
                node_open_check(ret);
        memset(params, 0, sizeof(params));
        if (status == RM_STATUS_OK)
                status = nv_control(nv, object, 0xcb330101, params, 6);
        memset(params, 0, sizeof(params));
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0x288, params, 3076);
        return status;
}
