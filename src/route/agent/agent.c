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
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
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
                return access(given, R_OK) == 0 ? file_absolute(agent->module, sizeof(agent->module), err) :
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
                return err_set(err, -errno, "making %s (--dir DIR names another folder)", path);
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
            (agent->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0 ||
            (agent->wake = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
            epoll_ctl(agent->wake, EPOLL_CTL_ADD, agent->signals, &(struct epoll_event){ .events = EPOLLIN }) < 0)
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
                        file_tested(agent, status);
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
                        file_reread(agent);
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
        file_tick(agent);
        kube_tick(agent);
        names_tick(agent);
        tenants_tick(agent);
        health_tick(agent);
        sleep_tick(agent);
        sync_tick(agent);
        routers_tick(agent);
        traces_tick(agent);
}

static int run_loop(struct agent *agent, struct err *err)
{
        int r;

        while (!agent->is_ending || agent->nginx) {
                tick_all(agent);
                r = http_pool_wait(agent->http, agent->wake, agent->next);
                if (r < 0)
                        return err_set(err, r, "waiting");
                agent->now = clock_now();
                read_signals(agent);
                routers_hear(agent);
                traces_hear(agent);
        }
        return 0;
}

static int set_up(struct agent *agent, struct err *err)
{
        int r;

        agent->serial = -1;
        if ((r = file_begin(agent, err)) < 0 || (r = find_module(agent, err)) < 0 || (r = make_dirs(agent, err)) < 0 ||
            (r = open_signals(agent, err)) < 0)
                return r;
        if ((r = http_pool_new(&agent->http)) < 0)
                return err_set(err, r, "starting");
        agent->now = clock_now();
        return 0;
}

static void tear_down(struct agent *agent)
{
        kube_done(agent);
        routers_done(agent);
        traces_done(agent);
        while (agent->fleet.n)
                agent_forget(agent, agent->fleet.at[0]);
        agent->http = http_pool_free(agent->http);
        closep(&agent->signals);
        closep(&agent->wake);
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
        agent->signals = agent->wake = -1;
        r = set_up(agent, err);
        if (r == 0) {
                file_list(agent);
                tenants_set(agent);
                r = kube_set(agent, err);
        }
        if (r == 0)
                r = routers_set(agent, err);
        if (r == 0)
                r = traces_set(agent, err);
        if (r == 0)
                r = process_start(agent, err);
        if (r == 0 && !options->is_check)
                r = run_loop(agent, err);
        tear_down(agent);
        return r;
}
