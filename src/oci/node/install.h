/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a host's root directory, written and taken back as a whole. What was done is noted in PREFIX/state.
 *
 *      I1  noted before it is done: whatever is interrupted, the next run knows what is ours;
 *      I2  each file is written beside its place, synced and renamed: a reader sees the old one or the new;
 *      I3  another file in the way is refused before anything is written; with our bytes it stays whose it is;
 *      I4  taken back, what others have is as if it had never been done: directories that are empty go, too.
 *
 * One run at a time: the directory PREFIX is locked.
 */
#pragma once

#include "oci/node/files.h"

struct install_result {
        size_t n_changed;
        bool wakes; /* containerd has to be started again for it: now, or since a run that did not come to its end */
};

/* Writes what differs and removes what is ours and no longer in the list. If ret->wakes, install_settle says that
 * containerd was told. 0; -errno. */
int install_apply(const struct install *install, struct install_result *ret, struct err *err);
int install_settle(const struct install *install, struct err *err);

/* Takes all of it back; the shared file becomes `shared` (NULL: stays), or goes if it was made here and is `least`.
 * 0; -errno. */
int install_remove(const struct install *install, const char *path, const char *shared, const char *least,
                   struct install_result *ret, struct err *err);
