/* SPDX-License-Identifier: Apache-2.0 */
#include "net/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

static const double EXACT_MAX = 9e15;

void metrics_head(FILE *to, const char *name, const char *type, const char *help)
{
        if (help)
                (void)fprintf(to, "# HELP %s %s\n", name, help);
        (void)fprintf(to, "# TYPE %s %s\n", name, type);
}

/* How many bytes the character at `text` has; 0: it is not UTF-8. Surrogates and overlong forms are not. */
static size_t character_size(const unsigned char *text)
{
        static const struct {
                unsigned char first, last, second_first, second_last;
                size_t size;
        } rows[] = {
                { 0x01, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
                { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
                { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (text[0] < rows[i].first || text[0] > rows[i].last)
                        continue;
                if (rows[i].size > 1 && (text[1] < rows[i].second_first || text[1] > rows[i].second_last))
                        return 0;
                for (size_t k = 2; k < rows[i].size; k++) /* a NUL ends it, too */
                        if ((text[k] & 0xc0) != 0x80)
                                return 0;
                return rows[i].size;
        }
        return 0;
}

/* In a value, backslash, quote and line end are escaped. One byte that is not UTF-8 and Prometheus takes nothing of the
 * whole answer, so it is replaced. */
static void write_label(FILE *to, const char *name, const char *value)
{
        (void)fprintf(to, "%s=\"", name);
        while (*value) {
                size_t n = character_size((const unsigned char *)value);

                if (!n)
                        (void)fputs("\xef\xbf\xbd", to);
                else if (*value == '\n')
                        (void)fputs("\\n", to);
                else if (*value == '"' || *value == '\\')
                        (void)fprintf(to, "\\%c", *value);
                else
                        (void)fwrite(value, 1, n, to);
                value += n ? n : 1;
        }
        (void)fputc('"', to);
}

static void write_number(FILE *to, double value)
{
        if (fabs(value) < EXACT_MAX && value == (double)(int64_t)value)
                (void)fprintf(to, " %.0f\n", value);
        else
                (void)fprintf(to, " %.9f\n", value);
}

void metrics_value(FILE *to, const char *name, double value, ...)
{
        const char *label, *separator = "{";
        va_list labels;

        (void)fputs(name, to);
        va_start(labels, value);
        while ((label = va_arg(labels, const char *)) != NULL) {
                (void)fputs(separator, to);
                write_label(to, label, va_arg(labels, const char *));
                separator = ",";
        }
        va_end(labels);
        if (*separator == ',')
                (void)fputc('}', to);
        write_number(to, value);
}

void metrics_series(FILE *to, const char *name, double value, const struct metrics_label *labels, size_t n)
{
        const char *separator = "{";

        (void)fputs(name, to);
        for (size_t i = 0; i < n; i++) {
                if (!labels[i].value)
                        continue;
                (void)fputs(separator, to);
                write_label(to, labels[i].name, labels[i].value);
                separator = ",";
        }
        if (*separator == ',')
                (void)fputc('}', to);
        write_number(to, value);
}

static void write_bucket(FILE *to, const char *name, const char *label, const char *value, const char *bound,
                         uint64_t n)
{
        (void)fprintf(to, "%s_bucket{", name);
        if (label) {
                write_label(to, label, value);
                (void)fputc(',', to);
        }
        (void)fprintf(to, "le=\"%s\"} %" PRIu64 "\n", bound, n);
}

void metrics_histogram(FILE *to, const char *name, const struct metrics_histogram *histogram, const char *label,
                       const char *value)
{
        uint64_t n = 0;
        char part[128];

        for (size_t i = 0; i < histogram->n_bounds; i++) {
                (void)snprintf(part, sizeof(part), "%g", histogram->bounds[i]);
                n += histogram->counts[i];
                write_bucket(to, name, label, value, part, n);
        }
        n += histogram->counts[histogram->n_bounds];
        write_bucket(to, name, label, value, "+Inf", n);
        (void)snprintf(part, sizeof(part), "%s_sum", name);
        metrics_value(to, part, histogram->sum, label, value, NULL);
        (void)snprintf(part, sizeof(part), "%s_count", name);
        metrics_value(to, part, (double)n, label, value, NULL);
}
