/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
        FILE_MSEC = 500, /* the file is polled: a ConfigMap changes by a symbolic link, which inotify misses */
        SOCKET_DIR = 90, /* bytes of the directory's path; a socket's path in it has at most 107 */
};

#define MODULE "ngx_http_sublet_module.so"

void agent_due(struct agent *agent, nsec at)
{
        if (at < agent->next)
                agent->next = at;
}

bool agent_is_due(struct agent *agent, nsec at)
{
        if (agent->now < at)
                agent_due(agent, at);
        return agent->now >= at;
}

void agent_log(const struct agent *agent, const char *format, ...)
{
        char text[1024];
        va_list arguments;

        (void)agent;
        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        text[strcspn(text, "\n")] = '\0';
        (void)fprintf(stderr, "sublet route: %s\n", text);
}

json_t *agent_json(const struct http_answer *answer)
{
        return http_is_good(answer) ? json_loads(http_text(answer), 0, NULL) : NULL;
}

int agent_call(struct agent *agent, const char *method, const char *base, const char *path, const char *body,
               nsec limit, agent_done *done, void *context, struct http_pool_call **slot)
{
        const struct http_request request = { .method = method,
                                              .base = base,
                                              .path = path,
                                              .body = body,
                                              .limit = limit,
                                              .done = done,
                                              .context = context };

        return http_pool_start(agent->http, &request, slot);
}

int agent_call_replica(struct fleet_replica *replica, const char *method, const char *path, const char *body,
                       nsec limit, agent_done *done, struct http_pool_call **slot)
{
        const struct settings *settings = replica->agent->settings;
        const char *at = *replica->numeric ? replica->numeric : replica->address, *name;
        char host[SETTINGS_WORD], base[SETTINGS_WORD + 16];
        struct http_request request = { .method = method,
                                        .base = at,
                                        .path = path,
                                        .body = body,
                                        .limit = limit,
                                        .done = done,
                                        .context = replica };

        if (replica->config.is_tls) {
                name = fleet_server_name(replica, host);
                (void)snprintf(base, sizeof(base), "https://%s", *name ? name : "localhost");
                request.base = base;
                request.at = at;
                request.ca = *settings->replica_ca ? settings->replica_ca : NULL;
                request.certificate = *settings->replica_certificate ? settings->replica_certificate : NULL;
                request.key = *settings->replica_certificate_key ? settings->replica_certificate_key : NULL;
                request.trusts_all = !settings->verifies_replicas;
        }
        return http_pool_start(replica->agent->http, &request, slot);
}

static void list_file(struct agent *agent)
{
        const struct settings *settings = agent->settings;

        agent_unlist(agent, FLEET_FILE);
        for (size_t i = 0; i < settings->n_replicas; i++)
                (void)agent_replica(agent, settings->replicas[i].name, settings->replicas[i].address, FLEET_FILE,
                                    &settings->replicas[i].config);
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

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

/* nginx reads paths relative to its own directory, the agent relative to where it was started. */
static int absolute(char *path, size_t size, struct err *err)
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
        char *paths[] = { settings->certificate, settings->certificate_key, settings->replica_ca,
                          settings->replica_certificate, settings->replica_certificate_key };
        int r = find_authorities(settings, err);

        for (size_t i = 0; i < ARRAY_SIZE(paths) && r == 0; i++)
                r = absolute(paths[i], SETTINGS_PATH, err);
        return r;
}

static int read_source(const struct agent_options *options, struct settings **ret, struct err *err)
{
        _cleanup_(freep) struct settings *settings = NULL;
        int r;

        if (options->config)
                return route_settings_read(options->config, ret, err);
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

static int read_settings(struct agent *agent, struct settings **ret, struct err *err)
{
        _cleanup_(freep) struct settings *settings = NULL;
        int r = read_source(agent->options, &settings, err);

        if (r < 0 || (r = apply_tls(agent, settings, err)) < 0 || (r = apply_listen(agent, settings, err)) < 0 ||
            (r = find_files(settings, err)) < 0)
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
        list_file(agent);
        if (memcmp(before->services, fresh->services, sizeof(fresh->services)) && kube_set(agent, &err) < 0)
                agent_log(agent, "%s", err.text);
        if (memcmp(&before->daemons, &fresh->daemons, sizeof(fresh->daemons)))
                tenants_set(agent);
        free(before);
        agent_log(agent, "%s was read again", agent->options->config);
}

/* A wrong file changes nothing. One that nginx is not done with is read again afterwards, if it changed. */
static void reread(struct agent *agent)
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

static void end_test(struct agent *agent, int status)
{
        struct err err = { 0 };

        if (process_tested(agent, status, &err) < 0)
                drop_fresh(agent, err.text);
        else
                take_fresh(agent);
        if (agent->must_reread)
                reread(agent);
}

static void watch_file(struct agent *agent)
{
        long long now[3];

        if (!agent->options->config)
                return;
        if (agent->now >= agent->file_at) {
                agent->file_at = agent->now + FILE_MSEC * NSEC_PER_MSEC;
                stamp(agent->options->config, now);
                if (memcmp(now, agent->file_stamp, sizeof(now))) {
                        memcpy(agent->file_stamp, now, sizeof(now));
                        reread(agent);
                }
        }
        agent_due(agent, agent->file_at);
}

/* ---- set-up -------------------------------------------------------------------------------------------------- */

static int find_module(struct agent *agent, struct err *err)
{
        static const char *const beside[] = { "/route/nginx/" MODULE, "/../lib/nginx/modules/" MODULE };
        const char *given = agent->options->module;
        char self[PATH_MAX] = "", path[PATH_MAX + 64];
        char *slash;

        if (given)
                (void)snprintf(agent->module, sizeof(agent->module), "%s", given);
        if (given)
                return access(given, R_OK) == 0 ? absolute(agent->module, sizeof(agent->module), err) :
                                                  err_set(err, -errno, "%s", given);
        if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 && (slash = strrchr(self, '/')) != NULL)
                *slash = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
                (void)snprintf(path, sizeof(path), "%s%s", self, beside[i]);
                if (access(path, R_OK) == 0 && strlen(path) < sizeof(agent->module)) {
                        memcpy(agent->module, path, strlen(path) + 1);
                        return 0;
                }
        }
        (void)snprintf(agent->module, sizeof(agent->module), "/usr/lib/nginx/modules/" MODULE);
        if (access(agent->module, R_OK) == 0)
                return 0;
        return err_say(err, -ENOENT,
                       "%s is neither beside this program nor in /usr/lib/nginx/modules: name it with --module",
                       MODULE);
}

static int make_dir(const char *path, mode_t mode, struct err *err)
{
        if (mkdir(path, mode) < 0 && errno != EEXIST)
                return err_set(err, -errno, "making %s", path);
        return 0;
}

static int make_dirs(struct agent *agent, struct err *err)
{
        char path[SETTINGS_PATH + 16];
        char *found;
        int r, fd;

        if ((r = make_dir(agent->options->dir, 0755, err)) < 0)
                return r;
        found = realpath(agent->options->dir, NULL);
        if (!found || strlen(found) > SOCKET_DIR || strpbrk(found, " ;{}\"'\\$#")) {
                free(found);
                return err_say(
                        err, -EINVAL,
                        "%s: too long for the directory of a socket, or it has characters that are special to nginx",
                        agent->options->dir);
        }
        (void)snprintf(agent->dir, sizeof(agent->dir), "%s", found);
        free(found);
        (void)snprintf(path, sizeof(path), "%s/tmp", agent->dir);
        if ((r = make_dir(path, 0755, err)) < 0)
                return r;
        (void)snprintf(path, sizeof(path), "%s/api", agent->dir); /* nginx creates its sockets open to all users */
        if ((r = make_dir(path, 0700, err)) < 0)
                return r;
        (void)snprintf(agent->api, sizeof(agent->api), "unix:%s/api/api.sock", agent->dir);
        (void)snprintf(path, sizeof(path), "%s/lock", agent->dir);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* held until the process ends */
        if (fd < 0)
                return err_set(err, -errno, "opening %s", path);
        if (!agent->options->is_check && flock(fd, LOCK_EX | LOCK_NB) < 0)
                return err_say(err, -EBUSY,
                               "another 'sublet route' runs in %s: stop it, or choose another directory with --dir",
                               agent->dir);
        return 0;
}

static int open_signals(struct agent *agent, struct err *err)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGHUP);
        (void)sigaddset(&set, SIGCHLD);
        (void)signal(SIGPIPE, SIG_IGN);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
            (agent->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
                return err_set(err, -errno, "receiving signals");
        return 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

static void reap_children(struct agent *agent)
{
        pid_t pid;
        int status;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
                if (pid == agent->nginx)
                        process_ended(agent, status);
                else if (pid == agent->tester)
                        end_test(agent, status);
                else
                        sleep_reaped(agent, pid, status);
        }
}

static void handle_end_signal(struct agent *agent)
{
        agent_log(agent, agent->is_ending ? "ending now" :
                                            "ending when the requests in flight have ended; a second signal ends now");
        process_end(agent, agent->is_ending);
        agent->is_ending = true;
}

static void read_signals(struct agent *agent)
{
        struct signalfd_siginfo info;

        while (read(agent->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                if (info.ssi_signo == SIGCHLD)
                        reap_children(agent);
                else if (info.ssi_signo == SIGHUP)
                        reread(agent);
                else
                        handle_end_signal(agent);
        }
}

static void tick_all(struct agent *agent)
{
        agent->now = clock_now();
        agent->next = agent->now + NSEC_PER_SEC;
        process_tick(agent);
        if (agent->is_ending)
                return;
        watch_file(agent);
        kube_tick(agent);
        names_tick(agent);
        tenants_tick(agent);
        health_tick(agent);
        sleep_tick(agent);
        sync_tick(agent);
}

static int run_loop(struct agent *agent, struct err *err)
{
        int r;

        while (!agent->is_ending || agent->nginx) {
                tick_all(agent);
                r = http_pool_wait(agent->http, agent->signals, agent->next);
                if (r < 0)
                        return err_set(err, r, "waiting");
                agent->now = clock_now();
                read_signals(agent);
        }
        return 0;
}

static int set_up(struct agent *agent, struct err *err)
{
        int r;

        agent->serial = -1;
        if (agent->options->config)
                stamp(agent->options->config, agent->file_stamp);
        if ((r = read_settings(agent, &agent->settings, err)) < 0 || (r = find_module(agent, err)) < 0 ||
            (r = make_dirs(agent, err)) < 0 || (r = open_signals(agent, err)) < 0)
                return r;
        if ((r = http_pool_new(&agent->http)) < 0)
                return err_set(err, r, "starting");
        agent->now = clock_now();
        return 0;
}

static void tear_down(struct agent *agent)
{
        kube_done(agent);
        while (agent->fleet.n)
                agent_forget(agent, agent->fleet.at[0]);
        agent->http = http_pool_free(agent->http);
        if (agent->signals >= 0)
                (void)close(agent->signals);
        free(agent->settings);
        free(agent->fresh);
        free(agent->fresh_conf);
        free(agent->conf);
        free(agent);
}

int agent_run(const struct agent_options *options, struct err *err)
{
        struct agent *agent = calloc(1, sizeof(*agent));
        int r;

        if (!agent)
                return err_set(err, -ENOMEM, "starting");
        agent->options = options;
        agent->signals = -1;
        r = set_up(agent, err);
        if (r == 0) {
                list_file(agent);
                tenants_set(agent);
                r = kube_set(agent, err);
        }
        if (r == 0)
                r = process_start(agent, err);
        if (r == 0 && !options->is_check)
                r = run_loop(agent, err);
        tear_down(agent);
        return r;
}
