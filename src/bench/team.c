/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/team.h"

#include "ask/field.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define READY_MOST (60 * NSEC_PER_SEC) /* a context on a busy machine */
#define END_MOST (30 * NSEC_PER_SEC)   /* beyond the measured span */

static char self[] = "/proc/self/exe"; /* also right in a child, until it executes something else */

static void pause_ms(unsigned int ms)
{
        (void)usleep(ms * 1000);
}

static void path_of(const struct team *team, const char *name, const char *end, char ret[static TEAM_PATH])
{
        (void)snprintf(ret, TEAM_PATH, "%s/%s%s", team->dir, name, end);
}

int team_open(struct team *team, nsec span, struct err *err)
{
        *team = (struct team){ .span = span, .dir = "/tmp/sublet-bench-XXXXXX" };
        return mkdtemp(team->dir) ? 0 : err_set(err, -errno, "making %s", team->dir);
}

/* ---- children ------------------------------------------------------------------------------------ */

/* In the child: redirects its output into files of the team's directory and executes it. */
static void become(const struct team *team, char *const words[], const char *name)
{
        char out[TEAM_PATH], said[TEAM_PATH];
        int to, log, from = open("/dev/null", O_RDONLY);

        path_of(team, name, ".out", out);
        path_of(team, name, ".err", said);
        to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        log = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* so that the first device is the daemon's first */
        if (from < 0 || to < 0 || log < 0 || dup2(from, 0) < 0 || dup2(to, 1) < 0 || dup2(log, 2) < 0)
                _exit(127);
        (void)execv(self, words);
        _exit(127);
}

/* words: the command line of `sublet`, without that word. */
static int member_start(const struct team *team, const char *words, const char *name, pid_t *ret, struct err *err)
{
        _cleanup_(freep) char *copy = strdup(words);
        char *argv[TEAM_WORDS + 2], *rest = copy, *word;
        size_t n = 0;
        pid_t pid;

        argv[n++] = self;
        while (copy && (word = strsep(&rest, " ")) && n <= TEAM_WORDS)
                if (*word)
                        argv[n++] = word;
        argv[n] = NULL;
        pid = copy ? fork() : -1;
        if (pid < 0)
                return err_set(err, -errno, "starting %s", name);
        if (pid == 0)
                become(team, argv, name);
        *ret = pid;
        return 0;
}

/* The last line of a child on stderr: why it failed. */
static void last_words(const struct team *team, const char *name, char ret[static 256])
{
        char path[TEAM_PATH], line[256];
        FILE *file;

        (void)snprintf(ret, 256, "it ended without a word");
        path_of(team, name, ".err", path);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file)) {
                line[strcspn(line, "\n")] = '\0';
                if (line[0])
                        memcpy(ret, line, sizeof(line));
        }
        if (file)
                (void)fclose(file);
        if (!strncmp(ret, "sublet: ", 8))
                memmove(ret, ret + 8, strlen(ret) - 7);
}

/* Its exit code once it has ended, else -1. */
static int poll_end(pid_t *pid)
{
        int status;

        if (!*pid || waitpid(*pid, &status, WNOHANG) != *pid)
                return -1;
        *pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void process_end(pid_t *pid)
{
        for (int i = 0; *pid; i++) {
                (void)kill(*pid, i < 200 ? SIGTERM : SIGKILL);
                (void)poll_end(pid);
                if (*pid)
                        pause_ms(25);
        }
}

static int take_words(const struct team *team, const char *name, int code, json_t **ret, struct err *err)
{
        char path[TEAM_PATH], why[256];

        path_of(team, name, ".out", path);
        *ret = code == 0 ? json_load_file(path, 0, NULL) : NULL;
        if (*ret)
                return 0;
        last_words(team, name, why);
        return err_say(err, -EIO, "%s", why);
}

int team_ask(struct team *team, const char *words, json_t **ret, struct err *err)
{
        nsec limit = clock_now() + READY_MOST + END_MOST;
        int r, code;
        pid_t pid;

        r = member_start(team, words, "ask", &pid, err);
        if (r < 0)
                return r;
        while ((code = poll_end(&pid)) < 0 && clock_now() < limit)
                pause_ms(5);
        process_end(&pid);
        return take_words(team, "ask", code, ret, err);
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

/* Whether the daemon answers yet. */
static bool answers(struct team *team)
{
        char words[256];
        json_t *said = NULL;
        int r;

        (void)snprintf(words, sizeof(words), "ps --json --dir %s/node", team->dir);
        r = team_ask(team, words, &said, NULL);
        json_decref(said);
        return r == 0;
}

int team_daemon(struct team *team, const char *policy, struct err *err)
{
        nsec limit = clock_now() + READY_MOST;
        char words[256], why[256];
        int r;

        if (!strcmp(team->policy, policy))
                return 0;
        team_begin(team);
        process_end(&team->daemon);
        team->policy[0] = '\0';
        if (!*policy)
                return 0;
        (void)snprintf(words, sizeof(words), "daemon --dir %s/node --policy %s", team->dir, policy);
        r = member_start(team, words, "daemon", &team->daemon, err);
        if (r < 0)
                return r;
        while (!answers(team)) {
                if (poll_end(&team->daemon) >= 0 || clock_now() > limit) {
                        last_words(team, "daemon", why);
                        return err_say(err, -EIO, "the daemon: %s", why);
                }
                pause_ms(20);
        }
        (void)snprintf(team->policy, sizeof(team->policy), "%s", policy);
        return 0;
}

/* ---- a measurement --------------------------------------------------------------------------------- */

/* A tenant outlives its command until its shim has closed the account. The next tenant must have the device alone. */
static void wait_for_quiet(struct team *team)
{
        nsec limit = clock_now() + END_MOST;
        size_t n_left = team->policy[0] ? 1 : 0;
        char words[256];
        json_t *said;

        (void)snprintf(words, sizeof(words), "ps --json --dir %s/node", team->dir);
        while (n_left && clock_now() < limit) {
                if (team_ask(team, words, &said, NULL) < 0)
                        return;
                n_left = json_array_size(said);
                json_decref(said);
                if (n_left)
                        pause_ms(20);
        }
}

void team_begin(struct team *team)
{
        char path[TEAM_PATH];
        bool had_tenants = false;

        for (size_t i = 0; i < team->n; i++) {
                had_tenants |= team->members[i].is_tenant;
                process_end(&team->members[i].pid);
                json_decref(team->members[i].said);
                team->members[i].said = NULL;
                path_of(team, team->members[i].name, ".ready", path);
                (void)unlink(path);
        }
        team->n = 0;
        path_of(team, "go", "", path);
        (void)unlink(path);
        if (had_tenants)
                wait_for_quiet(team);
}

int team_add(struct team *team, const char *run, const char *burn, struct err *err)
{
        struct team_member *member = &team->members[team->n];
        char words[1024], before[512] = "";

        *member = (struct team_member){ .is_tenant = run };
        (void)snprintf(member->name, sizeof(member->name), "bench-%zu", team->n + 1);
        if (run)
                (void)snprintf(before, sizeof(before), "run --dir %s/node --name %s %s -- %s ", team->dir, member->name,
                               run, self);
        (void)snprintf(words, sizeof(words), "%sburn --barrier %s --name %s --for %lldms --rounds %u %s", before,
                       team->dir, member->name, (long long)(team->span / NSEC_PER_MSEC), team->rounds, burn);
        team->n++;
        return member_start(team, words, member->name, &member->pid, err);
}

static int is_ready(struct team *team, struct team_member *member, struct err *err)
{
        char path[TEAM_PATH], why[256];

        path_of(team, member->name, ".ready", path);
        if (access(path, F_OK) == 0)
                return 1;
        if (poll_end(&member->pid) < 0)
                return 0;
        last_words(team, member->name, why);
        return err_say(err, -EIO, "%s", why);
}

int team_ready(struct team *team, struct err *err)
{
        nsec limit = clock_now() + READY_MOST;

        for (size_t i = 0; i < team->n; i++) {
                int r;

                while ((r = is_ready(team, &team->members[i], err)) == 0 && clock_now() < limit)
                        pause_ms(2);
                if (r <= 0)
                        return r < 0 ? r : err_say(err, -ETIMEDOUT, "a load was not ready in time");
        }
        return 0;
}

static int let_go(struct team *team, struct err *err)
{
        char path[TEAM_PATH], other[TEAM_PATH];
        FILE *file;

        path_of(team, "go.new", "", other);
        path_of(team, "go", "", path);
        file = fopen(other, "we");
        if (!file)
                return err_set(err, -errno, "%s", other);
        (void)fprintf(file, "%lld\n", (long long)(clock_now() + 50 * NSEC_PER_MSEC));
        if (fclose(file) || rename(other, path) < 0)
                return err_set(err, -errno, "%s", path);
        return 0;
}

int team_gather(struct team *team, struct err *err)
{
        nsec limit;
        int r;

        if ((r = team_ready(team, err)) < 0 || (r = let_go(team, err)) < 0)
                return r;
        limit = clock_now() + team->span + END_MOST;
        for (size_t i = 0; i < team->n; i++) {
                struct team_member *member = &team->members[i];
                int code;

                while ((code = poll_end(&member->pid)) < 0 && clock_now() < limit)
                        pause_ms(5);
                process_end(&member->pid);
                if ((r = take_words(team, member->name, code, &member->said, err)) < 0)
                        return r;
        }
        return 0;
}

double team_figure(const struct team *team, size_t i, const char *name)
{
        return i < team->n ? field_real(team->members[i].said, name) : 0;
}

/* ---- the end ----------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
        (void)is;
        (void)kind;
        (void)where;
        return remove(path);
}

void team_close(struct team *team)
{
        team_begin(team);
        process_end(&team->daemon);
        if (team->dir[0])
                (void)nftw(team->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        team->dir[0] = '\0';
}
