#include "bench/crew.h"

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
#define END_MOST (30 * NSEC_PER_SEC)   /* beyond what was to be measured */

static char self[] = "/proc/self/exe"; /* also in a child, until it becomes something else */

static void pause_ms(unsigned int ms)
{
        (void)usleep(ms * 1000);
}

static void path_of(const struct crew *crew, const char *name, const char *end, char ret[static CREW_PATH])
{
        (void)snprintf(ret, CREW_PATH, "%s/%s%s", crew->dir, name, end);
}

int crew_open(struct crew *crew, nsec span, struct err *err)
{
        *crew = (struct crew){ .span = span, .dir = "/tmp/sublet-bench-XXXXXX" };
        return mkdtemp(crew->dir) ? 0 : err_set(err, -errno, "making %s", crew->dir);
}

/* ---- children ------------------------------------------------------------------------------------ */

/* In the child: its output into files of the crew's directory. */
static void become(const struct crew *crew, char *const words[], const char *name)
{
        char out[CREW_PATH], said[CREW_PATH];
        int to, log, from = open("/dev/null", O_RDONLY);

        path_of(crew, name, ".out", out);
        path_of(crew, name, ".err", said);
        to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        log = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* the first is the daemon's first */
        if (from < 0 || to < 0 || log < 0 || dup2(from, 0) < 0 || dup2(to, 1) < 0 || dup2(log, 2) < 0)
                _exit(127);
        (void)execv(self, words);
        _exit(127);
}

/* words: of `sublet`, without that. */
static int start(const struct crew *crew, const char *words, const char *name, pid_t *ret, struct err *err)
{
        _cleanup_(freep) char *copy = strdup(words);
        char *argv[CREW_WORDS + 2], *rest = copy, *word;
        size_t n = 0;
        pid_t pid;

        argv[n++] = self;
        while (copy && (word = strsep(&rest, " ")) && n <= CREW_WORDS)
                if (*word)
                        argv[n++] = word;
        argv[n] = NULL;
        pid = copy ? fork() : -1;
        if (pid < 0)
                return err_set(err, -errno, "starting %s", name);
        if (pid == 0)
                become(crew, argv, name);
        *ret = pid;
        return 0;
}

/* The last line that a child said on stderr: why it failed. */
static void last_words(const struct crew *crew, const char *name, char ret[static 256])
{
        char path[CREW_PATH], line[256];
        FILE *file;

        (void)snprintf(ret, 256, "it ended without a word");
        path_of(crew, name, ".err", path);
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

static void end(pid_t *pid)
{
        for (int i = 0; *pid; i++) {
                (void)kill(*pid, i < 200 ? SIGTERM : SIGKILL);
                (void)poll_end(pid);
                if (*pid)
                        pause_ms(25);
        }
}

static int take_words(const struct crew *crew, const char *name, int code, json_t **ret, struct err *err)
{
        char path[CREW_PATH], why[256];

        path_of(crew, name, ".out", path);
        *ret = code == 0 ? json_load_file(path, 0, NULL) : NULL;
        if (*ret)
                return 0;
        last_words(crew, name, why);
        return err_say(err, -EIO, "%s", why);
}

int crew_ask(struct crew *crew, const char *words, json_t **ret, struct err *err)
{
        nsec limit = clock_now() + READY_MOST + END_MOST;
        int r, code;
        pid_t pid;

        r = start(crew, words, "ask", &pid, err);
        if (r < 0)
                return r;
        while ((code = poll_end(&pid)) < 0 && clock_now() < limit)
                pause_ms(5);
        end(&pid);
        return take_words(crew, "ask", code, ret, err);
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

/* Whether it answers; it may be about to. */
static bool answers(struct crew *crew)
{
        char words[256];
        json_t *said = NULL;
        int r;

        (void)snprintf(words, sizeof(words), "ps --json --dir %s/node", crew->dir);
        r = crew_ask(crew, words, &said, NULL);
        json_decref(said);
        return r == 0;
}

int crew_daemon(struct crew *crew, const char *policy, struct err *err)
{
        nsec limit = clock_now() + READY_MOST;
        char words[256], why[256];
        int r;

        if (!strcmp(crew->policy, policy))
                return 0;
        crew_begin(crew);
        end(&crew->daemon);
        crew->policy[0] = '\0';
        if (!*policy)
                return 0;
        (void)snprintf(words, sizeof(words), "daemon --dir %s/node --policy %s", crew->dir, policy);
        r = start(crew, words, "daemon", &crew->daemon, err);
        if (r < 0)
                return r;
        while (!answers(crew)) {
                if (poll_end(&crew->daemon) >= 0 || clock_now() > limit) {
                        last_words(crew, "daemon", why);
                        return err_say(err, -EIO, "the daemon: %s", why);
                }
                pause_ms(20);
        }
        (void)snprintf(crew->policy, sizeof(crew->policy), "%s", policy);
        return 0;
}

/* ---- a measurement --------------------------------------------------------------------------------- */

/* A tenant is not gone with its command: its shim closes the account. The next one shares the device with nobody. */
static void wait_for_quiet(struct crew *crew)
{
        nsec limit = clock_now() + END_MOST;
        size_t n_left = crew->policy[0] ? 1 : 0;
        char words[256];
        json_t *said;

        (void)snprintf(words, sizeof(words), "ps --json --dir %s/node", crew->dir);
        while (n_left && clock_now() < limit) {
                if (crew_ask(crew, words, &said, NULL) < 0)
                        return;
                n_left = json_array_size(said);
                json_decref(said);
                if (n_left)
                        pause_ms(20);
        }
}

void crew_begin(struct crew *crew)
{
        char path[CREW_PATH];
        bool had_tenants = false;

        for (size_t i = 0; i < crew->n; i++) {
                had_tenants |= crew->hands[i].is_tenant;
                end(&crew->hands[i].pid);
                json_decref(crew->hands[i].said);
                crew->hands[i].said = NULL;
                path_of(crew, crew->hands[i].name, ".ready", path);
                (void)unlink(path);
        }
        crew->n = 0;
        path_of(crew, "go", "", path);
        (void)unlink(path);
        if (had_tenants)
                wait_for_quiet(crew);
}

int crew_add(struct crew *crew, const char *run, const char *burn, struct err *err)
{
        struct crew_hand *hand = &crew->hands[crew->n];
        char words[1024], before[512] = "";

        *hand = (struct crew_hand){ .is_tenant = run };
        (void)snprintf(hand->name, sizeof(hand->name), "bench-%zu", crew->n + 1);
        if (run)
                (void)snprintf(before, sizeof(before), "run --dir %s/node --name %s %s -- %s ", crew->dir, hand->name,
                               run, self);
        (void)snprintf(words, sizeof(words), "%sburn --barrier %s --name %s --for %lldms --rounds %u %s", before,
                       crew->dir, hand->name, (long long)(crew->span / NSEC_PER_MSEC), crew->rounds, burn);
        crew->n++;
        return start(crew, words, hand->name, &hand->pid, err);
}

static int is_ready(struct crew *crew, struct crew_hand *hand, struct err *err)
{
        char path[CREW_PATH], why[256];

        path_of(crew, hand->name, ".ready", path);
        if (access(path, F_OK) == 0)
                return 1;
        if (poll_end(&hand->pid) < 0)
                return 0;
        last_words(crew, hand->name, why);
        return err_say(err, -EIO, "%s", why);
}

int crew_ready(struct crew *crew, struct err *err)
{
        nsec limit = clock_now() + READY_MOST;

        for (size_t i = 0; i < crew->n; i++) {
                int r;

                while ((r = is_ready(crew, &crew->hands[i], err)) == 0 && clock_now() < limit)
                        pause_ms(2);
                if (r <= 0)
                        return r < 0 ? r : err_say(err, -ETIMEDOUT, "a load was not ready in time");
        }
        return 0;
}

static int let_go(struct crew *crew, struct err *err)
{
        char path[CREW_PATH], other[CREW_PATH];
        FILE *file;

        path_of(crew, "go.new", "", other);
        path_of(crew, "go", "", path);
        file = fopen(other, "we");
        if (!file)
                return err_set(err, -errno, "%s", other);
        (void)fprintf(file, "%lld\n", (long long)(clock_now() + 50 * NSEC_PER_MSEC));
        if (fclose(file) || rename(other, path) < 0)
                return err_set(err, -errno, "%s", path);
        return 0;
}

int crew_gather(struct crew *crew, struct err *err)
{
        nsec limit;
        int r;

        if ((r = crew_ready(crew, err)) < 0 || (r = let_go(crew, err)) < 0)
                return r;
        limit = clock_now() + crew->span + END_MOST;
        for (size_t i = 0; i < crew->n; i++) {
                struct crew_hand *hand = &crew->hands[i];
                int code;

                while ((code = poll_end(&hand->pid)) < 0 && clock_now() < limit)
                        pause_ms(5);
                end(&hand->pid);
                if ((r = take_words(crew, hand->name, code, &hand->said, err)) < 0)
                        return r;
        }
        return 0;
}

double crew_said(const struct crew *crew, size_t i, const char *name)
{
        return i < crew->n ? field_real(crew->hands[i].said, name) : 0;
}

/* ---- the end ----------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
        (void)is;
        (void)kind;
        (void)where;
        return remove(path);
}

void crew_close(struct crew *crew)
{
        crew_begin(crew);
        end(&crew->daemon);
        if (crew->dir[0])
                (void)nftw(crew->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        crew->dir[0] = '\0';
}
