/*
 * Signs of work: the positions in a channel's ring, which program and card keep in a page of memory that
 * the program names when it makes the channel (USERD).
 *
 * Measured, H200, 580.159.04 (docs/time.md): put moves once per launch, also while the channel is off; get
 * follows as work starts. So get != put is work that waits, for sure; equal is idle, or the last kernel runs.
 * A read costs 1 us and disturbs nobody.
 *
 * The memory is the tenant's. Our client takes a second handle of it and maps the page through that: so the
 * page stays what it is for as long as we look, also when the tenant dies in between (tests/gpu/userd.c, measured there). That handle holds the memory:
 * it goes as soon as the channel or the tenant's own handle has gone (channels->changes), and large memories are
 * not held at all. The page is read only. A tenant may write what it likes there: it lies about its own work, at its
 * own cost (docs/threat-model.md).
 */
#include "gate/request.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
        PAGE = 4096,
        GET_AT = 0x88, /* Nvc36fControl: clc36f.h; Volta and later */
        PUT_AT = 0x8c,
        HELD_MAX = 4 * MIB, /* of one memory: libcuda has 2 MiB for all its channels */
};

/* ---- our handle of the memory ------------------------------------------------------------------- */

static bool is_small(struct gate *gate, uint32_t client, uint32_t handle)
{
        LOCKED(&gate->ledger_lock);

        return ledger_charge_of(gate->ledger, client, handle) <= HELD_MAX;
}

/* 0: cannot be had. */
static uint32_t memory_get(struct gate *gate, const struct channel *channel)
{
        struct looks *looks = &gate->looks;
        size_t free_one = ARRAY_SIZE(looks->memories);
        uint32_t ours;

        for (size_t i = 0; i < ARRAY_SIZE(looks->memories); i++) {
                if (!looks->memories[i].n_users) {
                        free_one = i;
                } else if (looks->memories[i].client == channel->is.client &&
                           looks->memories[i].handle == channel->userd) {
                        looks->memories[i].n_users++;
                        return looks->memories[i].ours;
                }
        }
        if (free_one == ARRAY_SIZE(looks->memories) || !is_small(gate, channel->is.client, channel->userd))
                return 0;
        ours = probe_dup(&gate->probe, channel->is.device, channel->is.client, channel->userd);
        if (!ours)
                return 0;
        looks->memories[free_one].client = channel->is.client;
        looks->memories[free_one].handle = channel->userd;
        looks->memories[free_one].ours = ours;
        looks->memories[free_one].n_users = 1;
        return ours;
}

static void memory_put(struct looks *looks, struct probe *probe, uint32_t ours)
{
        for (size_t i = 0; i < ARRAY_SIZE(looks->memories); i++)
                if (looks->memories[i].n_users && looks->memories[i].ours == ours && !--looks->memories[i].n_users)
                        probe_drop(probe, ours);
}

/* ---- one channel -------------------------------------------------------------------------------- */

static void look_end(struct looks *looks, struct probe *probe, struct look *look)
{
        if (look->page)
                (void)munmap((void *)(uintptr_t)look->page, PAGE);
        if (look->memory)
                memory_put(looks, probe, look->memory);
        *look = looks->items[--looks->n];
}

void looks_done(struct looks *looks, struct probe *probe)
{
        while (looks->n)
                look_end(looks, probe, &looks->items[0]);
        free(looks->items);
        *looks = (struct looks){ 0 };
}

static void look_begin(struct gate *gate, const struct channel *channel)
{
        struct looks *looks = &gate->looks;
        struct look *look = &looks->items[looks->n];
        const void *page = NULL;

        *look = (struct look){ .client = channel->is.client,
                               .handle = channel->is.handle,
                               .device = (int)channel->is.device };
        looks->n++;
        if (!channel->userd || channel->userd_at % 4 || channel->userd_at % PAGE > PAGE - PUT_AT - 4)
                return;
        look->memory = memory_get(gate, channel);
        if (!look->memory || probe_map(&gate->probe, channel->is.device, look->memory,
                                       channel->userd_at & ~(uint64_t)(PAGE - 1), PAGE, &page) < 0)
                return;
        look->page = page;
        look->positions = (const volatile uint32_t *)(look->page + channel->userd_at % PAGE);
        look->put = look->positions[PUT_AT / 4];
}

/* ---- all of them -------------------------------------------------------------------------------- */

static const struct channel *find(const struct channel *channels, ssize_t n, const struct look *look)
{
        for (ssize_t i = 0; i < n; i++)
                if (channels[i].is.client == look->client && channels[i].is.handle == look->handle)
                        return &channels[i];
        return NULL;
}

static bool has_look(const struct looks *looks, const struct channel *channel)
{
        for (size_t i = 0; i < looks->n; i++)
                if (looks->items[i].client == channel->is.client && looks->items[i].handle == channel->is.handle)
                        return true;
        return false;
}

static bool has_room(struct looks *looks, size_t n)
{
        struct look *items = n <= looks->n_room ? looks->items : realloc(looks->items, n * sizeof(*items));

        if (!items)
                return false;
        if (n > looks->n_room)
                looks->n_room = n;
        looks->items = items;
        return true;
}

/* The looks of a device are those at its channels. One whose memory the tenant has freed goes, and comes back
 * without. */
static void follow(struct gate *gate, unsigned int device)
{
        _cleanup_(freep) struct channel *channels = NULL;
        ssize_t n = channels_copy(&gate->channels, (int)device, 0, 0, &channels);
        struct looks *looks = &gate->looks;

        if (n < 0)
                return;
        for (size_t i = 0; i < looks->n;) {
                const struct channel *channel = find(channels, n, &looks->items[i]);

                if (looks->items[i].device == (int)device && (!channel || (looks->items[i].memory && !channel->userd)))
                        look_end(looks, &gate->probe, &looks->items[i]);
                else
                        i++;
        }
        for (ssize_t i = 0; i < n; i++)
                if (!has_look(looks, &channels[i]) && has_room(looks, looks->n + 1))
                        look_begin(gate, &channels[i]);
}

bool gate_look_is_stale(const struct gate *gate)
{
        return gate->looks.n && gate->looks.changes != gate->channels.changes;
}

void gate_look(struct gate *gate, unsigned int device, struct gate_signs *ret)
{
        uint64_t changes = gate->channels.changes;
        struct gate_signs signs = { 0 };

        if (gate->looks.changes != changes || !gate->looks.n) {
                for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                        if (gate->lease->devices[i].is_granted)
                                follow(gate, i);
                gate->looks.changes = changes;
        }
        for (size_t i = 0; i < gate->looks.n; i++) {
                struct look *look = &gate->looks.items[i];
                uint32_t put;

                if (look->device != (int)device || !look->page)
                        continue;
                put = look->positions[PUT_AT / 4];
                signs.can_watch = true;
                signs.has_moved |= put != look->put;
                signs.n_pending += put != look->positions[GET_AT / 4];
                look->put = put;
        }
        *ret = signs;
}
