/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/mappings.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void mappings_init(struct mappings *mappings)
{
        *mappings = (struct mappings){ 0 };
        lock_init(&mappings->lock, LOCK_PROCESSES);
}

void mappings_done(struct mappings *mappings)
{
        free(mappings->items);
        lock_done(&mappings->lock);
}

static struct mapping_call *call_of(const struct mappings *mappings, pid_t thread)
{
        for (size_t i = 0; i < mappings->n; i++)
                if (mappings->items[i].thread == thread)
                        return &mappings->items[i];
        return NULL;
}

static bool has_room(struct mappings *mappings)
{
        size_t n_room = mappings->n_room ? mappings->n_room * 2 : 8;
        struct mapping_call *items;

        if (mappings->n < mappings->n_room)
                return true;
        items = realloc(mappings->items, n_room * sizeof(*items));
        if (!items)
                return false;
        mappings->items = items;
        mappings->n_room = n_room;
        return true;
}

int mappings_begin(struct mappings *mappings, struct mapping_call *call, bool (*is_awaited)(const void *context),
                   const void *context)
{
        LOCKED(&mappings->lock);
        struct mapping_call *slot = call_of(mappings, call->thread);

        if (!is_awaited(context))
                return -EINTR;
        if (!slot && !has_room(mappings))
                return -ENOMEM;
        if (!slot)
                slot = &mappings->items[mappings->n++];
        call->serial = ++mappings->serial;
        *slot = *call;
        return 0;
}

bool mappings_of(struct mappings *mappings, pid_t thread, struct mapping_call *ret)
{
        const struct mapping_call *call;

        if (!mappings->n)
                return false;

        LOCKED(&mappings->lock);
        call = call_of(mappings, thread);
        if (!call)
                return false;
        *ret = *call;
        return true;
}

void mappings_end(struct mappings *mappings, const struct mapping_call *call)
{
        LOCKED(&mappings->lock);
        struct mapping_call *ours = call_of(mappings, call->thread);

        if (ours && ours->serial == call->serial)
                *ours = mappings->items[--mappings->n];
}

static bool is_gone(const struct mapping_call *call)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d", call->thread); /* any thread has one; of another process, too */
        return access(path, F_OK) < 0 && errno == ENOENT;
}

bool mappings_gone(struct mappings *mappings, size_t *i, struct mapping_call *ret)
{
        LOCKED(&mappings->lock);

        for (; *i < mappings->n; ++*i) {
                if (!is_gone(&mappings->items[*i]))
                        continue;
                *ret = mappings->items[*i];
                return true;
        }
        return false;
}

bool mappings_at(struct mappings *mappings, size_t i, struct mapping_call *ret)
{
        LOCKED(&mappings->lock);

        if (i >= mappings->n)
                return false;
        *ret = mappings->items[i];
        return true;
}

bool mappings_has(struct mappings *mappings, pid_t process, uint64_t base)
{
        LOCKED(&mappings->lock);

        for (size_t i = 0; i < mappings->n; i++) {
                const struct mapping_call *call = &mappings->items[i];

                if (call->is_charged && call->process == process && call->base == base)
                        return true;
        }
        return false;
}

bool mappings_has_others(struct mappings *mappings, pid_t thread, uint64_t base, uint64_t length)
{
        LOCKED(&mappings->lock);

        for (size_t i = 0; i < mappings->n; i++) {
                const struct mapping_call *call = &mappings->items[i];

                if (call->thread != thread &&
                    (call->base < base ? base - call->base < call->length : call->base - base < length))
                        return true;
        }
        return false;
}

/* Whoever takes a look reads due_last after that: one that is noted meanwhile is seen by him, or sees no look. */
void mappings_note_due(struct mappings *mappings, nsec at)
{
        nsec none = 0;

        mappings->due_last = at;
        (void)atomic_compare_exchange_strong(&mappings->due_at, &none, at);
}

bool mappings_take_due(struct mappings *mappings, nsec now)
{
        nsec at = mappings->due_at, none = 0;

        if (!at || now < at || !atomic_compare_exchange_strong(&mappings->due_at, &at, 0))
                return false;
        if (mappings->due_last > now)
                (void)atomic_compare_exchange_strong(&mappings->due_at, &none, mappings->due_last);
        return true;
}
