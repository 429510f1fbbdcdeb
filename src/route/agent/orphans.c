/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of an nginx whose master was killed hold its ports, and nobody ends them. They are known by their program and
 * by their error log, which is in our directory. SIGQUIT: they close their ports at once and finish what they have.
 */
#include "route/agent/agent.h"

#include "base/text.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum {
        WAIT_MSEC = 100, /* for them to see it; nginx itself tries its ports again for 2.5 s */
};

static bool links_to(pid_t pid, const char *what, const char *wanted)
{
        char path[64], to[SETTINGS_PATH + 64];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
        n = readlink(path, to, sizeof(to) - 1);
        to[n > 0 ? n : 0] = '\0';
        return strncmp(to, wanted, strlen(wanted)) == 0; /* " (deleted)" may follow */
}

size_t orphans_quit(const struct agent *agent)
{
        char log[SETTINGS_PATH + 16];
        DIR *dir = opendir("/proc");
        const struct dirent *entry;
        size_t n = 0;

        (void)snprintf(log, sizeof(log), "%s/error.log", agent->dir);
        while (dir && (entry = readdir(dir)) != NULL) {
                uint64_t pid;

                if (number_parse(entry->d_name, &pid) < 0 || pid < 2 || pid > INT32_MAX ||
                    !links_to((pid_t)pid, "exe", NGINX) || !links_to((pid_t)pid, "fd/2", log))
                        continue;
                n += kill((pid_t)pid, SIGQUIT) == 0;
        }
        if (dir)
                (void)closedir(dir);
        if (n) {
                const struct timespec pause = { .tv_nsec = WAIT_MSEC * NSEC_PER_MSEC };

                agent_log(agent, "%zu processes of an nginx that was killed finish their requests", n);
                (void)nanosleep(&pause, NULL);
        }
        return n;
}
