/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offsets of one release's blocks, as small integers. No C struct of the driver is ever laid over bytes that a
 * tenant wrote: fields are read and written by rm_get and rm_put, with bounds checks. Values that change between
 * releases are in layouts.def; those that never changed from 525 to 595 are constants beside the code that uses them.
 */
#pragma once

#include "rm/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rm_layout {
        struct rm_version version;
#define FIELD(name, unit, meaning) uint32_t name;
#include "rm/fields.def"
#undef FIELD
};

/* As a size or an offset: the release does not have it. */
#define RM_ABSENT UINT32_MAX

/* RM_OK; RM_E_VERSION (ret untouched). */
int rm_layout_for(struct rm_version version, struct rm_layout *ret);

/* Little-endian fields at an offset. Outside the buffer reads 0 and writes nothing. */
uint32_t rm_get32(const void *buffer, size_t size, size_t offset);
uint64_t rm_get64(const void *buffer, size_t size, size_t offset);
void rm_put32(void *buffer, size_t size, size_t offset, uint32_t value);
void rm_put64(void *buffer, size_t size, size_t offset, uint64_t value);
