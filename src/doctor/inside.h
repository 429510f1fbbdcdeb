/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `sublet doctor` share. They read the machine; findings.h and offers.h judge. */
#pragma once

#include "doctor/offers.h"

#include "gpu/backend.h"

struct doctor {
        const char *root; /* of the simulated machine's files; "" for the real one */
        struct gpu_backend backend;
        bool has_backend;
        int listener; /* of a child that asked for one: 0 or an errno; -1: could not be tried */
        struct findings findings;
};

bool doctor_is_simulated(const struct doctor *doctor);

/* The beginning of a small file, without its last newline; "" if it cannot be read. */
const char *doctor_read(const char *path, char *ret, size_t size);

/* driver.c: the release, the nodes and the devices. Sets backend. */
void doctor_check_driver(struct doctor *doctor);

/* kernel.c: what a supervisor needs, tried on a child. Sets listener. */
void doctor_check_kernel(struct doctor *doctor);
