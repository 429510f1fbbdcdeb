/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/own.h"

#include "base/cleanup.h"
#include "rm/call.h"
#include "rm/numbers.h"

#include <string.h>

#define TABLE (4 * KIB)
#define TABLE_OF_BIG 256ull

enum {
        FLAG_LAZY = 0x400, /* NVOS32_ALLOC_FLAGS_LAZY, _EXTERNALLY_MANAGED */
        FLAG_EXTERNAL = 0x400000,
        ENGINE_AT = 12, /* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS, 525 to 595 */
        ENGINE_GRAPHICS_LAST = 8,
        CHANNEL = 0x6f,
};

enum engines {
        ANY,
        GRAPHICS,
};

static const struct kind {
        const char *name;
        uint32_t class_number;
        enum engines engines;
} kinds[] = {
#define KIND(name, class_number, engines) { #name, class_number, engines },
#include "gate/policy/own.def"
#undef KIND
};

static const struct row {
        enum own_kind kind;
        uint32_t architecture;
        const char *release;
        bytes size;
} rows[] = {
#define OWN(name, architecture, release, kib) { OWN_##name, architecture, release, (kib)*KIB },
#include "gate/policy/own.def"
#undef OWN
};

_Static_assert(ARRAY_SIZE(kinds) == LEASE_OWN, "a lease has room for each kind");

const char *own_name(enum own_kind kind)
{
        return kinds[kind].name;
}

bytes own_largest(enum own_kind kind)
{
        bytes most = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].kind == kind && rows[i].size > most)
                        most = rows[i].size;
        return most;
}

void own_known(uint32_t architecture, const char *release, struct lease_own *ret)
{
        *ret = (struct lease_own){ 0 };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct row *row = &rows[i];

                if (row->architecture != architecture || strcmp(row->release, release) != 0)
                        continue;
                ret->of[row->kind].is_known = true;
                if (row->size > ret->of[row->kind].size)
                        ret->of[row->kind].size = row->size;
        }
}

bytes own_of_kind(const struct lease_own *own, enum own_kind kind)
{
        return own && own->of[kind].is_known ? own->of[kind].size : own_largest(kind);
}

/* What names no engine, or one that nobody knows, may be any. */
static bool is_copy(const void *params, size_t params_size)
{
        return rm_get32(params, params_size, ENGINE_AT) > ENGINE_GRAPHICS_LAST;
}

bytes own_of_class(const struct lease_own *own, uint32_t class_number, const void *params, size_t params_size)
{
        if (RM_CLASS_IS_CHANNEL(class_number))
                class_number = CHANNEL;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (kinds[i].class_number == class_number && (kinds[i].engines == ANY || !is_copy(params, params_size)))
                        return own_of_kind(own, (enum own_kind)i);
        return 0;
}

/* How many units of that size the addresses touch. */
static uint64_t touched(uint64_t base, uint64_t length, uint64_t unit)
{
        uint64_t last = length - 1 > UINT64_MAX - base ? UINT64_MAX : base + (length - 1);

        return length ? last / unit - base / unit + 1 : 0;
}

static bytes table_of(enum own_pages pages)
{
        switch (pages) {
        case OWN_PAGES_SMALL:
                return TABLE;
        case OWN_PAGES_BIG:
                return TABLE_OF_BIG;
        case OWN_PAGES_HUGE:
                return 0;
        default:
                return TABLE + TABLE_OF_BIG;
        }
}

bytes own_tables(uint64_t base, uint64_t length, enum own_pages pages)
{
        return table_of(pages) * touched(base, length, 2 * MIB) +
               TABLE * (touched(base, length, 512 * MIB) + touched(base, length, 256 * GIB));
}

bytes own_tables_anywhere(uint64_t length, enum own_pages pages)
{
        return own_tables(0, length, pages) + table_of(pages) + 2 * TABLE;
}

bytes own_reservation(uint32_t flags, uint32_t attr, uint64_t size, bytes *ret_most)
{
        *ret_most = own_tables_anywhere(size, RM_ATTR_PAGE_SIZE(attr) ? OWN_PAGES_SMALL : OWN_PAGES_ANY);
        return flags & (FLAG_LAZY | FLAG_EXTERNAL) ? 3 * TABLE : *ret_most;
}
