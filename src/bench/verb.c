/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet bench --modes`: what each way to share costs on this machine's first device.
 *
 * It measures as a user would: loads natively, and as tenants of `sublet run` under a daemon that it starts. The device
 * must be idle.
 */
#include "bench/verbs.h"

#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bench/table.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char usage[] =
        "usage: sublet bench --modes [--json] [-o FILE] [--for TIME]\n"
        "Measures what each way to share costs on the first device, which must be idle; takes about two minutes.\n"
        "\n"
        "\f"
        "\n"
        "A figure that this machine cannot have shows the reason instead. Needs root, and no other daemon.\n"
        "The figures:\n"
#define ROW(name, unit, meaning) "  " #name ": " meaning ", in " unit "\n"
#include "bench/rows.def"
#undef ROW
        ;

struct bench {
        const char *output, *only;
        bool is_modes, is_json;
        nsec span;
        struct team team;
        struct table table;
};

/* Two daemons on a device would both switch its channels. */
static int check_alone(struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        _cleanup_(json_decrefp) json_t *version = NULL;
        int r = ask_new(NULL, &ask, err);

        if (r < 0)
                return r;
        if (ask_get(ask, "/v1/version", &version, NULL) == 0)
                return err_say(err, -EBUSY,
                               "a daemon serves this machine, and a measurement needs the device alone: stop it first "
                               "('systemctl stop sublet')");
        return 0;
}

/* Name and driver of the device, from our own daemon. */
static int ask_who(struct bench *bench, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        _cleanup_(json_decrefp) json_t *version = NULL, *devices = NULL;
        time_t now = (time_t)(clock_realtime() / NSEC_PER_SEC);
        struct table *table = &bench->table;
        char dir[TEAM_PATH];
        struct tm day;
        int r;

        (void)snprintf(dir, sizeof(dir), "%s/node", bench->team.dir);
        if ((r = team_daemon(&bench->team, "auto", err)) < 0 || (r = ask_new(dir, &ask, err)) < 0 ||
            (r = ask_get(ask, "/v1/version", &version, err)) < 0 ||
            (r = ask_get(ask, "/v1/devices", &devices, err)) < 0)
                return r;
        (void)field_clean(field_text(json_array_get(devices, 0), "name"), table->device, sizeof(table->device));
        (void)field_clean(field_text(version, "driver"), table->driver, sizeof(table->driver));
        table->is_simulated = !strcmp(field_text(version, "backend"), "sim");
        (void)strftime(table->date, sizeof(table->date), "%F", gmtime_r(&now, &day));
        return 0;
}

static int calibrate(struct bench *bench, struct err *err)
{
        _cleanup_(json_decrefp) json_t *said = NULL;
        int r = team_ask(&bench->team, "burn calibrate", &said, err);

        if (r < 0)
                return err_while(err, "the load alone");
        bench->team.rounds = (unsigned int)field_real(said, "rounds");
        if (!bench->team.rounds)
                return err_say(err, -EIO, "the device does no arithmetic in a millisecond");
        return 0;
}

/* Whether the row is in the comma-separated list; NULL: all are. */
static bool is_asked_for(const char *list, const char *row)
{
        size_t n = strlen(row);

        for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
                if (!strncmp(at, row, n) && (!at[n] || at[n] == ','))
                        return true;
        return !list;
}

/* Whether each word of the list is a row: then as many rows are asked for as there are words. */
static bool is_good(const char *list)
{
        size_t n_words = list ? 1 : MEASURE_N, n = 0;

        for (const char *at = list; at && (at = strchr(at, ',')); at++)
                n_words++;
        for (size_t i = 0; i < MEASURE_N; i++)
                n += is_asked_for(list, table_name((enum measure_row)i));
        return n == n_words;
}

static void measure_all(struct bench *bench)
{
        struct measure measure = { .team = &bench->team };

        for (size_t i = 0; i < MEASURE_N; i++) {
                struct table_row *row = &bench->table.rows[i];
                struct err err = { 0 };

                (void)snprintf(row->why, sizeof(row->why), "not asked for");
                if (!is_asked_for(bench->only, table_name((enum measure_row)i)))
                        continue;
                row->is_had = measure_row(&measure, (enum measure_row)i, &row->value, &err) == 0;
                (void)snprintf(row->why, sizeof(row->why), "%.*s", (int)sizeof(row->why) - 1, err.text);
                table_print_row(stderr, &bench->table, (enum measure_row)i);
        }
}

/* ---- the file */

/* What is no file (a pipe, a device) is written to as it is: its name is not ours to give away. */
static bool is_special(const char *path)
{
        struct stat is;

        return stat(path, &is) == 0 && !S_ISREG(is.st_mode);
}

/* A pipe has no blank to spare: its reader would see the end behind it. */
static bool is_fifo(const char *path)
{
        struct stat is;

        return stat(path, &is) == 0 && S_ISFIFO(is.st_mode);
}

/* Where the table is written at first. */
static int beside(const char *path, char ret[static PATH_MAX], struct err *err)
{
        if (snprintf(ret, PATH_MAX, "%s%s", path, is_special(path) ? "" : ".new") >= PATH_MAX)
                return err_say(err, -ENAMETOOLONG, "%s: too long", path);
        return 0;
}

/* Before anything is measured, so that no minutes are spent on a table that cannot be kept: a blank, which JSON may
 * begin with, shows a full disk. */
static int output_check(const struct bench *bench, struct err *err)
{
        char path[PATH_MAX];
        FILE *file;
        int r;

        if (!bench->output || is_fifo(bench->output))
                return 0;
        if ((r = beside(bench->output, path, err)) < 0)
                return r;
        file = fopen(path, "we");
        if (!file)
                return err_set(err, -errno, "%s", bench->output);
        r = fputc(' ', file) == EOF || fflush(file) != 0 ? -errno : 0;
        (void)fclose(file);
        if (r < 0 && !is_special(path))
                (void)unlink(path);
        return r < 0 ? err_set(err, r, "%s", bench->output) : 0;
}

/* A file is written whole or not at all. */
static int write_file(const char *path, const json_t *table, struct err *err)
{
        char other[PATH_MAX];
        int r = beside(path, other, err);

        if (r == 0 &&
            (json_dump_file(table, other, JSON_INDENT(1)) < 0 || (strcmp(other, path) && rename(other, path) < 0)))
                return err_set(err, errno ? -errno : -EIO, "writing %s", path);
        return r;
}

/* Nothing was measured: what output_check made goes. */
static void output_drop(const struct bench *bench)
{
        char path[PATH_MAX];

        if (bench->output && !is_special(bench->output) && beside(bench->output, path, NULL) == 0)
                (void)unlink(path);
}

static int table_write(const struct bench *bench, struct err *err)
{
        _cleanup_(json_decrefp) json_t *found = table_json(&bench->table);
        int r = !found ? err_set(err, -ENOMEM, "the table") : bench->output ? write_file(bench->output, found, err) : 0;

        if (r < 0)
                return r;
        if (!bench->is_json)
                table_print_all(stdout, &bench->table);
        else if (json_dumpf(found, stdout, JSON_INDENT(1)) < 0 || putchar('\n') == EOF)
                return err_say(err, -EIO, "the table cannot be written");
        return 0;
}

static int bench_it(struct bench *bench, struct err *err)
{
        int r;

        if ((r = output_check(bench, err)) < 0)
                return r;
        if ((r = check_alone(err)) < 0 || (r = team_open(&bench->team, bench->span, err)) < 0) {
                output_drop(bench);
                return r;
        }
        if ((r = ask_who(bench, err)) == 0 && (r = calibrate(bench, err)) == 0) {
                measure_all(bench);
                r = table_write(bench, err);
        }
        if (r < 0)
                output_drop(bench);
        team_close(&bench->team);
        return r;
}

int bench_main(int argc, char **argv)
{
        static struct bench bench = { .span = 2 * NSEC_PER_SEC };
        const struct flag flags[] = {
                { "modes", 0, flag_is, &bench.is_modes, NULL, "all of them", NULL },
                { "json", 0, flag_is, &bench.is_json, NULL, "the table as JSON", NULL },
                { "output", 'o', flag_text, &bench.output, "FILE",
                  "and into FILE, as 'sublet plan --facts=FILE' reads it", NULL },
                { "for", 0, flag_span, &bench.span, "TIME", "how long each load is measured (2s)", NULL },
                { "only", 0, flag_text, &bench.only, "FIGURE,...", "these only", NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code);

        if (operand < 0)
                return code;
        if (!bench.is_modes || !is_good(bench.only)) {
                (void)fprintf(stderr, "sublet: %s ('sublet bench --help')\n",
                              bench.is_modes ? "--only: there is no such figure" : "what is to be measured: --modes");
                return VERB_USAGE;
        }
        return bench_it(&bench, &err) < 0 ? flags_failed(&err) : VERB_DONE;
}
