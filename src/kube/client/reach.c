/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/reach.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

enum {
        PATH = 1024,
};

/* Sockets of Sublet, of runtimes and of the system are in /run, wherever there. */
static const char *const places[] = { "/run", "/var/lib/sublet", "/var/lib/kubelet", "/var/lib/rancher", "/proc" };

/* One way to write a path: without what changes nothing, and by the folder that a link of every node leads to. What
 * does not fit is cut off, which keeps what it is below. */
static void plain(const char *path, char to[static PATH])
{
        size_t n = 0;

        while (*path) {
                size_t part = strcspn(path, "/");

                if (part && !(part == 1 && *path == '.') && n + part + 2 < PATH) {
                        to[n++] = '/';
                        memcpy(to + n, path, part);
                        n += part;
                }
                path += part + (path[part] == '/');
        }
        to[n] = '\0';
        if (!strncmp(to, "/var/run", 8) && (!to[8] || to[8] == '/'))
                memmove(to, to + 4, n - 4 + 1);
}

static bool is_below(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

static bool is_wide_path(const char *path)
{
        char at[PATH];

        plain(path, at);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (is_below(at, places[i]) || is_below(places[i], at))
                        return true;
        return is_below("/var/run", at); /* the link itself */
}

bool reach_is_wide(const json_t *spec, char *why, size_t size)
{
        const json_t *volume;
        size_t i;

        if (json_is_true(json_object_get(spec, "hostPID"))) {
                (void)snprintf(why, size, "hostPID: it would reach other tenants' processes");
                return true;
        }
        json_array_foreach (json_object_get(spec, "volumes"), i, volume) {
                const char *path = json_string_value(json_object_get(json_object_get(volume, "hostPath"), "path"));

                if (!path || !is_wide_path(path))
                        continue;
                (void)snprintf(why, size, "the node's %.100s, where Sublet, kubelet or the runtime can be reached",
                               path);
                return true;
        }
        return false;
}
