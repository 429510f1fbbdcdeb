/* How large an SM partition is to be, and how large it can be (preload/partition.h). Pure. */
#pragma once

#include <stdint.h>

enum {
        SMS_MOST = 4096,
        SMS_FIRST_DRIVER = 550, /* the first branch with green contexts: CUDA 12.4 */
};

struct sms {
        uint32_t permille; /* of the device's multiprocessors; or */
        uint32_t count;    /* so many. Both 0: all of them */
};

/* "25%", "12.5%", "32"; ""; nothing else. 0; -EINVAL. */
int sms_parse(const char *text, struct sms *ret);

/* How many are wanted of all; 0: more than there are. */
unsigned int sms_wanted(struct sms sms, unsigned int all);

/*
 * What comes nearest among the sizes that a device can give; of two as near, the smaller. size(context, n) says how many
 * it gives who asks for n: n or more, in steps; 0: it cannot.
 */
unsigned int sms_nearest(unsigned int wanted, unsigned int (*size)(void *context, unsigned int n), void *context);
