/* What `sublet oci` is told, and what it reads because of it. */
#pragma once

#include "oci/profile.h"
#include "oci/spec.h"

enum {
        OPTIONS_CAPABILITIES = 48,
        OPTIONS_TEXT = 4096,
};

struct oci_options {
        const char *dir, *base, *caps, *driver, *runtime, *name, *file, *path;
        bool is_killable, is_class;

        struct rm_layout layout;
        char release[32], daemon[OPTIONS_TEXT], listener[OPTIONS_TEXT + 16], metadata[PROFILE_METADATA],
                program[OPTIONS_TEXT];
        char caps_text[OPTIONS_TEXT];
        const char *capabilities[OPTIONS_CAPABILITIES + 1];
};

/* Looks at the machine for what was not told: the daemon's directory, the driver's release, this program. 0; -errno. */
int oci_options_complete(struct oci_options *options, struct err *err);

/* The driver's release and its layout, of this machine's driver if none was told. 0; -errno. */
int oci_options_release(struct oci_options *options, struct err *err);

/* The profile as it was asked for, checked. *ret is the caller's. 0; -errno. */
int oci_options_profile(const struct oci_options *options, json_t **ret, struct err *err);

struct spec_paths oci_options_paths(const struct oci_options *options);

/* A file of JSON; "-" is standard input. *ret is the caller's. 0; -EINVAL; -errno. */
int oci_options_read(const char *path, json_t **ret, struct err *err);
