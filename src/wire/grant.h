/* From what a user writes to a lease: "--mem 8G,1=16G --gpu 0,1". */
#pragma once

#include "lease/lease.h"

struct err;

struct grant {
        const char *memory;  /* SIZE[,DEVICE=SIZE...], or NULL: the whole device */
        const char *gpus;    /* DEVICE[,DEVICE...], "all" or NULL: all */
        const char *host;    /* SIZE, or NULL: as much as the machine has */
        const char *managed; /* charge | deny | allow, or NULL: charge */
};

/* Completes a lease whose table of devices is filled. 0; -EINVAL; -ERANGE: more than a device has. */
int grant_apply(const struct grant *grant, struct lease *lease, struct err *err);
