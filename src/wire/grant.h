/* SPDX-License-Identifier: Apache-2.0 */
/* Options such as "--mem 8G,1=16G --gpu 0,1" become a lease. */
#pragma once

#include "lease/lease.h"

struct err;

struct grant {
        const char *memory;  /* SIZE[,DEVICE=SIZE...], or NULL: the whole device */
        const char *gpus;    /* DEVICE[,DEVICE...], "all" or NULL: all. A device: its number, UUID or PCI address */
        const char *host;    /* SIZE, or NULL: no limit */
        const char *managed; /* charge | deny | allow, or NULL: charge */
        const char *capabilities; /* a list as lease/capabilities.h reads it, or NULL: the default */
};

/* What is wrong whatever machine it is for: the form of a size, an unknown word. 0; -EINVAL. */
int grant_check(const struct grant *grant, struct err *err);

/* Completes a lease whose devices are filled in. 0; -EINVAL; -ERANGE (more than the device has). */
int grant_apply(const struct grant *grant, struct lease *lease, struct err *err);
