/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/probe.h"

#include "base/cleanup.h"
#include "gate/state/driver.h"
#include "rm/encode.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>

enum {
        DEVICE_INFOS_SIZE = RM_DEVICES_MAX * RM_DEVICE_INFO_SIZE,
        DEVICE_PARAMS_SIZE = 56,
        SUBDEVICE_PARAMS_SIZE = 4,

        GET_NAME = 0x20800110, /* flags@0 (0: ASCII), name[64]@4 */
        NAME_SIZE = 132,
        GET_GID = 0x2080014a, /* index@0 flags@4 (0: ASCII) length@8 data[256]@12 */
        GID_SIZE = 268,
        GET_ARCHITECTURE = 0x20801701, /* architecture@0 */
        ARCHITECTURE_SIZE = 16,

        NO_OBJECT = 0x5b1e7, /* handles that no library gives out */
        FIRST_DEVICE = 0x5b100000,
        FIRST_DUP = 0x5b200000,
        DUPS_MAX = 0x10000, /* then handles are used again */

        /* NVOS55_PARAMETERS */
        DUP_SIZE = 28,
        DUP_PARENT_AT = 4,
        DUP_SOURCE_CLIENT_AT = 12,
        DUP_SOURCE_AT = 16,
        DUP_STATUS_AT = 24,
};

static int call_driver(struct probe *probe, int fd, uint32_t nr, void *block, uint32_t size)
{
        return probe->driver->ioctl(probe->driver->context, fd, rm_encode_request(nr, size), block);
}

/* The status, or UINT32_MAX; *handle is what the driver made of it. */
static uint32_t alloc_object(struct probe *probe, uint32_t parent, uint32_t *handle, uint32_t class_number,
                             void *params, uint32_t params_size)
{
        struct rm_alloc alloc = { probe->client, parent, *handle, class_number, params, params_size };
        uint8_t block[RM_BLOCK_MAX];
        uint32_t size = rm_encode_alloc(probe->layout, &alloc, block);

        if (call_driver(probe, probe->ctl, RM_NR_ALLOC, block, size) < 0)
                return UINT32_MAX;
        *handle = rm_get32(block, size, RM_OBJECT_AT);
        return rm_get32(block, size, probe->layout->alloc_status_at);
}

static uint32_t control_object(struct probe *probe, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        struct rm_control control = { probe->client, object, cmd, params, size };

        return gate_driver_control(probe->driver, probe->ctl, &control);
}

/* As alloc_object. */
static uint32_t dup_object(struct probe *probe, uint32_t parent, uint32_t *handle, uint32_t client, uint32_t object)
{
        uint8_t block[DUP_SIZE] = { 0 };

        rm_put32(block, DUP_SIZE, 0, probe->client);
        rm_put32(block, DUP_SIZE, DUP_PARENT_AT, parent);
        rm_put32(block, DUP_SIZE, RM_OBJECT_AT, *handle);
        rm_put32(block, DUP_SIZE, DUP_SOURCE_CLIENT_AT, client);
        rm_put32(block, DUP_SIZE, DUP_SOURCE_AT, object);
        if (call_driver(probe, probe->ctl, RM_NR_DUP, block, DUP_SIZE) < 0)
                return UINT32_MAX;
        *handle = rm_get32(block, DUP_SIZE, RM_OBJECT_AT);
        return rm_get32(block, DUP_SIZE, DUP_STATUS_AT);
}

static int open_node(struct probe *probe, uint32_t minor)
{
        char node[32];

        (void)snprintf(node, sizeof(node), "nvidia%u", minor);
        return probe->driver->open(probe->driver->context, node);
}

int probe_init(struct probe *probe, const struct gate_driver *driver, const struct rm_layout *layout)
{
        uint32_t client = 0;

        *probe = (struct probe){ .driver = driver, .layout = layout };
        for (size_t i = 0; i < LEASE_DEVICES_MAX; i++)
                probe->devices[i].fd = -1;
        probe->ctl = driver->open(driver->context, "nvidiactl");
        if (probe->ctl < 0)
                return probe->ctl;
        if (alloc_object(probe, 0, &client, RM_CLASS_CLIENT, NULL, 0) != RM_STATUS_OK) {
                closep(&probe->ctl);
                return -EIO;
        }
        probe->client = client;
        return 0;
}

void probe_done(struct probe *probe)
{
        for (size_t i = 0; i < LEASE_DEVICES_MAX; i++)
                closep(&probe->devices[i].fd);
        closep(&probe->ctl);
}

bool probe_client(struct probe *probe, uint32_t client)
{
        uint32_t handle = 0;

        return dup_object(probe, probe->client, &handle, client, NO_OBJECT) != RM_STATUS_INVALID_OBJECT_HANDLE;
}

/* One of the two requests on the list of events: true if the driver did it. */
static bool call_list(struct probe *probe, uint32_t nr, uint32_t client, uint32_t number)
{
        enum { SIZE = 16, NUMBER_AT = 8, STATUS_AT = 12 };
        uint8_t block[SIZE] = { 0 };

        rm_put32(block, SIZE, 0, client);
        rm_put32(block, SIZE, NUMBER_AT, number);
        return call_driver(probe, probe->ctl, nr, block, SIZE) >= 0 && rm_get32(block, SIZE, STATUS_AT) == RM_STATUS_OK;
}

/* What is there is not taken once more. */
bool probe_listens(struct probe *probe, uint32_t client, uint32_t number)
{
        if (!call_list(probe, RM_NR_ALLOC_EVENT, client, number))
                return true;
        (void)call_list(probe, RM_NR_FREE_EVENT, client, number);
        return false;
}

void probe_unlisten(struct probe *probe, uint32_t client, uint32_t number)
{
        (void)call_list(probe, RM_NR_FREE_EVENT, client, number);
}

/* Makes a device of ours and a subdevice under it, once. */
static int open_device(struct probe *probe, const struct lease_device *device, unsigned int index)
{
        uint32_t handle = FIRST_DEVICE + index * 2, sub = handle + 1;
        uint8_t params[DEVICE_PARAMS_SIZE] = { 0 };
        int32_t ctl = probe->ctl;
        int fd;

        if (probe->devices[index].subdevice)
                return 0;
        fd = open_node(probe, device->minor);
        if (fd < 0)
                return fd;
        closep(&probe->devices[index].fd);
        probe->devices[index].fd = fd;
        if (call_driver(probe, fd, RM_NR_REGISTER_FD, &ctl, sizeof(ctl)) < 0)
                return -EIO;
        rm_put32(params, sizeof(params), 0, device->instance);
        if (alloc_object(probe, probe->client, &handle, RM_CLASS_DEVICE, params, DEVICE_PARAMS_SIZE) != RM_STATUS_OK)
                return -EIO;
        rm_put32(params, sizeof(params), 0, 0);
        if (alloc_object(probe, handle, &sub, RM_CLASS_SUBDEVICE, params, SUBDEVICE_PARAMS_SIZE) != RM_STATUS_OK)
                return -EIO;
        probe->devices[index].device = handle;
        probe->devices[index].minor = device->minor;
        probe->devices[index].subdevice = sub;
        return 0;
}

/* One figure of FB_GET_INFO_V2, in bytes. */
static int fb_info(struct probe *probe, unsigned int device, uint32_t index, bytes *ret)
{
        uint8_t params[2048] = { 0 };
        uint32_t size = probe->layout->fb_info_size;

        rm_put32(params, size, 0, 1);
        rm_put32(params, size, 4, index);
        if (control_object(probe, probe->devices[device].subdevice, RM_FB_GET_INFO_V2, params, size) != RM_STATUS_OK)
                return -EIO;
        *ret = (bytes)rm_get32(params, size, 8) * KIB;
        return 0;
}

/* The driver's number of an attached device: GET_ID_INFO_V2, gpuId@0 in, deviceInstance@8 out. */
static int instance_of(struct probe *probe, uint32_t gpu_id, uint32_t *ret)
{
        uint8_t params[32] = { 0 };

        rm_put32(params, sizeof(params), 0, gpu_id);
        if (control_object(probe, probe->client, RM_GET_ID_INFO_V2, params, sizeof(params)) != RM_STATUS_OK)
                return -EIO;
        *ret = rm_get32(params, sizeof(params), 8);
        return 0;
}

/* What it is. A driver that does not tell is no failure: then nothing that was measured is for this device. */
static void identify(struct probe *probe, unsigned int index, struct lease_device *device)
{
        uint32_t subdevice = probe->devices[index].subdevice;
        uint8_t name[NAME_SIZE] = { 0 }, gid[GID_SIZE] = { 0 }, params[ARCHITECTURE_SIZE] = { 0 };

        if (control_object(probe, subdevice, GET_NAME, name, sizeof(name)) == RM_STATUS_OK)
                (void)snprintf(device->name, sizeof(device->name), "%.63s", (const char *)name + 4);
        if (control_object(probe, subdevice, GET_GID, gid, sizeof(gid)) == RM_STATUS_OK)
                (void)snprintf(device->uuid, sizeof(device->uuid), "%.63s", (const char *)gid + 12);
        if (control_object(probe, subdevice, GET_ARCHITECTURE, params, sizeof(params)) == RM_STATUS_OK)
                device->architecture = rm_get32(params, sizeof(params), 0);
}

/* Coherent memory (Grace Hopper and its like): Linux gives it to whoever asks for a page of that node. nid@0 status@4,
 * 0 of all other devices; and one of which the driver does not tell may be such. Source: nv_get_numa_status,
 * nv-linux.h, 525 to 595; seen with 0 only. */
static bool is_node(struct probe *probe, unsigned int index)
{
        enum { STATUS_AT = 4, ROOM = 1024 };
        uint8_t block[ROOM] = { 0 };
        uint32_t size = probe->layout->numa_info_size;

        return size > sizeof(block) || call_driver(probe, probe->devices[index].fd, RM_NR_NUMA_INFO, block, size) < 0 ||
               rm_get32(block, size, STATUS_AT);
}

/* An open attaches the device; before that the driver has no number for it. */
static int find_device(struct probe *probe, const struct rm_device *found, struct lease *lease)
{
        struct lease_device *device = &lease->devices[lease->n_devices];
        unsigned int index = lease->n_devices;
        int r;

        device->gpu_id = found->gpu_id;
        device->minor = found->minor;
        (void)snprintf(device->bus_id, sizeof(device->bus_id), "%08X:%02X:%02X.0", found->domain, found->bus,
                       found->slot);
        probe->devices[index].fd = open_node(probe, device->minor);
        if (probe->devices[index].fd < 0)
                return probe->devices[index].fd;
        if ((r = instance_of(probe, device->gpu_id, &device->instance)) < 0 ||
            (r = open_device(probe, device, index)) < 0 ||
            (r = fb_info(probe, index, RM_FB_TOTAL_RAM, &device->total)) < 0)
                return r;
        identify(probe, index, device);
        device->is_node = is_node(probe, index);
        lease->n_devices++;
        return 0;
}

int probe_devices(struct probe *probe, struct lease *lease)
{
        struct rm_device found[RM_DEVICES_MAX];
        uint8_t block[DEVICE_INFOS_SIZE] = { 0 };
        size_t n;
        int r;

        if (call_driver(probe, probe->ctl, RM_NR_CARD_INFO, block, sizeof(block)) < 0)
                return -EIO;
        n = rm_decode_devices(block, sizeof(block), found);
        lease->n_devices = 0;
        for (size_t i = 0; i < n; i++) {
                r = find_device(probe, &found[i], lease);
                if (r < 0)
                        return r;
        }
        return lease->n_devices ? 0 : -ENODEV;
}

int probe_open_granted(struct probe *probe, const struct lease *lease)
{
        int r;

        for (unsigned int i = 0; i < lease->n_devices; i++) {
                r = lease->devices[i].is_granted ? open_device(probe, &lease->devices[i], i) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int probe_figure(struct probe *probe, const struct lease *lease, unsigned int device, pid_t process, bytes *ret)
{
        /* n@0, then entries of 72 bytes from 8: pid, index (0: video memory), result, private@16, owned@24 */
        enum { SIZE = 14408, PID_AT = 8, PRIVATE_AT = 24, OWNED_AT = 32 };
        _cleanup_(freep) uint8_t *params = calloc(1, SIZE);
        int r;

        if (!params)
                return -ENOMEM;
        r = open_device(probe, &lease->devices[device], device);
        if (r < 0)
                return r;
        rm_put32(params, SIZE, 0, 1);
        rm_put32(params, SIZE, PID_AT, (uint32_t)process);
        if (control_object(probe, probe->devices[device].subdevice, RM_GET_PID_INFO, params, SIZE) != RM_STATUS_OK)
                return -EIO;
        *ret = rm_get64(params, SIZE, PRIVATE_AT) + rm_get64(params, SIZE, OWNED_AT);
        return 0;
}

/* ---- channels and their memory ------------------------------------------------------------------ */

/* disable@0 num@4 onlySched@8 rewind@9 event@16 (0 for users) clients[64]@24 channels[64]@280: 536 bytes, 525 to 595.
 * Handles of anybody's: the driver does not ask whose (measured, H200, 580.159.04). */
static uint32_t channels_off(struct probe *probe, unsigned int device, const struct probe_channel *channels, size_t n,
                             bool is_disabled)
{
        enum { SIZE = 536, COUNT_AT = 4, CLIENTS_AT = 24, CHANNELS_AT = 280 };
        uint8_t params[SIZE] = { is_disabled };

        rm_put32(params, SIZE, COUNT_AT, (uint32_t)n);
        for (size_t i = 0; i < n; i++) {
                rm_put32(params, SIZE, CLIENTS_AT + 4 * i, channels[i].client);
                rm_put32(params, SIZE, CHANNELS_AT + 4 * i, channels[i].handle);
        }
        return control_object(probe, probe->devices[device].subdevice, RM_DISABLE_CHANNELS, params, SIZE);
}

/* One that is gone makes the driver refuse a whole list: then one by one. */
int probe_channels_set(struct probe *probe, unsigned int device, const struct probe_channel *channels, size_t n,
                       bool is_disabled)
{
        int r = 0;

        if (!n || channels_off(probe, device, channels, n, is_disabled) == RM_STATUS_OK)
                return 0;
        for (size_t i = 0; i < n; i++) {
                uint32_t status;

                if (is_disabled) /* the list may be done in part, and the driver counts */
                        (void)channels_off(probe, device, &channels[i], 1, false);
                status = channels_off(probe, device, &channels[i], 1, is_disabled);

                if (status != RM_STATUS_OK && status != RM_STATUS_INVALID_CHANNEL &&
                    status != RM_STATUS_OBJECT_NOT_FOUND && status != RM_STATUS_INVALID_OBJECT_HANDLE &&
                    status != RM_STATUS_INVALID_CLIENT)
                        r = -EIO;
        }
        return r;
}

uint32_t probe_dup(struct probe *probe, unsigned int device, uint32_t client, uint32_t object)
{
        uint32_t handle = FIRST_DUP + ++probe->n_dups % DUPS_MAX;

        if (!probe->devices[device].device ||
            dup_object(probe, probe->devices[device].device, &handle, client, object) != RM_STATUS_OK)
                return 0;
        return handle;
}

void probe_drop(struct probe *probe, uint32_t handle)
{
        (void)gate_driver_free(probe->driver, probe->ctl, probe->client, handle);
}

/* The driver keeps one prepared mapping per struct file, so a new one. Video memory is mapped by the device's node. */
int probe_map(struct probe *probe, unsigned int device, uint32_t handle, uint64_t offset, size_t size, const void **ret)
{
        const struct gate_driver *driver = probe->driver;
        _cleanup_(closep) int fd = -1;
        struct rm_map map = { .client = probe->client, .device = probe->devices[device].device, .object = handle };
        uint8_t block[RM_BLOCK_MAX];
        uint32_t block_size;

        if (!driver->map)
                return -ENOTSUP;
        fd = open_node(probe, probe->devices[device].minor);
        if (fd < 0)
                return fd;
        map.offset = offset;
        map.size = size;
        map.fd = fd;
        block_size = rm_encode_map(&map, block);
        if (call_driver(probe, probe->ctl, RM_NR_MAP_MEMORY, block, block_size) < 0 ||
            rm_get32(block, block_size, RM_MAP_STATUS_AT) != RM_STATUS_OK)
                return -EIO;
        return driver->map(driver->context, fd, size, ret);
}
