/* SPDX-License-Identifier: Apache-2.0 */
/* A record as text, line by line (R3). */
#include "record/record.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "lease/capabilities.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        WORDS_MAX = 9,
        ERROR_MAX = 4095, /* of Linux */
};

struct line {
        char text[RECORD_LINE_MAX];
        char *words[WORDS_MAX];
        size_t n_words;
};

void record_done(struct record *record)
{
        free(record->rows);
        record->rows = NULL;
        record->n_rows = 0;
}

/* The next line in words: 1; 0: the text ends, or a run that was killed has cut its last line off. -EINVAL: no line of
 * a record. */
static int line_next(const char **at, const char *end, struct line *ret)
{
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        size_t n = (size_t)((stop ? stop : end) - *at);
        char *rest;

        ret->n_words = 0;
        if (n >= sizeof(ret->text) || memchr(*at, 0, n))
                return -EINVAL;
        if (!stop)
                return 0;
        memcpy(ret->text, *at, n);
        ret->text[n] = '\0';
        *at = stop + 1;
        rest = ret->text;
        for (char *word; (word = strsep(&rest, " ")); ret->words[ret->n_words++] = word)
                if (ret->n_words == WORDS_MAX || !*word)
                        return -EINVAL;
        return 1;
}

/* A number as the writer writes it: no sign, no space, no leading zero. */
static int read_number(const char *word, uint64_t most, uint64_t *ret)
{
        bool is_hex = !strncmp(word, "0x", 2);
        const char *digits = word + (is_hex ? 2 : 0);
        char *end;

        if (!isxdigit((unsigned char)*digits) || (*digits == '0' && digits[1]))
                return -EINVAL;
        errno = 0;
        *ret = strtoull(digits, &end, is_hex ? 16 : 10);
        return *end || errno || *ret > most ? -EINVAL : 0;
}

static int read_kind(const char *word, enum rm_kind *ret)
{
        for (int kind = 0; kind <= RM_N_KINDS; kind++)
                if (!strcmp(word, rm_kind_name((enum rm_kind)kind))) {
                        *ret = (enum rm_kind)kind;
                        return 0;
                }
        return -EINVAL;
}

static int read_outcome(const struct line *line, struct gate_call *call)
{
        const char *wrong;
        int outcome = GATE_MADE;

        while (outcome <= GATE_UNRULED && strcmp(line->words[7], record_outcome_name((enum gate_outcome)outcome)) != 0)
                outcome++;
        if (outcome > GATE_UNRULED || (outcome == GATE_LACKS) != (line->n_words == 9))
                return -EINVAL;
        call->outcome = (enum gate_outcome)outcome;
        return outcome == GATE_LACKS ? capabilities_parse(line->words[8], &call->needs, &wrong) : 0;
}

static int read_call(const struct line *line, struct record *record)
{
        struct gate_call call = { 0 };
        uint64_t index, number, size, status, error;

        if (line->n_words < 8 || record->n_rows == RECORD_ROWS_MAX ||
            read_number(line->words[1], RECORD_ROWS_MAX, &index) < 0 || index != record->n_rows ||
            read_kind(line->words[2], &call.kind) < 0 || read_number(line->words[3], UINT32_MAX, &number) < 0 ||
            read_number(line->words[4], UINT32_MAX, &size) < 0 ||
            read_number(line->words[5], UINT32_MAX, &status) < 0 ||
            read_number(line->words[6], ERROR_MAX, &error) < 0 || read_outcome(line, &call) < 0)
                return -EINVAL;
        call.number = (uint32_t)number;
        call.size = (uint32_t)size;
        call.status = (uint32_t)status;
        call.error = (int)error;
        record->rows[record->n_rows++] = (struct record_row){ call, 1 };
        return 0;
}

static int read_count(const struct line *line, struct record *record)
{
        uint64_t index;

        if (line->n_words != 3 || read_number(line->words[1], RECORD_ROWS_MAX, &index) < 0 || index >= record->n_rows)
                return -EINVAL;
        return read_number(line->words[2], UINT64_MAX, &record->rows[index].n);
}

static int read_release(const struct line *line, struct record *record)
{
        struct rm_version version;

        if (line->n_words != 2 || strlen(line->words[1]) >= sizeof(record->release) ||
            rm_version_parse(line->words[1], &version) < 0)
                return -EINVAL;
        (void)snprintf(record->release, sizeof(record->release), "%s", line->words[1]);
        return 0;
}

static int read_end(struct record *record)
{
        record->is_whole = true;
        return 0;
}

static int read_line(const struct line *line, struct record *record)
{
        const char *first = line->words[0], *wrong;

        if (record->is_whole)
                return -EINVAL;
        if (!strcmp(first, "call"))
                return read_call(line, record);
        if (!strcmp(first, "count"))
                return read_count(line, record);
        if (!strcmp(first, "others") && line->n_words == 2)
                return read_number(line->words[1], UINT64_MAX, &record->n_others);
        if (!strcmp(first, "release"))
                return read_release(line, record);
        if (!strcmp(first, "capabilities") && line->n_words == 2)
                return capabilities_parse(line->words[1], &record->capabilities, &wrong);
        return !strcmp(first, "end") && line->n_words == 1 ? read_end(record) : -EINVAL;
}

int record_parse(const char *text, size_t size, struct record *ret, struct err *err)
{
        static const char head[] = "sublet record 1\n";
        const char *at = text + strlen(head);
        struct line line;
        size_t n = 2;
        int r;

        *ret = (struct record){ 0 };
        if (size < strlen(head) || memcmp(text, head, strlen(head)) != 0)
                return err_say(err, -EINVAL,
                               "it does not begin with 'sublet record 1': no record of 'sublet run --record'");
        ret->rows = calloc(RECORD_ROWS_MAX, sizeof(*ret->rows));
        if (!ret->rows)
                return err_set(err, -ENOMEM, "reading the record");
        for (; (r = line_next(&at, text + size, &line)) > 0; n++)
                if (read_line(&line, ret) < 0)
                        break;
        return r == 0 ? 0 : err_say(err, -EINVAL, "line %zu is none of a record", n);
}
