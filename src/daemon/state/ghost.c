/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/ghost.h"

#include <string.h>

bool ghost_is_due(struct ghost *ghost, const struct ghost_view *view)
{
        bool is_fresh = view->reported_at && view->now - view->reported_at < GHOST_FRESH;

        if (view->has_allocation || !is_fresh) {
                ghost->gone_since = 0;
                return false;
        }
        if (!ghost->gone_since)
                ghost->gone_since = view->now;
        return !ghost->is_none && view->now - ghost->gone_since >= GHOST_GONE &&
               (!ghost->looked_at || view->now - ghost->looked_at >= GHOST_AGAIN);
}

/* "ID", "cri-containerd-ID.scope", "crio-ID" */
static bool is_named(const char *component, size_t n, const char *id)
{
        static const char scope[] = ".scope";
        const size_t n_scope = sizeof(scope) - 1, n_id = strlen(id);

        if (n > n_scope && !memcmp(component + n - n_scope, scope, n_scope))
                n -= n_scope;
        if (!n_id || n < n_id || memcmp(component + n - n_id, id, n_id) != 0)
                return false;
        return n == n_id || component[n - n_id - 1] == '-';
}

bool ghost_is_of(const struct ghost_process *process, const char *id)
{
        for (const char *at = process->cgroup; *at;) {
                size_t n = strcspn(at, "/\n");

                if (is_named(at, n, id))
                        return true;
                at += n + (at[n] != '\0');
        }
        return false;
}

/* The file that runc is in a container: its own binary; a sealed copy in memory; or that binary by a mount of its own,
 * which is detached at once, so that the link is only "/". No container's program has such a link. */
static bool is_runc(const char *link)
{
        static const char copy[] = "/memfd:runc_cloned:";
        const char *slash = strrchr(link, '/');

        return !strcmp(link, "/") || !strncmp(link, copy, sizeof(copy) - 1) || (slash && !strcmp(slash + 1, "runc"));
}

/* The stage that waits for `runc start`; executing the container's program ends the name (nsexec.c, 1.0 to 1.3). */
bool ghost_is_unstarted(const struct ghost_process *process)
{
        return is_runc(process->program) && !strcmp(process->comm, "runc:[2:INIT]\n");
}
