/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet lease DIR`: a lease as a directory (wire/lease_directory.h), for a container with libsublet.so inside. It is
 * mounted into the container; the lease lasts as long as the directory.
 */
#include "run/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "wire/lease_directory.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        EXIT_LEASE_FAILED = 1,
};

static const char usage[] =
        "usage: sublet lease [OPTION...] DIR\n"
        "       sublet lease --end DIR\n"
        "Makes a lease as a directory, for a container whose programs enforce their quota by libsublet.so inside. "
        "Prints what\n"
        "to mount. The lease lasts as long as the directory.\n"
        "\n"
        "\f\n"
        "DIR must not exist yet and must be on a tmpfs. The exit code is 0; 2 for bad usage; 1 if it failed.\n";

struct lease_verb {
        struct run run; /* the request, without a command */
        const char *dir;
        char whole[PATH_MAX]; /* of a relative dir */
        bool is_end, is_json, needs_daemon;
};

/* 0; 1: help was printed; -EINVAL. */
static int lease_parse(struct lease_verb *verb, int argc, char **argv, struct err *err)
{
        struct run *run = &verb->run;
        const struct flag flags[] = {
                RUN_FLAGS(run),
                { "name", 0, flag_text, &run->tenant, "NAME", "the tenant's name (default: the directory's)", NULL },
                { "attach", 0, flag_word, &run->attach, "=auto|never|required",
                  "the programs hand themselves over to the daemon's gate", NULL },
                { "sms", 0, run_read_sms, run, "PERCENT%|COUNT", "multiprocessors to compute on", NULL },
                { "daemon", 0, flag_is, &verb->needs_daemon, NULL, "fail if no daemon is running", NULL },
                { "no-daemon", 0, flag_is, &run->is_alone, NULL,
                  "without the daemon's admission, listing and accounting", NULL },
                { "json", 0, flag_is, &verb->is_json, NULL, "print the mounts as JSON", NULL },
                { "end", 0, flag_is, &verb->is_end, NULL, "remove the directory", NULL },
        };
        int operand = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, false, err);

        if (operand <= 0)
                return operand < 0 ? operand : 1;
        if (operand + 1 != argc || !*argv[operand])
                return err_say(err, -EINVAL, "name one directory ('sublet lease --help')");
        verb->dir = argv[operand];
        run_fill_in(run, verb->dir);
        return grant_check(&run->grant, err);
}

static int mounts_print_json(const char *dir, const struct lease *lease)
{
        json_t *body = json_pack("{s:s, s:s, s:[{s:s, s:s, s:b}, {s:s+, s:s, s:b}, {s:s+, s:s, s:b}]}", "tenant",
                                 lease->tenant, "dir", dir, "mounts", "source", dir, "target",
                                 LEASE_DESCRIPTOR_MOUNT_DIR, "read_only", 1, "source", dir, "/region", "target",
                                 LEASE_DESCRIPTOR_MOUNT_DIR "/region", "read_only", 0, "source", dir, "/ld.so.preload",
                                 "target", "/etc/ld.so.preload", "read_only", 1);
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        if (!text)
                return -ENOMEM;
        return puts(text) < 0 ? -EIO : 0;
}

static int mounts_print(const struct lease_verb *verb, const char *dir)
{
        if (verb->is_json)
                return mounts_print_json(dir, &verb->run.lease);
        return printf("-v %s:%s:ro -v %s/region:%s/region -v %s/ld.so.preload:/etc/ld.so.preload:ro\n", dir,
                      LEASE_DESCRIPTOR_MOUNT_DIR, dir, LEASE_DESCRIPTOR_MOUNT_DIR, dir) < 0 ?
                       -EIO :
                       0;
}

/* The daemon makes the directory itself: the lease is its own, and outlives this process. */
static int lease_make_by_daemon(struct lease_verb *verb, struct err *err)
{
        struct run *run = &verb->run;
        _cleanup_(run_talk_done) struct run_talk talk = { .run = run, .socket = -1, .descriptor = -1, .segment = -1 };
        char *argv[] = { (char *)(uintptr_t)run->tenant, NULL };

        if (*verb->dir != '/') {
                _cleanup_(freep) char *here = getcwd(NULL, 0);

                if (!here || snprintf(verb->whole, PATH_MAX, "%s/%s", here, verb->dir) >= PATH_MAX)
                        return err_set(err, -ENAMETOOLONG, "looking for %s", verb->dir);
                verb->dir = verb->whole;
        }
        run->directory = verb->dir;
        run->is_preload = true;
        run->argv = argv;
        return run_ask(&talk, err);
}

static int lease_make_alone(struct lease_verb *verb, struct err *err)
{
        static struct lease_descriptor descriptor; /* large */
        int r;

        if ((r = gpu_backend_find(&verb->run.backend, err)) < 0 || (r = run_prepare_lease(&verb->run, err)) < 0)
                return r;
        r = run_check_sms(&verb->run, err);
        if (r < 0)
                return r;
        lease_directory_describe(&verb->run.backend, &verb->run.lease, &descriptor);
        descriptor.sms = verb->run.sms;
        return lease_directory_make(verb->dir, &descriptor, err);
}

static int lease_make(struct lease_verb *verb, struct err *err)
{
        _cleanup_(freep) char *whole = NULL;
        bool has_daemon = false;
        int r = lease_directory_check(verb->dir, err); /* first, or a daemon might keep a tenant without a directory */

        if (r == 0)
                r = run_has_daemon(&verb->run, &has_daemon, err);
        if (r == 0 && !has_daemon && verb->needs_daemon)
                r = err_say(err, -ENOENT, "--daemon: none is running; start it with 'sublet daemon'");
        if (r == 0)
                r = has_daemon ? lease_make_by_daemon(verb, err) : lease_make_alone(verb, err);
        if (r < 0)
                return r;
        whole = realpath(verb->dir, NULL);
        r = whole ? mounts_print(verb, whole) : -errno;
        return r < 0 ? err_set(err, r, "printing what to mount") : 0;
}

int lease_main(int argc, char **argv)
{
        static struct lease_verb verb; /* large */
        struct err err = { 0 };
        int r = lease_parse(&verb, argc, argv, &err);

        if (r == 1)
                return 0;
        if (r == 0)
                r = verb.is_end ? lease_directory_remove(verb.dir, &err) : lease_make(&verb, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        return r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_LEASE_FAILED : 0;
}
