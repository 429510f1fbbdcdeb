/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nginx as a child of the agent. It outlives the agent: if the agent is killed, requests go on, and the next agent of
 * the same directory adopts the nginx it finds. nginx is never started with a configuration that `nginx -t` refuses.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "route/agent/nginx_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
        STEADY_SECONDS = 10, /* an nginx that ran this long is started again without delay */
        LOG_SECONDS = 5,
        LOGS = 4,          /* rotated ones */
        TEST_SECONDS = 60, /* nginx may read large files of keys; it asks no name server */
        FILES_MAX = 65536,
};

#define FRESH "nginx.conf.new"

enum {
        PATH = SETTINGS_PATH + 32,
};

int process_spawn(char *const argv[], char *const env[], pid_t *ret)
{
        posix_spawnattr_t attributes;
        sigset_t none;
        int r;

        (void)sigemptyset(&none);
        if (posix_spawnattr_init(&attributes) != 0)
                return -ENOMEM;
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        (void)posix_spawnattr_setsigmask(&attributes, &none); /* ours are blocked */
        r = posix_spawn(ret, argv[0], NULL, &attributes, argv, env);
        (void)posix_spawnattr_destroy(&attributes);
        return -r;
}

static int spawn_nginx(const struct agent *agent, const char *conf, bool is_test, pid_t *ret)
{
        char program[] = NGINX, p[] = "-p", c[] = "-c", e[] = "-e", t[] = "-t", q[] = "-q", log[SETTINGS_PATH + 16];
        char stderr_[] = "stderr";
        char *argv[] = { program,
                         p,
                         (char *)(uintptr_t)agent->dir,
                         c,
                         (char *)(uintptr_t)conf,
                         e,
                         is_test ? stderr_ : log,
                         is_test ? t : NULL,
                         q,
                         NULL };

        (void)snprintf(log, sizeof(log), "%s/error.log", agent->dir);
        return process_spawn(argv, environ, ret);
}

/* ---- the configuration --------------------------------------------------------------------------------------- */

static unsigned int most_files(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > FILES_MAX)
                return FILES_MAX;
        return (unsigned int)limit.rlim_max;
}

static char *make_conf(const struct agent *agent, const struct settings *settings)
{
        struct nginx_environment environment = { agent->dir, agent->module, geteuid() == 0, most_files() };
        char *text = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return NULL;
        nginx_conf_write(to, settings, &environment);
        if (fclose(to) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

static int write_file(const char *path, const char *text, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        size_t size = strlen(text);

        if (fd < 0)
                return err_set(err, -errno, "writing %s", path);
        if (write(fd, text, size) != (ssize_t)size)
                return err_say(err, -EIO, "writing %s: not all of it was written", path);
        return 0;
}

static const char *path_in(const struct agent *agent, const char *name, char ret[static PATH])
{
        (void)snprintf(ret, PATH, "%s/%s", agent->dir, name);
        return ret;
}

/* Writes a configuration where nginx does not look, and starts the nginx that tests it. */
static int start_test(const struct agent *agent, const char *text, pid_t *ret, struct err *err)
{
        char path[PATH];
        int r = write_file(path_in(agent, FRESH, path), text, err);

        if (r == 0 && (r = spawn_nginx(agent, path, true, ret)) < 0)
                return err_set(err, r, "starting %s (install nginx)", NGINX);
        return r;
}

static int end_test(const struct agent *agent, int status, struct err *err)
{
        char fresh[PATH], path[PATH];

        (void)path_in(agent, FRESH, fresh);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return err_say(err, -EINVAL, "nginx refuses the configuration, for the reason above (%s)", fresh);
        if (agent->options->is_check || rename(fresh, path_in(agent, "nginx.conf", path)) == 0)
                return 0;
        return err_set(err, -errno, "writing %s", path);
}

/* At the start there is nothing to do but to wait for it. */
static int install_conf(struct agent *agent, struct err *err)
{
        _cleanup_(freep) char *text = make_conf(agent, agent->settings);
        int status = 0, r;
        pid_t pid;

        if (!text)
                return err_set(err, -ENOMEM, "writing nginx's configuration");
        if ((r = start_test(agent, text, &pid, err)) < 0)
                return r;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if ((r = end_test(agent, status, err)) == 0)
                agent->conf = TAKE(text);
        return r;
}

/* ---- one that runs already ----------------------------------------------------------------------------------- */

/* Whether the process was started with our configuration file. */
static bool is_ours(const struct agent *agent, pid_t pid)
{
        char path[64], line[1024] = "", conf[SETTINGS_PATH + 32];
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
        (void)snprintf(conf, sizeof(conf), "%s/nginx.conf", agent->dir);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
        return n > 0 && memmem(line, (size_t)n, conf, strlen(conf)) != NULL;
}

static pid_t find_running(const struct agent *agent)
{
        char path[SETTINGS_PATH + 32], text[32] = "";
        _cleanup_(closep) int fd = -1;
        uint64_t pid = 0;

        (void)snprintf(path, sizeof(path), "%s/nginx.pid", agent->dir);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                return 0;
        text[strcspn(text, "\n")] = '\0';
        if (number_parse(text, &pid) < 0 || pid < 2 || pid > INT32_MAX || !is_ours(agent, (pid_t)pid))
                return 0;
        return (pid_t)pid;
}

/* Sockets that a killed nginx left would keep the next one from listening. */
static void unlink_sockets(const struct agent *agent)
{
        const struct settings_list *lists[] = { &agent->settings->listen, &agent->settings->tls_listen,
                                                &agent->settings->metrics };

        (void)unlink(agent->api + strlen("unix:"));
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                for (size_t j = 0; j < lists[i]->n; j++)
                        if (!strncmp(lists[i]->at[j], "unix:", 5))
                                (void)unlink(lists[i]->at[j] + 5);
}

/* A worker that exits would wait for our long poll. */
static void stop_asking(struct agent *agent)
{
        http_pool_cancel(agent->http, agent->state);
        agent->state = NULL;
        agent->state_at = agent->now + NSEC_PER_SEC / 10;
}

static int nginx_start(struct agent *agent, struct err *err)
{
        char path[SETTINGS_PATH + 32];
        int r;

        unlink_sockets(agent);
        (void)snprintf(path, sizeof(path), "%s/nginx.conf", agent->dir);
        r = spawn_nginx(agent, path, false, &agent->nginx);
        if (r < 0)
                return err_set(err, r, "starting %s", NGINX);
        agent->is_adopted = false;
        agent->started_at = agent->now;
        agent->has_state = false;
        agent->state_at = agent->now;
        return 0;
}

int process_start(struct agent *agent, struct err *err)
{
        int r = ports_permitted(agent->settings, err);

        if (r < 0 || (r = install_conf(agent, err)) < 0)
                return r;
        agent->nginx = find_running(agent);
        if (agent->options->is_check)
                return agent->nginx ? 0 : ports_check(agent->settings, err); /* its own are no reason against a file */
        if (!agent->nginx) {
                /* Nobody waits for a port that another program has. One of our own orphans is about to close it. */
                if (!orphans_quit(agent) && (r = ports_check(agent->settings, err)) < 0)
                        return r;
                return nginx_start(agent, err);
        }
        agent->is_adopted = true;
        agent->started_at = agent->now;
        agent_log(agent, "nginx runs already (process %d) and is adopted", (int)agent->nginx);
        (void)kill(agent->nginx, SIGHUP);
        return 0;
}

int process_test(struct agent *agent, const struct settings *settings, struct err *err)
{
        _cleanup_(freep) char *text = make_conf(agent, settings);
        int r;

        if (!text)
                return err_set(err, -ENOMEM, "writing nginx's configuration");
        if (!strcmp(agent->conf, text))
                return PROCESS_SAME;
        if ((r = start_test(agent, text, &agent->tester, err)) < 0)
                return r;
        agent->test_by = agent->now + TEST_SECONDS * NSEC_PER_SEC;
        agent->fresh_conf = TAKE(text);
        return PROCESS_TESTING;
}

int process_tested(struct agent *agent, int status, struct err *err)
{
        _cleanup_(freep) char *text = TAKE(agent->fresh_conf);
        int r = end_test(agent, status, err);

        agent->tester = 0;
        if (r < 0)
                return r;
        free(agent->conf);
        agent->conf = TAKE(text);
        agent_log(agent, "nginx is reloaded");
        stop_asking(agent);
        if (agent->nginx)
                (void)kill(agent->nginx, SIGHUP);
        return 0;
}

void process_ended(struct agent *agent, int status)
{
        struct err err = { 0 };
        nsec pause = NSEC_PER_SEC / 10 << (agent->n_starts < 6 ? agent->n_starts : 6);

        if (agent->nginx > 1) /* a killed master leaves workers that hold the ports; they finish their requests */
                (void)kill(-agent->nginx, SIGQUIT);
        agent->nginx = 0;
        agent->has_state = false;
        stop_asking(agent);
        if (agent->is_ending)
                return;
        if (agent->now - agent->started_at > STEADY_SECONDS * NSEC_PER_SEC)
                agent->n_starts = 0;
        agent->n_starts++;
        agent->start_at = agent->now + pause;
        agent_log(agent, "nginx ended (%s %d) and is started again", WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && ports_check(agent->settings, &err) < 0)
                agent_log(agent, "%s", err.text);
}

void process_end(struct agent *agent, bool is_now)
{
        stop_asking(agent);
        if (agent->nginx)
                (void)kill(agent->nginx, is_now ? SIGTERM : SIGQUIT);
}

/* ---- periodically -------------------------------------------------------------------------------------------- */

static void rotate_log(struct agent *agent)
{
        char log[SETTINGS_PATH + 32], from[SETTINGS_PATH + 48], to[SETTINGS_PATH + 48];
        struct stat st;

        if (!strcmp(agent->settings->log, "off") || !agent->nginx)
                return;
        if (*agent->settings->log)
                (void)snprintf(log, sizeof(log), "%s", agent->settings->log);
        else
                (void)snprintf(log, sizeof(log), "%s/requests.log", agent->dir);
        if (stat(log, &st) < 0 || (bytes)st.st_size < agent->settings->log_size)
                return;
        for (int i = LOGS - 1; i >= 1; i--) {
                (void)snprintf(from, sizeof(from), "%s.%d", log, i);
                (void)snprintf(to, sizeof(to), "%s.%d", log, i + 1);
                (void)rename(from, to);
        }
        (void)snprintf(to, sizeof(to), "%s.1", log);
        if (rename(log, to) == 0)
                (void)kill(agent->nginx, SIGUSR1);
}

void process_tick(struct agent *agent)
{
        struct err err = { 0 };

        if (agent->is_adopted && agent->nginx && !is_ours(agent, agent->nginx))
                process_ended(agent, 0); /* not a child: there is no SIGCHLD */
        if (!agent->nginx && !agent->is_ending) {
                if (agent->now < agent->start_at)
                        agent_due(agent, agent->start_at);
                else if (nginx_start(agent, &err) < 0) {
                        agent_log(agent, "%s", err.text);
                        agent->start_at = agent->now + NSEC_PER_SEC;
                }
        }
        if (agent->tester && agent_is_due(agent, agent->test_by))
                (void)kill(agent->tester, SIGKILL);
        if (agent->now >= agent->log_at) {
                agent->log_at = agent->now + LOG_SECONDS * NSEC_PER_SEC;
                rotate_log(agent);
        }
}
