/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of work: the positions in a channel's ring, which program and device keep in a page of memory that the
 * program names when it makes the channel (USERD).
 *
 * Measured, H200, 580.159.04 (docs/time.md): put moves once per launch, also while the channel is disabled; get
 * follows as work starts. So get != put is work that waits, for sure; equal is idle, or the last kernel runs. A read
 * costs 1 us and disturbs nobody. A context has twelve channels of copy engines, of which few are used: one that has
 * been idle for long is read less often.
 *
 * The memory is the tenant's. Our client takes a second handle of it and maps the page through that, so the page
 * stays what it is for as long as it is mapped, also when the tenant dies in between (tests/gpu/userd.c, measured
 * there). That handle holds the memory: it goes as soon as the channel or the tenant's own handle has gone
 * (channels->changes), and large memories are not held at all. The page is read only. A tenant may write what it
 * likes there: it lies about its own work, at its own cost (docs/threat-model.md).
 */
#include "gate/books.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
        PAGE = 4096,
        GET_AT = 0x88, /* Nvc36fControl: clc36f.h; Volta and later */
        PUT_AT = 0x8c,
        HELD_MAX = 4 * MIB, /* of one memory: libcuda has 2 MiB for all its channels */
        IDLE_READS = 200,   /* of a fixed engine's channel, after which it is read every SKIPPED reads */
        SKIPPED = 8,
};

/* ---- our handle of the memory ------------------------------------------------------------------- */

static bool is_small(struct gate *gate, uint32_t client, uint32_t handle)
{
        LOCKED(&gate->ledger_lock);

        return ledger_charge_of(gate->ledger, client, handle) <= HELD_MAX;
}

/* 0: it cannot be had. */
static uint32_t memory_get(struct gate *gate, const struct channel *channel)
{
        struct demand *demand = &gate->demand;
        size_t free_one = ARRAY_SIZE(demand->memories);
        uint32_t ours;

        for (size_t i = 0; i < ARRAY_SIZE(demand->memories); i++) {
                if (!demand->memories[i].n_users) {
                        free_one = i;
                } else if (demand->memories[i].client == channel->is.client &&
                           demand->memories[i].handle == channel->userd) {
                        demand->memories[i].n_users++;
                        return demand->memories[i].ours;
                }
        }
        if (free_one == ARRAY_SIZE(demand->memories) || !is_small(gate, channel->is.client, channel->userd))
                return 0;
        ours = probe_dup(&gate->probe, channel->is.device, channel->is.client, channel->userd);
        if (!ours)
                return 0;
        demand->memories[free_one].client = channel->is.client;
        demand->memories[free_one].handle = channel->userd;
        demand->memories[free_one].ours = ours;
        demand->memories[free_one].n_users = 1;
        return ours;
}

static void memory_put(struct demand *demand, struct probe *probe, uint32_t ours)
{
        for (size_t i = 0; i < ARRAY_SIZE(demand->memories); i++)
                if (demand->memories[i].n_users && demand->memories[i].ours == ours && !--demand->memories[i].n_users)
                        probe_drop(probe, ours);
}

/* ---- one channel -------------------------------------------------------------------------------- */

static void demand_page_end(struct demand *demand, struct probe *probe, struct demand_page *demand_page)
{
        if (demand_page->page)
                (void)munmap((void *)(uintptr_t)demand_page->page, PAGE);
        if (demand_page->memory)
                memory_put(demand, probe, demand_page->memory);
        *demand_page = demand->items[--demand->n];
}

void demand_done(struct demand *demand, struct probe *probe)
{
        while (demand->n)
                demand_page_end(demand, probe, &demand->items[0]);
        free(demand->items);
        *demand = (struct demand){ 0 };
}

static void demand_page_begin(struct gate *gate, const struct channel *channel)
{
        struct demand *demand = &gate->demand;
        struct demand_page *demand_page = &demand->items[demand->n];
        const void *page = NULL;

        *demand_page = (struct demand_page){ .client = channel->is.client,
                                             .handle = channel->is.handle,
                                             .device = (int)channel->is.device,
                                             .engine = channel->is.engine };
        demand->n++;
        if (!channel->userd || channel->userd_at % 4 || channel->userd_at % PAGE > PAGE - PUT_AT - 4)
                return;
        demand_page->memory = memory_get(gate, channel);
        if (!demand_page->memory || probe_map(&gate->probe, channel->is.device, demand_page->memory,
                                              channel->userd_at & ~(uint64_t)(PAGE - 1), PAGE, &page) < 0)
                return;
        demand_page->page = page;
        demand_page->positions = (const volatile uint32_t *)(demand_page->page + channel->userd_at % PAGE);
        demand_page->put = demand_page->positions[PUT_AT / 4];
        demand_page->mark = demand_page->positions[GET_AT / 4];
}

/* ---- all of them -------------------------------------------------------------------------------- */

static const struct channel *find_channel(const struct channel *channels, ssize_t n,
                                          const struct demand_page *demand_page)
{
        for (ssize_t i = 0; i < n; i++)
                if (channels[i].is.client == demand_page->client && channels[i].is.handle == demand_page->handle)
                        return &channels[i];
        return NULL;
}

static bool has_page(const struct demand *demand, const struct channel *channel)
{
        for (size_t i = 0; i < demand->n; i++)
                if (demand->items[i].client == channel->is.client && demand->items[i].handle == channel->is.handle)
                        return true;
        return false;
}

/* Those of which it is known what they are for. */
static ssize_t known_only(struct channel *channels, ssize_t n)
{
        ssize_t kept = 0;

        for (ssize_t i = 0; i < n; i++)
                if (channels[i].is.is_compute || channels[i].is.engine != RM_ENGINE_NONE)
                        channels[kept++] = channels[i];
        return kept;
}

/* A device has a page for each of these channels. One whose memory the tenant has freed goes, and comes back
 * without. */
static void follow_channels(struct gate *gate, unsigned int device)
{
        _cleanup_(freep) struct channel *channels = NULL;
        ssize_t n = channels_copy(&gate->channels, (int)device, 0, 0, &channels);
        struct demand *demand = &gate->demand;

        if (n < 0)
                return;
        n = known_only(channels, n);
        for (size_t i = 0; i < demand->n;) {
                const struct channel *channel = find_channel(channels, n, &demand->items[i]);

                if (demand->items[i].device == (int)device &&
                    (!channel || (demand->items[i].memory && !channel->userd)))
                        demand_page_end(demand, &gate->probe, &demand->items[i]);
                else {
                        if (channel)
                                demand->items[i].engine = channel->is.engine;
                        i++;
                }
        }
        for (ssize_t i = 0; i < n; i++)
                if (!has_page(demand, &channels[i]) &&
                    array_grow((void **)&demand->items, &demand->n_room, demand->n + 1, sizeof(*demand->items)) == 0)
                        demand_page_begin(gate, &channels[i]);
}

static bool is_left_out(struct demand_page *demand_page)
{
        if (demand_page->n_idle < IDLE_READS)
                return false;
        demand_page->n_skipped = (demand_page->n_skipped + 1) % SKIPPED;
        return demand_page->n_skipped != 0;
}

static void engine_read(struct demand_page *demand_page, struct gate_engine_signs *signs, const struct moving *moving)
{
        bool has_moved, is_pending;
        uint32_t put;

        if (!demand_page->page) {
                signs->n_unseen++;
                return;
        }
        if (is_left_out(demand_page))
                return;
        put = demand_page->positions[PUT_AT / 4];
        has_moved = put != demand_page->put;
        is_pending = put != demand_page->positions[GET_AT / 4];
        signs->has_moved |= has_moved;
        signs->n_pending += is_pending;
        demand_page->n_idle = has_moved || is_pending ? 0 : demand_page->n_idle + 1;
        demand_page->put = put;
        if (moving->state == MOVE_HERE) /* after put was read: channels go off later */
                demand_page->mark = put;
}

static void compute_read(struct demand_page *demand_page, struct gate_signs *signs, const struct moving *moving)
{
        uint32_t put;

        if (!demand_page->page)
                return;
        put = demand_page->positions[PUT_AT / 4];
        signs->can_watch = true;
        signs->has_moved |= put != demand_page->put;
        signs->n_pending += put != demand_page->positions[GET_AT / 4];
        demand_page->put = put;
        if (moving->state == MOVE_HERE) /* after put was read: channels go off later */
                demand_page->mark = put;
}

/* Put since before the channels went off, and not taken by the device: what ran until then is not. */
bool demand_is_wanted(const struct demand *demand)
{
        for (size_t i = 0; i < demand->n; i++) {
                const struct demand_page *page = &demand->items[i];

                if (page->page && page->positions[PUT_AT / 4] != page->mark &&
                    page->positions[PUT_AT / 4] != page->positions[GET_AT / 4])
                        return true;
        }
        return false;
}

bool gate_signs_are_stale(const struct gate *gate)
{
        return gate->demand.n && gate->demand.changes != gate->channels.changes;
}

void gate_signs_read(struct gate *gate, unsigned int device, struct gate_signs *ret)
{
        uint64_t changes = gate->channels.changes;
        struct gate_signs signs = { 0 };

        if (gate->demand.changes != changes || !gate->demand.n) {
                for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                        if (gate->lease->devices[i].is_granted)
                                follow_channels(gate, i);
                gate->demand.changes = changes;
        }
        for (size_t i = 0; i < gate->demand.n; i++) {
                struct demand_page *demand_page = &gate->demand.items[i];

                if (demand_page->device != (int)device)
                        continue;
                if (demand_page->engine != RM_ENGINE_NONE)
                        engine_read(demand_page, &signs.engines[demand_page->engine], &gate->moving);
                else
                        compute_read(demand_page, &signs, &gate->moving);
        }
        *ret = signs;
}
