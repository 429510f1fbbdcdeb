/* SPDX-License-Identifier: Apache-2.0 */
/* The size of an SM partition: what is wanted, and what a device can give (preload/partition.h). Pure. */
#pragma once

#include <stdint.h>

enum {
        SMS_MOST = 4096,
        SMS_FIRST_DRIVER = 550, /* the first branch with green contexts: CUDA 12.4 */
};

struct sms {
        uint32_t permille; /* of the device's multiprocessors; or */
        uint32_t count;    /* a number of them. Both 0: all */
};

/* Reads "25%", "12.5%", "32" or "". 0; -EINVAL. */
int sms_parse(const char *text, struct sms *ret);

/* How many of `all` multiprocessors are wanted; 0: more than there are. */
unsigned int sms_wanted(struct sms sms, unsigned int all);

/*
 * The nearest size that a device can give; of two equally near, the smaller. size(context, n) returns what a request
 * for n gets: n or more, in steps; 0: nothing.
 */
unsigned int sms_nearest(unsigned int wanted, unsigned int (*size)(void *context, unsigned int n), void *context);
