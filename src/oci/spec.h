/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files for a runtime whose containers are tenants: a specification with the profile and the hook, containerd's
 * settings, and the RuntimeClass by which pods choose them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;

struct spec_paths {
        const char *program; /* of `sublet`, as the runtime finds it on the host */
        const char *dir;     /* the daemon's */
        const char *name;    /* of the handler and the class */
        const char *file;    /* where the specification will be */

        /* The program's loader and its libraries' directory, where the host has none that fit; NULL: the host's. */
        const char *loader, *libraries;
};

/*
 * Adds the profile, and `sublet hook` before each start, to `spec`, as `ctr oci spec` or `runc spec` prints it. A hook
 * of Sublet's that is there already is replaced. *ret is the caller's. 0; -EINVAL: it is no specification; -ENOMEM.
 */
int spec_make(const json_t *spec, json_t *profile, const struct spec_paths *paths, json_t **ret, struct err *err);

/* `{"path": ..., "args": [...]}` of the hook; `name` is the key that CDI gives it, or NULL. The caller's. */
json_t *spec_hook(const struct spec_paths *paths, const char *name);

/* The specification that containers begin with where there is no runtime to print one: what 'ctr oci spec' prints, but
 * for limits of resources, which are then containerd's own. The caller's. NULL: out of memory. */
json_t *spec_default(void);

/* Texts to print; the caller frees them. NULL: out of memory. spec_runtime: the tables of our runtime in containerd's
 * configuration of that version, 2 or 3; is_systemd: runc has cgroups made by systemd. */
char *spec_runtime(const struct spec_paths *paths, int version, bool is_systemd);
char *spec_containerd(const struct spec_paths *paths);
char *spec_class(const struct spec_paths *paths);
