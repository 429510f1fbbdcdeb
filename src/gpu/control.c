/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disables and enables channels: FIFO_DISABLE_CHANNELS, with lists of any clients' handles.
 *
 * If a tenant ends after the list was made, the driver refuses the call at the missing handle; the channels before it
 * are done (GSP decides, which cannot be read). So a refused list is halved until the failing channels stand alone:
 * missing ones are ignored, other failures are reported.
 *
 * The driver counts: a channel runs again when it was enabled as often as it was disabled, by whomever (measured, H100,
 * 580.159.04: tests/gpu/movefacts.sh, switch). To enable it once more is harmless, and no credit. So a client counts
 * what it asked for, and enables as often: for the caller a channel is on or off. Too high a count costs a call. What
 * others may have asked for the caller must say (gpu_channels_doubt).
 */
#include "gpu/client.h"

#include "rm/numbers.h"

#include <errno.h>
#include <string.h>

/* disable@0 num@4 onlySched@8 rewind@9 event@16 (0 for users) clients[64]@24 channels[64]@280 */
enum {
        SIZE = 536,
        COUNT_AT = 4,
        ONLY_SCHED_AT = 8,
        CLIENTS_AT = 24,
        CHANNELS_AT = 280,
        STATUS_INVALID_OBJECT = 0x31,
};

enum {
        DISABLES_MOST = 16,     /* of one channel that are counted; each costs a call. A list of which one is gone: 7 */
        COUNTED_MOST = 1 << 16, /* channels */
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

/* ---- how often ---------------------------------------------------------------------------------------------- */

static uint64_t key_of(const struct gpu_channel *channel)
{
        return (uint64_t)channel->client << 32 | channel->handle;
}

static uintptr_t disables_of(const struct gpu_client *client, const struct gpu_channel *channel)
{
        uintptr_t n = (uintptr_t)map_get(&client->disables, key_of(channel));

        return client->is_uncounted && n < 2 ? 2 : n;
}

static void disables_note(struct gpu_client *client, const struct gpu_channel *channels, size_t n)
{
        if (client->disables.n_used > COUNTED_MOST) {
                map_done(&client->disables);
                client->is_uncounted = true;
        }
        for (size_t i = 0; i < n; i++) {
                uintptr_t was = (uintptr_t)map_take(&client->disables, key_of(&channels[i]));
                uintptr_t is = was < DISABLES_MOST ? was + 1 : was;

                if (map_put(&client->disables, key_of(&channels[i]), (void *)is) < 0) /* NOLINT: a number */
                        client->is_uncounted = true;
        }
}

static int disable_some(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change,
                        uint32_t *ret_status)
{
        int64_t status;
        int first, second;

        if (change != ENABLE)
                disables_note(client, channels, n); /* also of a list that is refused: it may be done in part */
        status = disable_set(client, channels, n, change);
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

/* ---- off and on ----------------------------------------------------------------------------------------------- */

/* At most GPU_CHANNELS_PER_CALL. */
static int enable_counted(struct gpu_client *client, const struct gpu_channel *channels, size_t n, uint32_t *ret_status)
{
        struct gpu_channel some[GPU_CHANNELS_PER_CALL];
        size_t n_some = n;
        int r = 0, one;

        memcpy(some, channels, n * sizeof(*some));
        for (uintptr_t round = 1; n_some; round++) {
                one = disable_some(client, some, n_some, ENABLE, ret_status);
                if (one == -ENODEV)
                        return one;
                r = one < 0 ? one : r;
                n_some = 0;
                for (size_t i = 0; i < n; i++)
                        if (disables_of(client, &channels[i]) > round)
                                some[n_some++] = channels[i];
        }
        for (size_t i = 0; r == 0 && i < n; i++)
                (void)map_take(&client->disables, key_of(&channels[i]));
        return r;
}

void gpu_channels_doubt(struct gpu_client *client, const struct gpu_channel *channels, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!map_get(&client->disables, key_of(&channels[i])))
                        disables_note(client, &channels[i], 1);
                disables_note(client, &channels[i], 1);
        }
}

void gpu_channels_forget(struct gpu_client *client, const struct gpu_channel *channels, size_t n)
{
        for (size_t i = 0; i < n; i++)
                (void)map_take(&client->disables, key_of(&channels[i]));
}

/* ---- all of a list ------------------------------------------------------------------------------------------ */

static int change_some(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change,
                       uint32_t *ret_status)
{
        return change == ENABLE ? enable_counted(client, channels, n, ret_status) :
                                  disable_some(client, channels, n, change, ret_status);
}

static int disable_all(struct gpu_client *client, const struct gpu_channel *channels, size_t n, enum change change,
                       uint32_t *ret_status)
{
        int r = 0, one;

        for (size_t i = 0; i < n; i += GPU_CHANNELS_PER_CALL) {
                size_t some = n - i < GPU_CHANNELS_PER_CALL ? n - i : GPU_CHANNELS_PER_CALL;

                one = change_some(client, channels + i, some, change, ret_status);
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
