/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound of memory, and charges against it.
 *
 * Memory is spent as a value: quota_take before the call, keep the charge on success; a charge that leaves its scope
 * returns by itself. There is no second path to forget.
 *
 *      _cleanup_(charge_drop) struct charge charge = { 0 };
 *
 *      r = quota_take(&quota, size, &charge);
 *      if (r == QUOTA_E_FULL)
 *              ...
 *      ledger_put(..., TAKE(charge));
 *
 * Threads: all functions from any thread, but one charge is one thread's at a time. A quota outlives its charges and
 * does not move. At any time: used == the sum of the charges' sizes.
 */
#pragma once

#include "base/text.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
        QUOTA_OK,
        QUOTA_E_FULL, /* would exceed the quota; nothing was taken */
};

struct quota {
        _Atomic bytes size; /* the bound; may be set below `used`: then nothing more is granted */
        _Atomic bytes used;
        _Atomic bytes peak;            /* the most that `used` has been */
        _Atomic uint64_t n_refused;    /* how often the answer was QUOTA_E_FULL, but for quota_try */
        _Atomic bytes largest_refused; /* the largest single size refused */
};

struct charge {
        struct quota *quota; /* NULL: nothing is held */
        bytes size;
};

/* ret is overwritten, on success only: hand in an empty charge. size 0 is granted, also by a full quota, and holds
 * nothing. QUOTA_OK; QUOTA_E_FULL. */
int quota_take(struct quota *quota, bytes size, struct charge *ret);

/* As quota_take, but without counting a refusal: for a caller that will try to make room. */
int quota_try(struct quota *quota, bytes size, struct charge *ret);

/* What had been granted, and was given back for a while: granted whatever the bound is by now. */
struct charge quota_restore(struct quota *quota, bytes size);

/* Makes a charge larger or smaller; at size 0 it still knows its quota and may grow again. Growing may be
 * QUOTA_E_FULL: the charge is as it was. -EINVAL: an empty charge cannot grow. */
int charge_resize(struct charge *charge, bytes size);

void charge_drop(struct charge *charge); /* empty is fine; leaves it empty */

/* Two charges of one quota become one; `from` may be empty. */
static inline void charge_join(struct charge *to, struct charge from)
{
        to->quota = to->quota ? to->quota : from.quota;
        to->size += from.size;
}

bytes quota_free(const struct quota *quota); /* 0 when used exceeds size */
