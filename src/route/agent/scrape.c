/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/scrape.h"

#include "base/cleanup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
        SCRAPE_SUM,
        SCRAPE_MEAN,
        SCRAPE_PRODUCT,
        NUMBER_MAX = 64,
};

static const struct metric {
        const char *name;
        size_t field;
        int how;
        const char *label_a, *label_b;
} metrics[] = {
#define METRIC(name, field, how, a, b) { name, offsetof(struct scrape, field), SCRAPE_##how, a, b },
#include "route/agent/metrics.def"
#undef METRIC
};

/* A piece of the text. */
struct span {
        const char *at;
        size_t size;
};

static char fold_colon(char c)
{
        return c == ':' ? '_' : c;
}

static bool is_name(struct span span, const char *name)
{
        if (span.size != strlen(name))
                return false;
        for (size_t i = 0; i < span.size; i++)
                if (fold_colon(span.at[i]) != fold_colon(name[i]))
                        return false;
        return true;
}

static const struct metric *metric_find(struct span name)
{
        for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
                if (is_name(name, metrics[i].name))
                        return &metrics[i];
        return NULL;
}

/* strchr finds the NUL too. */
static bool is_any(char c, const char *any)
{
        return c && strchr(any, c);
}

/* Takes from the line what precedes any of the characters, or all of it. */
static struct span take_until(struct span *line, const char *any)
{
        struct span taken = { line->at, 0 };

        while (taken.size < line->size && !is_any(line->at[taken.size], any))
                taken.size++;
        line->at += taken.size;
        line->size -= taken.size;
        return taken;
}

static bool take_char(struct span *line, char c)
{
        if (!line->size || *line->at != c)
                return false;
        line->at++;
        line->size--;
        return true;
}

/* The whole span is a finite number, at least 0. */
static bool parse_number(struct span span, double *ret)
{
        char text[NUMBER_MAX], *end;
        double value;

        if (!span.size || span.size >= sizeof(text))
                return false;
        memcpy(text, span.at, span.size);
        text[span.size] = '\0';
        value = strtod(text, &end);
        if (end != text + span.size || !isfinite(value) || value < 0)
                return false;
        *ret = value;
        return true;
}

/* name="value"; an escaped character is part of the value. */
static bool take_label(struct span *line, struct span *ret_name, struct span *ret_value)
{
        while (line->size && is_any(*line->at, " ,"))
                (void)take_char(line, *line->at);
        *ret_name = take_until(line, "=}");
        if (!take_char(line, '=') || !take_char(line, '"'))
                return false;
        *ret_value = (struct span){ line->at, 0 };
        while (line->size && *line->at != '"') {
                size_t step = *line->at == '\\' && line->size > 1 ? 2 : 1;

                ret_value->size += step;
                line->at += step;
                line->size -= step;
        }
        return take_char(line, '"');
}

/* Skips the labels; those of the metric's product are read as numbers. */
static bool take_labels(struct span *line, const struct metric *metric, double *ret_a, double *ret_b)
{
        struct span name, value;

        if (!take_char(line, '{'))
                return true;
        while (!take_char(line, '}')) {
                if (!take_label(line, &name, &value))
                        return false;
                if (metric->label_a && is_name(name, metric->label_a) && !parse_number(value, ret_a))
                        return false;
                if (metric->label_b && is_name(name, metric->label_b) && !parse_number(value, ret_b))
                        return false;
                while (line->size && is_any(*line->at, " ,"))
                        (void)take_char(line, *line->at);
        }
        return true;
}

static bool parse_line(struct span line, struct scrape *scrape)
{
        const struct metric *metric = metric_find(take_until(&line, "{ \t"));
        double a = 0, b = 0, value;
        struct scrape_value *to;

        if (!metric || !take_labels(&line, metric, &a, &b))
                return false;
        while (line.size && is_any(*line.at, " \t"))
                (void)take_char(&line, *line.at);
        if (!parse_number(take_until(&line, " \t\r"), &value))
                return false;
        to = (struct scrape_value *)(void *)((char *)scrape + metric->field);
        to->sum += metric->how == SCRAPE_PRODUCT ? a * b : value;
        to->n++;
        return true;
}

int scrape_parse(const char *text, size_t size, struct scrape *ret)
{
        struct span all = { text, size };
        unsigned int n_known = 0;

        *ret = (struct scrape){ 0 };
        while (all.size) {
                n_known += parse_line(take_until(&all, "\n"), ret);
                (void)take_char(&all, '\n');
        }
        return n_known ? SCRAPE_OK : SCRAPE_E_NOTHING;
}

static uint32_t whole(double value, double most)
{
        return value > most ? (uint32_t)most : value > 0 ? (uint32_t)value : 0;
}

uint32_t scrape_kv_permille(const struct scrape *scrape)
{
        return scrape->kv_use.n ? whole(scrape->kv_use.sum / scrape->kv_use.n * 1000 + 0.5, 1000) : 0;
}

uint32_t scrape_kv_tokens(const struct scrape *scrape)
{
        double tokens = scrape->kv_tokens.sum;

        if (!scrape->kv_tokens.n && scrape->block_tokens.n)
                tokens = scrape->block_tokens.sum / scrape->block_tokens.n * scrape->blocks.sum;
        return whole(tokens, 2e9);
}

uint32_t scrape_waiting(const struct scrape *scrape)
{
        return whole(scrape->waiting.sum, 1e9);
}

bool scrape_is_restart(const struct scrape *before, const struct scrape *after)
{
        if (before->started.n && after->started.n)
                return fabs(before->started.sum - after->started.sum) > 1;
        return before->looked_up.n && after->looked_up.n && after->looked_up.sum < before->looked_up.sum;
}
