/* A driver release: which it is, and whether its ABI is known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rm_version {
        unsigned int branch, minor, patch; /* 580.159.04 */
};

enum {
        RM_OK,
        RM_E_VERSION, /* a release whose ABI nobody has tested: never "the nearest one" */
        RM_E_SIZE,    /* a block or parameter size that this release does not have */
        RM_E_NUMBER,  /* a request number that this release does not have */
};

/* "580.159.04", "535.288.01", "570.86"; nothing else around it. 0; -EINVAL. */
int rm_version_parse(const char *text, struct rm_version *ret);

int rm_version_cmp(struct rm_version a, struct rm_version b); /* <0, 0, >0 */

/* Lies in a closed range of released, read versions (releases.def); developer tags do not. */
bool rm_version_is_known(struct rm_version version);

/* The i-th of those ranges, oldest first; for people. False: there are no more. */
bool rm_version_range(size_t i, struct rm_version *ret_first, struct rm_version *ret_last);
