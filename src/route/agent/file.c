/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of settings, or the command line in its place: read at the start, and whenever the file changes. What was
 * made of a changed one is tested by nginx meanwhile (process.c); until that has ended, all goes on as before.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        FILE_MSEC = 500, /* the file is polled: a ConfigMap changes by a symbolic link, which inotify misses */
};

void file_list(struct agent *agent)
{
        const struct settings *settings = agent->settings;

        agent_unlist(agent, FLEET_FILE);
        for (size_t i = 0; i < settings->n_replicas; i++)
                (void)agent_replica(agent, settings->replicas[i].name, settings->replicas[i].address, FLEET_FILE,
                                    &settings->replicas[i].config);
        names_list(agent);
}

static void stamp(const char *path, long long ret[static 3])
{
        struct stat st = { 0 };

        (void)stat(path, &st);
        ret[0] = (long long)st.st_ino;
        ret[1] = (long long)st.st_size;
        ret[2] = (long long)st.st_mtim.tv_sec * NSEC_PER_SEC + st.st_mtim.tv_nsec;
}

static int apply_tls(const struct agent *agent, struct settings *settings, struct err *err)
{
        const char *tls = agent->options->tls, *colon = tls ? strchr(tls, ':') : NULL;

        if (!tls)
                return 0;
        if (!colon || colon == tls || !colon[1] || strlen(tls) >= SETTINGS_PATH)
                return err_say(err, -EINVAL, "--tls: expected CERTIFICATE:KEY, two PEM files");
        (void)snprintf(settings->certificate, sizeof(settings->certificate), "%.*s", (int)(colon - tls), tls);
        (void)snprintf(settings->certificate_key, sizeof(settings->certificate_key), "%s", colon + 1);
        return 0;
}

int file_absolute(char *path, size_t size, struct err *err)
{
        char *found;
        int n;

        if (!*path || *path == '/' || !strcmp(path, "off"))
                return 0;
        found = realpath(path, NULL);
        if (!found)
                return err_set(err, -errno, "%s", path);
        n = snprintf(path, size, "%s", found);
        free(found);
        return n > 0 && (size_t)n < size ? 0 : err_say(err, -ENAMETOOLONG, "%s...: too long", path);
}

/* The system's authorities, where no others are named. */
static int find_authorities(struct settings *settings, struct err *err)
{
        static const char system[] = "/etc/ssl/certs/ca-certificates.crt";

        if (*settings->replica_ca || !settings->verifies_replicas || !route_settings_has_tls(settings))
                return 0;
        if (access(system, R_OK) < 0)
                return err_set(err, -errno, "%s, the system's authorities (name others with replica_ca)", system);
        memcpy(settings->replica_ca, system, sizeof(system));
        return 0;
}

static int find_files(struct settings *settings, struct err *err)
{
        char *paths[] = { settings->certificate,         settings->certificate_key,         settings->replica_ca,
                          settings->replica_certificate, settings->replica_certificate_key, settings->routers_secret };
        int r = find_authorities(settings, err);

        for (size_t i = 0; i < ARRAY_SIZE(paths) && r == 0; i++)
                r = file_absolute(paths[i], SETTINGS_PATH, err);
        return r;
}

static int read_source(const struct agent_options *options, struct settings **ret, struct err *err)
{
        _cleanup_(freep) struct settings *settings = NULL;
        int r;

        if (options->config) { /* one that is not there is bad use, as one with a mistake is */
                r = route_settings_read(options->config, ret, err);
                return r == -ENOENT || r == -EACCES || r == -EISDIR ? -EINVAL : r;
        }
        settings = malloc(sizeof(*settings));
        r = settings ? route_settings_of_urls(options->urls, options->n_urls, settings, err) : -ENOMEM;
        if (r == 0)
                *ret = TAKE(settings);
        return r;
}

static int apply_listen(const struct agent *agent, struct settings *settings, struct err *err)
{
        if (!agent->options->listen)
                return 0;
        return route_settings_listen(agent->options->listen, settings, err);
}

static int read_settings(const struct agent *agent, struct settings **ret, struct err *err)
{
        _cleanup_(freep) struct settings *settings = NULL;
        int r = read_source(agent->options, &settings, err);

        if (r < 0 || (r = apply_tls(agent, settings, err)) < 0 || (r = apply_listen(agent, settings, err)) < 0 ||
            (r = find_files(settings, err)) < 0 || (r = routers_check(settings, err)) < 0)
                return r;
        *ret = TAKE(settings);
        return 0;
}

static void drop_fresh(struct agent *agent, const char *why)
{
        free(TAKE(agent->fresh));
        agent_log(agent, "%s; going on as before", why);
}

static void take_fresh(struct agent *agent)
{
        struct settings *before = agent->settings, *fresh = TAKE(agent->fresh);
        struct err err = { 0 };

        agent->settings = fresh;
        agent->knows_settings = false;
        file_list(agent);
        if (memcmp(before->services, fresh->services, sizeof(fresh->services)) && kube_set(agent, &err) < 0)
                agent_log(agent, "%s", err.text);
        if (memcmp(&before->daemons, &fresh->daemons, sizeof(fresh->daemons)))
                tenants_set(agent);
        if (routers_set(agent, &err) < 0)
                agent_log(agent, "%s", err.text);
        if (traces_set(agent, &err) < 0)
                agent_log(agent, "%s", err.text);
        free(before);
        agent_log(agent, "%s was read again", agent->options->config);
}

/* A wrong file changes nothing. One that nginx is not done with is read again afterwards, if it changed. */
void file_reread(struct agent *agent)
{
        struct err err = { 0 };
        int r;

        agent->must_reread = agent->tester != 0;
        if (agent->tester || !agent->options->config)
                return;
        if (read_settings(agent, &agent->fresh, &err) < 0)
                return drop_fresh(agent, err.text);
        r = process_test(agent, agent->fresh, &err);
        if (r < 0)
                drop_fresh(agent, err.text);
        else if (r == PROCESS_SAME)
                take_fresh(agent);
}

void file_tested(struct agent *agent, int status)
{
        struct err err = { 0 };

        if (process_tested(agent, status, &err) < 0)
                drop_fresh(agent, err.text);
        else
                take_fresh(agent);
        if (agent->must_reread)
                file_reread(agent);
}

void file_tick(struct agent *agent)
{
        long long now[3];

        if (!agent->options->config)
                return;
        if (agent->now >= agent->file_at) {
                agent->file_at = agent->now + FILE_MSEC * NSEC_PER_MSEC;
                stamp(agent->options->config, now);
                if (memcmp(now, agent->file_stamp, sizeof(now))) {
                        memcpy(agent->file_stamp, now, sizeof(now));
                        file_reread(agent);
                }
        }
        agent_due(agent, agent->file_at);
}

int file_begin(struct agent *agent, struct err *err)
{
        if (agent->options->config)
                stamp(agent->options->config, agent->file_stamp);
        return read_settings(agent, &agent->settings, err);
}
