/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this room share: layouts of releases that must exist. */
#pragma once

#include "unit.h"

#include "rm/layout.h"

/* The last read release of each branch. */
static const struct rm_version releases[] = {
        { 525, 147, 5 }, { 535, 288, 1 }, { 545, 29, 6 }, { 550, 163, 1 }, { 555, 58, 2 }, { 560, 35, 3 },
        { 565, 77, 0 },  { 570, 211, 1 }, { 575, 64, 5 }, { 580, 159, 4 }, { 590, 48, 1 }, { 595, 45, 4 },
};

enum {
        N_RELEASES = sizeof(releases) / sizeof(releases[0]),
};

static inline struct rm_layout layout_of_release(size_t i)
{
        struct rm_layout layout = { .alloc_size = 0 };

        assert_int_equal(rm_layout_for(releases[i], &layout), RM_OK);
        return layout;
}

static inline struct rm_layout layout_of(unsigned int branch, unsigned int minor, unsigned int patch)
{
        struct rm_layout layout = { .alloc_size = 0 };

        assert_int_equal(rm_layout_for((struct rm_version){ branch, minor, patch }, &layout), RM_OK);
        return layout;
}
