/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet trace`: who was on the GPU when, as a file for Perfetto or chrome://tracing. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "ask/ask.h"
#include "base/flags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: sublet trace [--for TIME] [-o FILE]\n"
                            "Records who was on the GPU when, as Chrome trace JSON: open it at ui.perfetto.dev.\n"
                            "\n"
                            "\f";

struct trace {
        const char *dir, *path;
        nsec span;
        FILE *to;
        bytes size;
        int failed;  /* to write: -errno */
        bool is_new; /* the file was not there before */
};

static int on_piece(void *context, char *data, size_t size)
{
        struct trace *trace = context;

        if (fwrite(data, 1, size, trace->to) != size)
                return trace->failed = errno ? -errno : -EIO;
        trace->size += size;
        return 0;
}

static int record(struct trace *trace, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        char path[ASK_PATH] = "/v1/trace", seconds[40];
        int r;

        (void)snprintf(seconds, sizeof(seconds), "%.9g", (double)trace->span / 1e9);
        r = ask_query(path, "for", seconds);
        if (r == 0)
                r = ask_new(trace->dir, &ask, err);
        return r < 0 ? r : ask_stream(ask, path, trace->span + ASK_SECONDS * NSEC_PER_SEC, on_piece, trace, err);
}

/* Before the recording, so that no minute is recorded for a file that cannot be written: a blank, which JSON may begin
 * with, shows a full disk. */
static int file_open(struct trace *trace, struct err *err)
{
        int fd = open(trace->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        trace->is_new = fd >= 0;
        if (fd < 0 && errno == EEXIST)
                fd = open(trace->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        trace->to = fd < 0 ? NULL : fdopen(fd, "w");
        if (trace->to && fputc(' ', trace->to) != EOF && fflush(trace->to) == 0)
                return 0;
        return err_set(err, -errno, "%s", trace->path);
}

/* Without a daemon a file that is there stays as it was. */
static int daemon_check(const struct trace *trace, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        json_t *version = NULL;
        int r = ask_new(trace->dir, &ask, err);

        if (r == 0)
                r = ask_get(ask, "/v1/version", &version, err);
        json_decref(version);
        return r;
}

/* Removes a file of ours that was cut short. */
static int record_file(struct trace *trace, struct err *err)
{
        char size[BYTES_TEXT], span[WHEN_TEXT];
        int r = daemon_check(trace, err);

        if (r == 0)
                r = file_open(trace, err);
        if (r == 0)
                r = record(trace, err);
        if (trace->failed)
                (void)err_set(err, trace->failed, "%s", trace->path);
        if (trace->to && fclose(trace->to) != 0 && r == 0)
                r = err_set(err, -errno, "%s", trace->path);
        if (r < 0 && trace->is_new)
                (void)unlink(trace->path);
        if (r == 0)
                (void)printf("%s: %s of it, %s; open it at ui.perfetto.dev\n", trace->path,
                             duration_format(trace->span, span), bytes_format(trace->size, size));
        return r;
}

int trace_main(int argc, char **argv)
{
        struct trace trace = { .path = "sublet-trace.json", .span = 5 * NSEC_PER_SEC };
        const struct flag flags[] = {
                { "for", 0, flag_span, &trace.span, "TIME", "how long: 1s to 60s (default: 5s)", NULL },
                { "output", 'o', flag_text, &trace.path, "FILE", "(default: sublet-trace.json; - is standard output)",
                  NULL },
                { "dir", 0, flag_text, &trace.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
        };
        struct err err = { 0 };
        int code, r, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code);

        if (operand < 0)
                return code;
        if (trace.span < NSEC_PER_SEC || trace.span > 60 * NSEC_PER_SEC) {
                (void)fprintf(stderr, "sublet: --for: a time from 1s to 60s\n");
                return VERB_USAGE;
        }
        if (!strcmp(trace.path, "-")) {
                trace.to = stdout;
                r = record(&trace, &err);
        } else {
                r = record_file(&trace, &err);
        }
        return r < 0 ? flags_failed(&err) : VERB_DONE;
}
