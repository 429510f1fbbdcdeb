/* SPDX-License-Identifier: Apache-2.0 */
/* lease/quota.h inside a program: what is spent is the tenant's, on the shared usage segment (usage_segment.h). */
#include "preload/inside.h"

#include <errno.h>

static unsigned int kind_of(const struct quota *quota)
{
        const struct lease *lease = &preload_here->lease;

        if (quota == &lease->host)
                return USAGE_SEGMENT_HOST;
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                if (quota == &lease->devices[i].quota)
                        return i;
        return USAGE_SEGMENT_HOST; /* there is no other */
}

static int segment_take(struct quota *quota, bytes size)
{
        return usage_segment_take(&preload_here->usage, kind_of(quota), size, quota->size) == USAGE_SEGMENT_OK ?
                       QUOTA_OK :
                       QUOTA_E_FULL;
}

int quota_try(struct quota *quota, bytes size, struct charge *ret)
{
        if (size && usage_segment_try(&preload_here->usage, kind_of(quota), size, quota->size) != USAGE_SEGMENT_OK)
                return QUOTA_E_FULL;
        *ret = (struct charge){ size ? quota : NULL, size };
        return QUOTA_OK;
}

int quota_take(struct quota *quota, bytes size, struct charge *ret)
{
        if (size && segment_take(quota, size) != QUOTA_OK)
                return QUOTA_E_FULL;
        *ret = (struct charge){ size ? quota : NULL, size };
        return QUOTA_OK;
}

int charge_resize(struct charge *charge, bytes size)
{
        if (!charge->quota)
                return size ? -EINVAL : QUOTA_OK;
        if (size > charge->size && segment_take(charge->quota, size - charge->size) != QUOTA_OK)
                return QUOTA_E_FULL;
        if (size < charge->size)
                usage_segment_drop(&preload_here->usage, kind_of(charge->quota), charge->size - size);
        charge->size = size;
        return QUOTA_OK;
}

void charge_drop(struct charge *charge)
{
        if (charge->quota)
                usage_segment_drop(&preload_here->usage, kind_of(charge->quota), charge->size);
        *charge = (struct charge){ 0 };
}

bytes quota_free(const struct quota *quota)
{
        bytes size = quota->size, held;

        usage_segment_reclaim(&preload_here->usage); /* a view: what dead processes held is free */
        held = usage_segment_held(preload_here->usage.segment, kind_of(quota));
        return held < size ? size - held : 0;
}
