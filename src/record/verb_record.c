/* SPDX-License-Identifier: Apache-2.0 */
#include "record/record.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "lease/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file_read(const char *path, char **ret, size_t *ret_size, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_(freep) char *text = malloc(RECORD_TEXT_MAX + 1);
        size_t size = 0;
        ssize_t n = 0;

        if (fd < 0)
                return err_say(err, -errno, "--record %s: %s", path, strerror(errno));
        if (!text)
                return err_set(err, -ENOMEM, "reading %s", path);
        while (size <= RECORD_TEXT_MAX && (n = read(fd, text + size, RECORD_TEXT_MAX + 1 - size)) > 0)
                size += (size_t)n;
        if (n < 0)
                return err_say(err, -errno, "--record %s: %s", path, strerror(errno));
        if (size > RECORD_TEXT_MAX)
                return err_say(err, -EFBIG, "--record %s: too large for a record", path);
        *ret = TAKE(text);
        *ret_size = size;
        return 0;
}

/* Which rows are told: what was not made, and what the driver itself refused. */
static bool is_told(const struct gate_call *call)
{
        return call->outcome >= GATE_REFUSED || call->status || call->error;
}

static json_t *row_json(const struct record_row *row)
{
        const struct gate_call *call = &row->call;
        char meaning[RECORD_MEANING_MAX], needs[CAPABILITIES_TEXT_MAX];

        return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:i, s:s, s:s, s:I}", "what", record_what(call->kind),
                         "number", (json_int_t)call->number, "name", record_name(call->kind, call->number), "meaning",
                         record_meaning(call->kind, call->number, meaning), "size", (json_int_t)call->size, "status",
                         (json_int_t)call->status, "errno", call->error, "outcome", record_outcome_name(call->outcome),
                         "needs", call->needs ? capabilities_format(call->needs, needs) : "", "count",
                         (json_int_t)row->n);
}

static int print_json(const struct record *record)
{
        json_t *rows = json_array(), *all;
        char has[CAPABILITIES_TEXT_MAX];
        int r;

        for (size_t i = 0; i < record->n_rows; i++)
                if (is_told(&record->rows[i].call))
                        (void)json_array_append_new(rows, row_json(&record->rows[i]));
        all = json_pack("{s:s, s:s, s:b, s:I, s:I, s:o}", "release", record->release, "capabilities",
                        capabilities_format(record->capabilities, has), "whole", record->is_whole, "different_calls",
                        (json_int_t)record->n_rows, "others", (json_int_t)record->n_others, "calls", rows);
        r = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
        (void)putchar('\n');
        json_decref(all);
        return r < 0 ? VERB_REFUSED : VERB_DONE;
}

static void print_row(const struct record_row *row)
{
        const struct gate_call *call = &row->call;
        const char *name = record_name(call->kind, call->number);
        char meaning[RECORD_MEANING_MAX], needs[CAPABILITIES_TEXT_MAX];

        (void)printf("  %s 0x%x%s%s (%s): %llu times", record_what(call->kind), call->number, *name ? " " : "", name,
                     record_meaning(call->kind, call->number, meaning), (unsigned long long)row->n);
        if (call->outcome == GATE_LACKS)
                (void)printf(", needs --capabilities %s", capabilities_format(call->needs, needs));
        else if (call->outcome == GATE_MADE && call->error)
                (void)printf(", %s", strerror(call->error));
        else if (call->outcome == GATE_MADE)
                (void)printf(", status 0x%x", call->status);
        (void)printf("\n");
}

/* Returns how many there are. */
static size_t print_part(const struct record *record, const char *title, enum gate_outcome outcome)
{
        size_t n = 0;

        for (size_t i = 0; i < record->n_rows; i++) {
                if (record->rows[i].call.outcome != outcome || !is_told(&record->rows[i].call))
                        continue;
                if (!n++)
                        (void)printf("%s:\n", title);
                print_row(&record->rows[i]);
        }
        return n;
}

static int print_text(const struct record *record)
{
        char has[CAPABILITIES_TEXT_MAX];
        size_t n;

        (void)printf("driver %s, capabilities %s, %zu different calls%s\n", record->release,
                     capabilities_format(record->capabilities, has), record->n_rows,
                     record->is_whole ? "" : "; the run was killed, so nothing is counted");
        n = print_part(record, "without a rule", GATE_UNRULED);
        n += print_part(record, "for want of a capability", GATE_LACKS);
        n += print_part(record, "refused by a rule", GATE_REFUSED);
        (void)print_part(record, "answered with an error", GATE_ANSWERED);
        (void)print_part(record, "refused by the driver itself, as it may be without Sublet", GATE_MADE);
        if (n)
                (void)printf("To report what should work: send this file, and say which program it was.\n");
        else
                (void)printf("Nothing was refused.\n");
        return VERB_DONE;
}

int record_explain(const char *path, bool is_json)
{
        _cleanup_(record_done) struct record record = { 0 };
        _cleanup_(freep) char *text = NULL;
        struct err err = { 0 };
        size_t size = 0;

        if (file_read(path, &text, &size, &err) < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return VERB_USAGE;
        }
        if (record_parse(text, size, &record, &err) < 0) {
                (void)fprintf(stderr, "sublet: --record %s: %s\n", path, err.text);
                return VERB_USAGE;
        }
        return is_json ? print_json(&record) : print_text(&record);
}
