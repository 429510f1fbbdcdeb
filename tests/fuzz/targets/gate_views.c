/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any reply of the driver, and the part of it that a tenant sees.
 *
 *      view (1) devices of the lease (1) their ids (4 each) quota in MiB (2) used part in 1/255 (1) reply (the rest)
 *
 * Nothing beside the reply is written, and afterwards it has only devices, processes and sizes of the tenant.
 */
#include "gate/policy/views.h"

#include "rm/layout.h"

#include <stdlib.h>

enum {
        DEVICE_INFO = 72,
        N_VIEWS = 7,
        DEVICES_MAX = 4,
};

static void require(bool holds)
{
        if (!holds)
                abort();
}

static bool is_ours(const struct lease *lease, uint32_t id)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].is_granted && lease->devices[i].gpu_id == id)
                        return true;
        return false;
}

static void check_fb(uint8_t *reply, size_t size, const struct view *view)
{
        size_t n = size / 8;

        view_fb_info(reply, n, view);
        for (size_t i = 0; i < n; i++) {
                uint32_t index = rm_get32(reply, size, i * 8);
                bytes told = rm_get32(reply, size, i * 8 + 4) * KIB;

                if (index == 0x07 || index == 0x08 || index == 0x09 || index == 0x20)
                        require(told == view->size);
                if (index == 0x0a || index == 0x33)
                        require(told <= view->size);
                if (index == 0x12 || index == 0x16 || index == 0x34)
                        require(told <= view->free);
                if (index == 0x13 || index > 0x3b)
                        require(told == 0);
        }
}

static void check_ids(uint8_t *reply, size_t size, const struct lease *lease)
{
        bool has_ended = false;

        view_gpu_ids(reply, size / 4, lease);
        for (size_t i = 0; i < size / 4; i++) {
                uint32_t id = rm_get32(reply, size, i * 4);

                require(id == UINT32_MAX || (is_ours(lease, id) && !has_ended));
                has_ended = has_ended || id == UINT32_MAX;
        }
}

static void check_devices(uint8_t *reply, size_t size, const struct lease *lease)
{
        view_devices(reply, size / DEVICE_INFO, lease);
        for (size_t i = 0; i < size / DEVICE_INFO; i++) {
                const uint8_t *device = reply + i * DEVICE_INFO;

                require(!device[0] || is_ours(lease, rm_get32(device, DEVICE_INFO, 16)));
                for (size_t at = 0; !device[0] && at < DEVICE_INFO; at++)
                        require(device[at] == 0);
        }
}

static void check_active(uint8_t *reply, size_t size, const struct lease *lease)
{
        uint32_t n;

        view_active_devices(reply, size, lease);
        n = rm_get32(reply, size, 0);
        require(n <= size / 12);
        for (size_t i = 0; i < n; i++)
                require(is_ours(lease, rm_get32(reply, size, 4 + i * 12)));
        for (size_t at = 4 + n * 12; at < size; at++)
                require(reply[at] == 0);
}

static void check_pids(uint8_t *reply, size_t size)
{
        static const uint32_t pids[] = { 41, 42, 43 };

        view_pids(reply, size, pids, 3);
        for (size_t at = 24; at < size; at++)
                require(reply[at] == 0);
}

static bytes a_mib_each(void *context, uint32_t pid)
{
        *(unsigned int *)context += 1;
        return pid * MIB;
}

static void check_pid_info(uint8_t *reply, size_t size)
{
        unsigned int n_asked = 0;

        view_pid_info(reply, size, a_mib_each, &n_asked);
        require(n_asked <= 200 && n_asked <= rm_get32(reply, size, 0));
        for (size_t i = 0; i < n_asked; i++) {
                size_t at = 8 + i * 72;

                require(rm_get64(reply, size, at + 16) == rm_get32(reply, size, at) * MIB);
                require(rm_get64(reply, size, at + 24) == 0 && rm_get64(reply, size, at + 32) == 0);
        }
}

static void check_heap(uint8_t *reply, size_t size, const struct view *view)
{
        view_heap_info(reply, size, view);
        require(size < 40 || (rm_get64(reply, size, 24) == view->size && rm_get64(reply, size, 32) <= view->free));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct lease lease;
        struct view view;
        uint8_t *reply;
        size_t head;

        if (size < 2)
                return 0;
        lease.n_devices = data[1] % (DEVICES_MAX + 1);
        head = 2 + lease.n_devices * 4 + 3;
        if (size < head)
                return 0;
        view.size = (bytes)(data[head - 3] | data[head - 2] << 8) * MIB;
        view.free = view.size / 255 * (255u - data[head - 1]) / KIB * KIB;
        for (unsigned int i = 0; i < lease.n_devices; i++) {
                lease.devices[i] =
                        (struct lease_device){ .is_granted = i != 1, .gpu_id = rm_get32(data, size, 2 + i * 4) };
                lease.devices[i].quota.size = view.size;
        }
        size -= head;
        reply = malloc(size ? size : 1); /* its very size, for the sanitizer */
        require(reply != NULL);
        memcpy(reply, data + head, size);
        switch (data[0] % N_VIEWS) {
        case 0:
                check_fb(reply, size, &view);
                break;
        case 1:
                check_ids(reply, size, &lease);
                break;
        case 2:
                check_devices(reply, size, &lease);
                break;
        case 3:
                check_active(reply, size, &lease);
                break;
        case 4:
                check_pids(reply, size);
                break;
        case 5:
                check_pid_info(reply, size);
                break;
        case 6:
                check_heap(reply, size, &view);
                break;
        }
        free(reply);
        return 0;
}
