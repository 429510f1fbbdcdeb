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

/* In a value, backslash, quote and line end are escaped. */
static void write_label(FILE *to, const char *name, const char *value)
{
        (void)fprintf(to, "%s=\"", name);
        for (; *value; value++)
                if (*value == '\n')
                        (void)fputs("\\n", to);
                else if (*value == '"' || *value == '\\')
                        (void)fprintf(to, "\\%c", *value);
                else
                        (void)fputc(*value, to);
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
