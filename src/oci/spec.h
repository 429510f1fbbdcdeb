/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files for a runtime whose containers are tenants: a specification with the profile and the hook, containerd's
 * settings, and the RuntimeClass by which pods choose them.
 */
#pragma once

#include <jansson.h>

struct err;

struct spec_paths {
        const char *program; /* of `sublet`, as the runtime finds it on the host */
        const char *dir;     /* the daemon's */
        const char *name;    /* of the handler and the class */
        const char *file;    /* where the specification will be */
};

/*
 * Adds the profile, and `sublet hook` before each start, to `spec`, as `ctr oci spec` or `runc spec` prints it. A hook
 * of Sublet's that is there already is replaced. *ret is the caller's. 0; -EINVAL: it is no specification; -ENOMEM.
 */
int spec_make(const json_t *spec, json_t *profile, const struct spec_paths *paths, json_t **ret, struct err *err);

/* `{"path": ..., "args": [...]}` of the hook; `name` is the key that CDI gives it, or NULL. The caller's. */
json_t *spec_hook(const struct spec_paths *paths, const char *name);

/* Texts to print; the caller frees them. NULL: out of memory. */
char *spec_containerd(const struct spec_paths *paths);
char *spec_class(const struct spec_paths *paths);
