/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `sublet oci` and `sublet cdi`, and the files that they name. */
#pragma once

#include "base/flags.h"
#include "oci/profile.h"
#include "oci/spec.h"

enum {
        OPTIONS_CAPABILITIES = 48,
        OPTIONS_TEXT = 4096,
};

struct oci_options {
        const char *dir, *base, *caps, *driver, *runtime, *name, *file, *path;
        bool is_killable, is_class;

        char release[32], daemon[OPTIONS_TEXT], listener[OPTIONS_TEXT + 16], metadata[PROFILE_METADATA],
                program[OPTIONS_TEXT];
        char caps_text[OPTIONS_TEXT];
        const char *capabilities[OPTIONS_CAPABILITIES + 1];
};

/* Fills in defaults: the daemon's directory, its socket, this program's path. 0; -errno. */
int oci_options_complete(struct oci_options *options, struct err *err);

/* Reads --driver RELEASE: one that is known here. 0; -EINVAL. */
int oci_options_driver(const struct flag *flag, const char *value, struct err *err);

/* Fills in the driver's release, by default this machine's. 0; -errno. */
int oci_options_release(struct oci_options *options, struct err *err);

/* Makes and checks the profile. *ret is the caller's. 0; -errno. */
int oci_options_profile(const struct oci_options *options, json_t **ret, struct err *err);

struct spec_paths oci_options_paths(const struct oci_options *options);

/* Reads a JSON object from a file; "-" is standard input. *ret is the caller's. 0; -EINVAL; -errno. */
int oci_options_read(const char *path, json_t **ret, struct err *err);

/* Writes it in one step, with the mode of the file that was there, or 0644. 0; -EINVAL: there is no file but something
 * else; -errno. */
int oci_options_write(const char *path, const json_t *value, struct err *err);
