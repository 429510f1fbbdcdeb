/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a name is a tenant's: an empty list for a name that never was would hide a slip of the hand. */
#pragma once

struct ask;
struct err;

/* Asks for a tenant that is there, or has left usage or events. 0; -ENOENT: nobody had this name, as far as the caller
 * may see; -errno. */
int known_check(struct ask *ask, const char *tenant, struct err *err);
