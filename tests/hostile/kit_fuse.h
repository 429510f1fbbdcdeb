/* SPDX-License-Identifier: Apache-2.0 */
/* A file whose close waits: of a FUSE whose server answers everything else. */
#pragma once

enum {
        KIT_FUSE_LIFE_SEC = 15, /* then the server lets go: nothing waits for ever */
};

/* Opens it in a mount namespace of the caller's own; an exec closes it. The server, a child, ends when the other end of
 * the pipe `alive` is closed, and writes a 'y' to `report` whenever a close begins to wait. -1: no FUSE here. */
int kit_fuse_open(int alive, int report);
