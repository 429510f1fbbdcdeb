/*
 * nginx's configuration, from the settings. Nothing about replicas is in it: those are told through the module's API.
 *
 * Pure. Threads: any.
 */
#pragma once

#include "route/agent/settings.h"

#include <stdio.h>

struct nginx_environment {
        const char *dir;    /* absolute; pid, log, temporary files, api/api.sock */
        const char *module; /* ngx_http_sublet_module.so */
        bool is_root;       /* workers run as settings.user */
        unsigned int files; /* descriptors that a worker may have */
};

/* Writes the whole of it. What the stream says (ferror) is the caller's to look at. */
void nginx_conf_write(FILE *to, const struct settings *settings, const struct nginx_environment *environment);
