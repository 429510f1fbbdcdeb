/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disables and enables channels: FIFO_DISABLE_CHANNELS, with lists of any clients' handles.
 *
 * If a tenant ends after the list was made, the driver refuses the call at the missing handle; the channels before it
 * are done (GSP decides, which cannot be read). So a refused list is halved until the failing channels stand alone:
 * missing ones are ignored, other failures are reported. Doing a channel twice is harmless.
 */
#include "gpu/client.h"

#include "rm/numbers.h"

#include <errno.h>

/* disable@0 num@4 onlySched@8 rewind@9 event@16 (0 for users) clients[64]@24 channels[64]@280 */
enum {
        SIZE = 536,
        COUNT_AT = 4,
        ONLY_SCHED_AT = 8,
        CLIENTS_AT = 24,
        CHANNELS_AT = 280,
        STATUS_INVALID_OBJECT = 0x31,
};

enum change {
        ENABLE,
        DISABLE,
        RETIRE,
};

static int64_t disable_set(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change)
{
        uint8_t params[SIZE] = { change != ENABLE, [ONLY_SCHED_AT] = change == RETIRE };

        rm_put32(params, SIZE, COUNT_AT, (uint32_t)n);
        for (size_t i = 0; i < n; i++) {
                rm_put32(params, SIZE, CLIENTS_AT + 4 * i, channels[i].client);
                rm_put32(params, SIZE, CHANNELS_AT + 4 * i, channels[i].handle);
        }
        return client_control(client, client->subdevice, RM_DISABLE_CHANNELS, params, SIZE);
}

/* Measured, H200, 580.159.04: 0x21, whether the client, the channel or its kind is wrong (tests/gpu/meter.c).
 * The other statuses are those of wrong handles in other calls. */
static bool is_gone(int64_t status)
{
        return status == RM_STATUS_INVALID_CHANNEL || status == RM_STATUS_OBJECT_NOT_FOUND ||
               status == RM_STATUS_INVALID_OBJECT_HANDLE || status == RM_STATUS_INVALID_CLIENT ||
               status == STATUS_INVALID_OBJECT;
}

static int disable_some(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change,
                        uint32_t *ret_status)
{
        int64_t status = disable_set(client, channels, n, change);
        int first, second;

        if (status < 0 || status == GPU_STATUS_IS_LOST)
                return status == -EIO ? -ENODEV : client_error(status);
        if (status == RM_STATUS_OK)
                return 0;
        if (n == 1) {
                if (is_gone(status))
                        return 0;
                if (ret_status)
                        *ret_status = (uint32_t)status;
                return -EIO;
        }
        first = disable_some(client, channels, n / 2, change, ret_status);
        if (first == -ENODEV)
                return first;
        second = disable_some(client, channels + n / 2, n - n / 2, change, ret_status);
        return first < 0 ? first : second;
}

static int disable_all(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change,
                       uint32_t *ret_status)
{
        int r = 0, one;

        for (size_t i = 0; i < n; i += GPU_CHANNELS_PER_CALL) {
                size_t some = n - i < GPU_CHANNELS_PER_CALL ? n - i : GPU_CHANNELS_PER_CALL;

                one = disable_some(client, channels + i, some, change, ret_status);
                if (one == -ENODEV)
                        return one;
                r = one < 0 ? one : r;
        }
        return r;
}

int gpu_channels_set(struct gpu_client *client, const struct gpu_channel *channels, size_t n, bool is_disabled,
                     uint32_t *ret_status)
{
        return disable_all(client, channels, n, is_disabled ? DISABLE : ENABLE, ret_status);
}

int gpu_channels_retire(struct gpu_client *client, const struct gpu_channel *channels, size_t n, uint32_t *ret_status)
{
        return disable_all(client, channels, n, RETIRE, ret_status);
}
