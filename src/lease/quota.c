/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/quota.h"

#include <errno.h>

static void raise_to(_Atomic bytes *mark, bytes size)
{
        bytes now = atomic_load(mark);

        while (now < size && !atomic_compare_exchange_weak(mark, &now, size))
                ;
}

/* The one place where `used` grows within the bound. A quota below its use is ordinary. */
static int grow(struct quota *quota, bytes more)
{
        bytes size = atomic_load(&quota->size), used = atomic_load(&quota->used);

        do {
                if (used > size || more > size - used)
                        return QUOTA_E_FULL;
        } while (!atomic_compare_exchange_weak(&quota->used, &used, used + more));

        raise_to(&quota->peak, used + more);
        return QUOTA_OK;
}

static int refused(struct quota *quota, bytes size)
{
        (void)atomic_fetch_add(&quota->n_refused, 1);
        raise_to(&quota->largest_refused, size);
        return QUOTA_E_FULL;
}

int quota_try(struct quota *quota, bytes size, struct charge *ret)
{
        int r;

        if (size) {
                r = grow(quota, size);
                if (r != QUOTA_OK)
                        return r;
        }
        *ret = (struct charge){ size ? quota : NULL, size };
        return QUOTA_OK;
}

int quota_take(struct quota *quota, bytes size, struct charge *ret)
{
        int r;

        r = quota_try(quota, size, ret);
        return r == QUOTA_E_FULL ? refused(quota, size) : r;
}

struct charge quota_restore(struct quota *quota, bytes size)
{
        if (!size)
                return (struct charge){ 0 };
        raise_to(&quota->peak, atomic_fetch_add(&quota->used, size) + size);
        return (struct charge){ quota, size };
}

int charge_resize(struct charge *charge, bytes size)
{
        int r;

        if (!charge->quota)
                return size ? -EINVAL : QUOTA_OK;
        if (size > charge->size) {
                r = grow(charge->quota, size - charge->size);
                if (r != QUOTA_OK)
                        return refused(charge->quota, size);
        } else {
                (void)atomic_fetch_sub(&charge->quota->used, charge->size - size);
        }
        charge->size = size;
        return QUOTA_OK;
}

void charge_drop(struct charge *charge)
{
        if (charge->quota)
                (void)atomic_fetch_sub(&charge->quota->used, charge->size);
        *charge = (struct charge){ 0 };
}

bytes quota_free(const struct quota *quota)
{
        bytes size = atomic_load(&quota->size), used = atomic_load(&quota->used);

        return used < size ? size - used : 0;
}
