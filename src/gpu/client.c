/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/client.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>

#define FIRST_HANDLE 0x5ab10000u /* of the objects made here; any numbers that are unique in the client */

enum {
        DEVICE_SIZE = 56, /* NV0080_ALLOC_PARAMETERS: deviceId@0 */
        SUBDEVICE_SIZE = 4,
        MAP_READ_ONLY = 1,
};

int client_error(int64_t status)
{
        switch (status) {
        case RM_STATUS_OK:
                return 0;
        case GPU_STATUS_IS_LOST:
                return -ENODEV;
        case RM_STATUS_INSUFFICIENT_PERMISSIONS:
                return -EPERM;
        case RM_STATUS_NOT_SUPPORTED:
        case RM_STATUS_INVALID_CLASS:
                return -ENOTSUP;
        default:
                return status < 0 ? (int)status : -EIO;
        }
}

static int client_ioctl(const struct gpu_client *client, int fd, uint32_t nr, void *block, uint32_t size)
{
        return client->backend->ioctl(client->backend->context, fd, rm_encode_request(nr, size), block);
}

int client_alloc(struct gpu_client *client, uint32_t parent, uint32_t class_number, void *params, uint32_t params_size,
                 uint32_t *ret_object)
{
        const struct rm_layout *layout = &client->backend->layout;
        struct rm_alloc alloc = { .client = client->client,
                                  .parent = parent,
                                  .object = parent ? client->next : 0, /* the driver chooses a client's handle */
                                  .class_number = class_number,
                                  .params = params,
                                  .params_size = params_size };
        uint8_t block[RM_BLOCK_MAX];
        uint32_t size = rm_encode_alloc(layout, &alloc, block);
        int r = client_ioctl(client, client->ctl, RM_NR_ALLOC, block, size);

        if (r < 0)
                return r;
        r = client_error(rm_get32(block, size, layout->alloc_status_at));
        if (r < 0)
                return r;
        client->next++;
        *ret_object = rm_get32(block, size, RM_OBJECT_AT);
        return 0;
}

int64_t client_control(struct gpu_client *client, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        struct rm_control control = {
                .client = client->client, .object = object, .cmd = cmd, .params = params, .params_size = size
        };
        uint8_t block[RM_BLOCK_MAX];
        uint32_t block_size = rm_encode_control(&control, block);
        int r = client_ioctl(client, client->ctl, RM_NR_CONTROL, block, block_size);

        return r < 0 ? (int64_t)r : (int64_t)rm_get32(block, block_size, RM_CONTROL_STATUS_AT);
}

void client_free(struct gpu_client *client, uint32_t object)
{
        uint8_t block[RM_FREE_SIZE] = { 0 };

        if (!object)
                return;
        rm_put32(block, sizeof(block), 0, client->client);
        rm_put32(block, sizeof(block), 8, object);
        (void)client_ioctl(client, client->ctl, RM_NR_FREE, block, sizeof(block));
}

/* Each mapping needs its own descriptor: the driver keeps one prepared mapping per struct file. hDevice is the client:
 * the memory of an event buffer has no device (H200, 580.159.04). */
int client_map(struct gpu_client *client, uint32_t object, size_t size, const void **ret)
{
        const struct gpu_backend *backend = client->backend;
        _cleanup_(closep) int fd = backend->open(backend->context, "nvidiactl");
        struct rm_map map = { .client = client->client,
                              .device = client->client,
                              .object = object,
                              .flags = MAP_READ_ONLY,
                              .size = size,
                              .fd = fd };
        uint8_t block[RM_BLOCK_MAX];
        int r;

        if (fd < 0)
                return fd;
        r = client_ioctl(client, client->ctl, RM_NR_MAP_MEMORY, block, rm_encode_map(&map, block));
        if (!r)
                r = client_error(rm_get32(block, sizeof(block), RM_MAP_STATUS_AT));
        return r < 0 ? r : backend->map(backend->context, fd, size, ret);
}

/* ---- the machine, and one device --------------------------------------------------------------- */

int client_open(struct gpu_client *client, const struct gpu_backend *backend)
{
        int r;

        *client = (struct gpu_client){ .backend = backend, .ctl = -1, .node = -1, .next = FIRST_HANDLE };
        client->ctl = backend->open(backend->context, "nvidiactl");
        if (client->ctl < 0)
                return client->ctl;
        r = client_alloc(client, 0, RM_CLASS_CLIENT, NULL, 0, &client->client);
        if (r < 0)
                client_done(client);
        return r;
}

int client_devices(struct gpu_client *client, struct rm_device ret[static RM_DEVICES_MAX], size_t *ret_n)
{
        uint8_t devices[RM_DEVICES_MAX * RM_DEVICE_INFO_SIZE] = { 0 };
        int r = client_ioctl(client, client->ctl, RM_NR_CARD_INFO, devices, sizeof(devices));

        if (r < 0)
                return r;
        *ret_n = rm_decode_devices(devices, sizeof(devices), ret);
        return 0;
}

/* The driver's number of an attached device: GET_ID_INFO_V2, gpuId@0 in, deviceInstance@8 out. */
static int instance_of(struct gpu_client *client, uint32_t gpu_id, uint32_t *ret)
{
        uint8_t params[32] = { 0 };
        int r;

        rm_put32(params, sizeof(params), 0, gpu_id);
        r = client_error(client_control(client, client->client, RM_GET_ID_INFO_V2, params, sizeof(params)));
        if (!r)
                *ret = rm_get32(params, sizeof(params), 8);
        return r;
}

static int open_node(struct gpu_client *client, uint32_t minor)
{
        const struct gpu_backend *backend = client->backend;
        int32_t ctl = client->ctl;
        char node[32];

        (void)snprintf(node, sizeof(node), "nvidia%u", minor);
        client->node = backend->open(backend->context, node);
        if (client->node < 0)
                return client->node == -EIO ? -ENODEV : client->node; /* a lost device cannot be opened */
        return client_ioctl(client, client->node, RM_NR_REGISTER_FD, &ctl, sizeof(ctl));
}

/* Opening the node attaches the device; before that the driver has no number for it. */
int client_attach(struct gpu_client *client, const struct rm_device *info)
{
        uint8_t params[DEVICE_SIZE] = { 0 };
        uint32_t instance = 0;
        int r;

        client->info = *info;
        r = open_node(client, info->minor);
        if (!r)
                r = instance_of(client, info->gpu_id, &instance);
        if (r < 0)
                return r;
        rm_put32(params, sizeof(params), 0, instance);
        r = client_alloc(client, client->client, RM_CLASS_DEVICE, params, DEVICE_SIZE, &client->device);
        if (r < 0)
                return r;
        rm_put32(params, sizeof(params), 0, 0);
        return client_alloc(client, client->device, RM_CLASS_SUBDEVICE, params, SUBDEVICE_SIZE, &client->subdevice);
}

void client_done(struct gpu_client *client)
{
        map_done(&client->disables);
        closep(&client->node);
        closep(&client->ctl);
}

int gpu_client_open(const struct gpu_backend *backend, unsigned int device, struct gpu_client **ret)
{
        struct rm_device devices[RM_DEVICES_MAX];
        struct gpu_client client;
        size_t n = 0;
        int r = client_open(&client, backend);

        if (r < 0)
                return r;
        r = client_devices(&client, devices, &n);
        if (!r)
                r = device < n ? client_attach(&client, &devices[device]) : -ENODEV;
        if (!r) {
                *ret = malloc(sizeof(client));
                r = *ret ? 0 : -ENOMEM;
        }
        if (r < 0)
                client_done(&client);
        else
                **ret = client;
        return r;
}

struct gpu_client *gpu_client_close(struct gpu_client *client)
{
        if (client)
                client_done(client);
        free(client);
        return NULL;
}

int client_numa(const struct rm_device *info)
{
        char path[96];
        int node = -1;
        FILE *file;

        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", info->domain, info->bus,
                       info->slot);
        file = fopen(path, "re");
        if (!file)
                return -1;
        if (fscanf(file, "%d", &node) != 1)
                node = -1;
        (void)fclose(file);
        return node;
}
