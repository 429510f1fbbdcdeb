/* SPDX-License-Identifier: Apache-2.0 */
/* What a call prints to standard output, which belongs to the tests. */
#pragma once

#include "unit.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <sys/mman.h>

struct said {
        int saved, memory;
};

static inline struct said said_begin(FILE *to)
{
        struct said said = { dup(fileno(to)), memfd_create("said", MFD_CLOEXEC) };

        (void)fflush(to);
        assert_true(dup2(said.memory, fileno(to)) >= 0);
        return said;
}

static inline void said_end(struct said *said, FILE *to, char *ret, size_t size)
{
        ssize_t n;

        (void)fflush(to);
        assert_true(dup2(said->saved, fileno(to)) >= 0);
        n = pread(said->memory, ret, size - 1, 0);
        assert_true(n >= 0);
        ret[n] = '\0';
        closep(&said->saved);
        closep(&said->memory);
}
