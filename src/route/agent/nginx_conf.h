/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nginx's configuration, from the settings. It says nothing about replicas: the module gets them through its API.
 *
 * Pure. Threads: any.
 */
#pragma once

#include "route/settings/settings.h"

#include <stdio.h>

struct nginx_environment {
        const char *dir;    /* absolute; pid, log, temporary files, api/api.sock */
        const char *module; /* ngx_http_sublet_module.so */
        bool is_root;       /* workers run as settings.user */
        unsigned int files; /* descriptors that a worker may have */
};

/* Writes all of it. The caller checks the stream (ferror). */
void nginx_conf_write(FILE *to, const struct settings *settings, const struct nginx_environment *environment);
