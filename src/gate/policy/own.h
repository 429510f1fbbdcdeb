/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call makes the driver take without being asked: context buffers by a table (own.def), page tables by their
 * arithmetic. Upper bounds. Pure.
 *
 * A page table covers 2 MiB of addresses: with 4 KiB for small pages, 256 bytes for pages of 64 KiB, none for those of
 * 2 MiB. Those above it cover 512 MiB, 256 GiB and 128 TiB, with 4 KiB each; of the last there are few.
 * Source: tests/gpu/ownmem.sh, H100 and H200, 580.159.04.
 */
#pragma once

#include "lease/lease.h"

#include "base/text.h"

#include <stdint.h>

/* As RM_ATTR_PAGE_SIZE says it. */
enum own_pages {
        OWN_PAGES_ANY, /* tables for small and for large ones */
        OWN_PAGES_SMALL,
        OWN_PAGES_BIG,
        OWN_PAGES_HUGE,
};

enum own_kind {
#define KIND(name, class_number, engines) OWN_##name,
#include "gate/policy/own.def"
#undef KIND
        OWN_KINDS,
};

const char *own_name(enum own_kind kind); /* "address_space" */

/* The most that any row has. */
bytes own_largest(enum own_kind kind);

/* The rows of one architecture and release; kinds without one are unknown. */
void own_known(uint32_t architecture, const char *release, struct lease_own *ret);

/* own: of the device, or NULL; the largest known where it does not know. */
bytes own_of_kind(const struct lease_own *own, enum own_kind kind);

/* Of an object of this class; params: our copy of its parameters. 0: nothing. */
bytes own_of_class(const struct lease_own *own, uint32_t class_number, const void *params, size_t params_size);

/* Page tables for [base, base + length). */
bytes own_tables(uint64_t base, uint64_t length, enum own_pages pages);

/* The same, wherever it comes to lie. */
bytes own_tables_anywhere(uint64_t length, enum own_pages pages);

/* A reservation of addresses (class 0x50a0): its page tables, at once; or, if it is lazy, what it begins with.
 * *ret_most: what it may grow to. Whatever pages it names, the driver reserves tables for small ones (measured). */
bytes own_reservation(uint32_t flags, uint32_t attr, uint64_t size, bytes *ret_most);
