/* SPDX-License-Identifier: Apache-2.0 */
/* A driver release: its number, and whether its ABI is known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rm_version {
        unsigned int branch, minor, patch; /* 580.159.04 */
};

enum {
        RM_OK,
        RM_E_VERSION, /* a release whose ABI is not known; the nearest known one is never taken */
        RM_E_SIZE,    /* a block or parameter size that this release does not have */
        RM_E_NUMBER,  /* a request number that this release does not have */
};

/* Parses "580.159.04", "535.288.01", "570.86" and nothing else. 0; -EINVAL. */
int rm_version_parse(const char *text, struct rm_version *ret);

int rm_version_cmp(struct rm_version a, struct rm_version b); /* <0, 0, >0 */

/* Whether it is in one of the closed ranges of releases.def; developer tags are not. */
bool rm_version_is_known(struct rm_version version);

/* The i-th of those ranges, oldest first; for people. False: there is none. */
bool rm_version_range(size_t i, struct rm_version *ret_first, struct rm_version *ret_last);
