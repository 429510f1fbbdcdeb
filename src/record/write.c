/* SPDX-License-Identifier: Apache-2.0 */
#include "record/record.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "lease/capabilities.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record_writer {
        int fd;
        int error; /* the first of a write; 0: none */
        struct map seen;
        struct record_row rows[RECORD_ROWS_MAX];
        size_t n_rows;
        uint64_t n_others;
};

static const char *const outcomes[] = {
        [GATE_MADE] = "made",   [GATE_ANSWERED] = "answered", [GATE_REFUSED] = "refused",
        [GATE_LACKS] = "lacks", [GATE_UNRULED] = "unruled",
};

const char *record_outcome_name(enum gate_outcome outcome)
{
        return (size_t)outcome < ARRAY_SIZE(outcomes) ? outcomes[outcome] : "?";
}

__attribute__((format(printf, 2, 3))) static void put_line(struct record_writer *writer, const char *format, ...)
{
        char line[RECORD_LINE_MAX];
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        if (!writer->error && write(writer->fd, line, (size_t)n) != n)
                writer->error = errno ? -errno : -EIO;
}

int record_writer_new(int fd, struct rm_version release, unsigned int capabilities, struct record_writer **ret)
{
        struct record_writer *writer = calloc(1, sizeof(*writer));
        char text[CAPABILITIES_TEXT_MAX];

        if (!writer || map_reserve(&writer->seen, RECORD_ROWS_MAX) < 0) {
                free(writer);
                (void)close(fd);
                return -ENOMEM;
        }
        writer->fd = fd;
        put_line(writer, "sublet record 1\n");
        if (release.patch)
                put_line(writer, "release %u.%u.%02u\n", release.branch, release.minor, release.patch);
        else
                put_line(writer, "release %u.%02u\n", release.branch, release.minor);
        put_line(writer, "capabilities %s\n", capabilities_format(capabilities, text));
        *ret = writer;
        return 0;
}

static bool is_same(const struct gate_call *a, const struct gate_call *b)
{
        return a->kind == b->kind && a->number == b->number && a->size == b->size && a->status == b->status &&
               a->error == b->error && a->outcome == b->outcome && a->needs == b->needs;
}

/* FNV-1a over the fields; 0 is a key like any other. */
static uint64_t key_of(const struct gate_call *call)
{
        const uint32_t fields[] = { call->kind,   call->number,          call->size,
                                    call->status, (uint32_t)call->error, (uint32_t)call->outcome,
                                    call->needs };
        uint64_t key = 0xcbf29ce484222325;

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                key = (key ^ fields[i]) * 0x100000001b3;
        return key;
}

static void put_call(struct record_writer *writer, size_t i)
{
        const struct gate_call *call = &writer->rows[i].call;
        char needs[CAPABILITIES_TEXT_MAX];

        put_line(writer, "call %zu %s 0x%x %u 0x%x %d %s%s%s\n", i, rm_kind_name(call->kind), call->number, call->size,
                 call->status, call->error, record_outcome_name(call->outcome), call->needs ? " " : "",
                 call->needs ? capabilities_format(call->needs, needs) : "");
}

void record_put(void *context, const struct gate_call *call)
{
        struct record_writer *writer = context;
        uint64_t key = key_of(call);
        struct record_row *row = map_get(&writer->seen, key);

        if (row && is_same(&row->call, call)) {
                row->n++;
                return;
        }
        if (row || writer->n_rows == RECORD_ROWS_MAX) {
                writer->n_others++;
                return;
        }
        row = &writer->rows[writer->n_rows];
        *row = (struct record_row){ *call, 1 };
        (void)map_put(&writer->seen, key, row); /* there is room */
        put_call(writer, writer->n_rows++);
}

int record_writer_end(struct record_writer *writer)
{
        int r;

        if (!writer)
                return 0;
        for (size_t i = 0; i < writer->n_rows; i++)
                put_line(writer, "count %zu %llu\n", i, (unsigned long long)writer->rows[i].n);
        put_line(writer, "others %llu\nend\n", (unsigned long long)writer->n_others);
        r = writer->error;
        if (close(writer->fd) < 0 && !r)
                r = -errno;
        map_done(&writer->seen);
        free(writer);
        return r;
}
