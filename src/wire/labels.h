/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user says of a tenant, for accounts: "team=video,stage=test". Text inside the program and in requests; an
 * object in leases, so that the store can group by one. Nothing is decided by a label.
 *
 * Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

enum {
        LABELS_MOST = 8,
        LABELS_TEXT = 512, /* with the end; all of a tenant's */
        LABEL_PART = 63,   /* bytes of a name, and of a value */
};

/* Letters, digits and "._/-", a letter or digit first; 1 to 63. A name or a value is such a word. */
bool label_word_is_good(const char *word, size_t size);

/* Appends "team=video". 0; -EINVAL: not NAME=VALUE of such words; -EEXIST: that name is there; -ENOSPC: too many. */
int labels_add(char labels[static LABELS_TEXT], const char *label);

bool labels_are_good(const char *labels); /* "" is */

json_t *labels_new(const char *labels); /* an object; the caller's; NULL: no memory */

/* From such an object; absent or null is none. False: it is none of ours. */
bool labels_read(const json_t *object, char ret[static LABELS_TEXT]);
