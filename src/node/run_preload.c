/*
 * `sublet run --preload`: the command with libsublet.so inside (hook/inside.h) instead of a supervisor outside.
 *
 * What the library is to know goes with the command as two sealed files at fixed descriptor numbers: the page, and
 * the region that all its processes share. Afterwards the region says what was used.
 */
#include "node/run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "hook/page.h"
#include "hook/region.h"
#include "node/spawn.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum {
        EXIT_CANNOT = 126,
        EXIT_NOT_FOUND = 127,
};

static int find_library(char ret[static PATH_MAX], struct err *err)
{
        static const char *const places[] = { "hook", "../lib/sublet" };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        self[n < 0 ? 0 : n] = '\0';
        *strrchr(n > 0 ? self : strcpy(self, "/"), '/') = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (snprintf(ret, PATH_MAX, "%s/%s/libsublet.so", self, places[i]) < PATH_MAX && access(ret, R_OK) == 0)
                        return 0;
        return err_say(err, -ENOENT, "libsublet.so is not beside %s, where it was installed", self);
}

/* First: what else is preloaded, the simulator say, is to be called by us. */
static int put_first(const char *library, struct err *err)
{
        const char *others = getenv("LD_PRELOAD");
        char list[2 * PATH_MAX];

        if (snprintf(list, sizeof(list), "%s%s%s", library, others ? ":" : "", others ? others : "") >=
                    (int)sizeof(list) ||
            setenv("LD_PRELOAD", list, 1) < 0)
                return err_set(err, -E2BIG, "putting libsublet.so into LD_PRELOAD");
        return 0;
}

static int make_page(const struct run *run, int *ret_fd, struct err *err)
{
        static struct page page; /* large */
        struct stat st;
        int r;

        page = (struct page){ .lease = run->lease, .layout = run->backend.layout };
        page.is_sim = !strcmp(run->backend.name, "sim");
        if (!page.is_sim && stat("/dev/nvidia-uvm", &st) == 0)
                page.uvm_major = major(st.st_rdev);
        r = page_new(&page, ret_fd);
        return r < 0 ? err_set(err, r, "writing the lease for libsublet.so") : 0;
}

/* In the child; never returns. */
static void become_tenant(const struct run *run, int page, int region)
{
        sigset_t none;
        int r;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(page, PAGE_FD) < 0 || dup2(region, PAGE_REGION_FD) < 0) {
                (void)dprintf(STDERR_FILENO, "sublet: descriptor %d: %s (the limit of open files is below it)\n",
                              PAGE_FD, strerror(errno));
                _exit(EXIT_CANNOT);
        }
        (void)execvp(run->argv[0], run->argv);
        r = errno;
        (void)dprintf(STDERR_FILENO, "sublet: %s: %s\n", run->argv[0], r == ENOENT ? "command not found" : strerror(r));
        _exit(r == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT);
}

static void read_quota(const struct region *region, unsigned int kind, struct quota *quota)
{
        quota->used = region_held(region, kind);
        quota->peak = region->peak[kind];
        quota->n_refused = region->n_refused[kind];
        quota->largest_refused = region->largest_refused[kind];
}

/* What the processes left in the books, now that they are gone: nothing, or it is said. */
static void read_books(struct run *run, int region)
{
        struct region_seat seat;

        if (region_join(region, &seat) != REGION_OK) {
                (void)fprintf(stderr, "sublet: %s: the books were damaged\n", run->lease.tenant);
                return;
        }
        region_settle(&seat);
        for (unsigned int i = 0; i < run->lease.n_devices && i < REGION_DEVICES; i++)
                read_quota(seat.region, i, &run->lease.devices[i].quota);
        read_quota(seat.region, REGION_HOST, &run->lease.host);
        region_leave(&seat);
}

static int start(struct run *run, int page, int region, struct err *err)
{
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return err_set(err, -errno, "becoming the reaper of the tenant");
        run->child = fork();
        if (run->child < 0)
                return err_set(err, -errno, "starting %s", run->argv[0]);
        if (run->child == 0)
                become_tenant(run, page, region);
        return 0;
}

int run_preloaded(struct run *run, struct err *err)
{
        _cleanup_(closep) int signals = run_watch_signals();
        _cleanup_(closep) int page = -1;
        _cleanup_(closep) int region = -1;
        char library[PATH_MAX];
        nsec begin = clock_now();
        int code = 0, r;

        if (signals < 0)
                return err_set(err, signals, "watching signals");
        if ((r = find_library(library, err)) < 0 || (r = put_first(library, err)) < 0 ||
            (r = make_page(run, &page, err)) < 0)
                return r;
        r = region_new(&region);
        if (r < 0)
                return err_set(err, r, "making the tenant's books");
        r = start(run, page, region, err);
        if (r < 0)
                return r;
        while (!run_take_signal(signals, run->child, &code))
                ;
        spawn_end_all();
        read_books(run, region);
        run_print_books(run, code, clock_now() - begin);
        return code;
}
