/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet usage`: GPU-seconds and GiB-hours of each tenant, ended ones included. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"
#include "cli/known.h"
#include "cli/table.h"

#include <ctype.h>
#include <locale.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: sublet usage [OPTION...] [TENANT]\n"
                            "Lists what tenants used: GPU time as metered, memory as held, and the time with work on\n"
                            "engines beside graphics and compute: copy, decoder and others. HOST-GIB-HOURS, where\n"
                            "there are any: what suspended tenants had in host memory instead of on the device.\n"
                            "\n"
                            "\f";

struct want {
        const char *dir, *tenant;
        const char *by; /* "user", "namespace", "label:NAME"; NULL: by tenant */
        nsec since, until;
        double price; /* of a GPU-hour; 0: none */
        bool is_json, is_csv;
};

/* The sums of the last line. */
struct sum {
        double gpu_seconds, gib_hours, host_gib_hours;
        uint64_t n_refused;
};

enum {
        NAME_TEXT = 256,
        ENGINES_TEXT = 160,
        HOURS_TEXT = 40,
};

static const char *const engines[] = {
#define ENGINE(engine, name) name,
#include "sublet/engines.def"
#undef ENGINE
};

/* Who has used it: the tenant, or what is summed by, a user by name. */
static const char *name_of(const json_t *entry, const char *by, char buffer[static NAME_TEXT])
{
        const char *value = field_text(entry, by ? "value" : "tenant");
        const struct passwd *user = NULL;

        if (by && !strcmp(by, "user"))
                user = getpwuid((uid_t)strtoul(value, NULL, 10));
        (void)snprintf(buffer, NAME_TEXT, "%s", user ? user->pw_name : by && !*value ? "(none)" : value);
        return buffer;
}

/* "copy 1.250, jpeg 0.300": those that had work; "-": none had. */
static const char *engines_of(const json_t *seconds, char ret[static ENGINES_TEXT])
{
        size_t n = 0;

        (void)snprintf(ret, ENGINES_TEXT, "-");
        for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
                double one = field_real(seconds, engines[i]);

                if (one >= 0.0005 && n < ENGINES_TEXT)
                        n += (size_t)snprintf(ret + n, ENGINES_TEXT - n, "%s%s %.3f", n ? ", " : "", engines[i], one);
        }
        return ret;
}

/* "-": none. */
static const char *host_format(double hours, char ret[static HOURS_TEXT])
{
        (void)snprintf(ret, HOURS_TEXT, "%.4f", hours);
        return hours > 0 ? ret : "-";
}

static void row(struct table *table, const json_t *entry, const struct want *want, struct sum *sum)
{
        char cost[40] = "-", device[24], seconds[40], hours[40], peak[BYTES_TEXT], refused[24], from[WHEN_TEXT],
             to[WHEN_TEXT], name[NAME_TEXT], tenants[24] = "-", others[ENGINES_TEXT], host[HOURS_TEXT];

        if (want->by)
                (void)snprintf(tenants, sizeof(tenants), "%llu", (unsigned long long)field_number(entry, "tenants"));
        (void)snprintf(device, sizeof(device), "%llu", (unsigned long long)field_number(entry, "device"));
        (void)snprintf(seconds, sizeof(seconds), "%.3f", field_real(entry, "gpu_seconds"));
        (void)snprintf(hours, sizeof(hours), "%.4f", field_real(entry, "gib_hours"));
        (void)snprintf(refused, sizeof(refused), "%llu", (unsigned long long)field_number(entry, "refused"));
        if (want->price > 0)
                (void)snprintf(cost, sizeof(cost), "%.2f", field_real(entry, "gpu_seconds") / 3600 * want->price);
        table_row(table, name_of(entry, want->by, name), tenants, device, seconds, hours,
                  host_format(field_real(entry, "host_gib_hours"), host),
                  bytes_format(field_number(entry, "peak_bytes"), peak), refused, cost,
                  moment_format(field_moment(entry, "from"), from), moment_format(field_moment(entry, "to"), to),
                  engines_of(json_object_get(entry, "engine_seconds"), others), NULL);
        sum->gpu_seconds += field_real(entry, "gpu_seconds");
        sum->gib_hours += field_real(entry, "gib_hours");
        sum->host_gib_hours += field_real(entry, "host_gib_hours");
        sum->n_refused += field_number(entry, "refused");
}

/* "label:team" is TEAM. */
static const char *heading(const char *by, char buffer[static NAME_TEXT])
{
        const char *word = !by ? "tenant" : strncmp(by, "label:", 6) ? by : by + 6;
        size_t n = 0;

        for (; word[n] && n < NAME_TEXT - 1; n++)
                buffer[n] = (char)toupper((unsigned char)word[n]);
        buffer[n] = '\0';
        return buffer;
}

static int print_table(const json_t *entries, const struct want *want)
{
        static const char *const least[] = { "TO",     "FROM", "ENGINE-SECONDS", "REFUSED",   "TENANTS",
                                             "DEVICE", "PEAK", "HOST-GIB-HOURS", "GIB-HOURS", NULL };
        char cost[40] = "-", seconds[40], hours[40], refused[24], name[NAME_TEXT], host[HOURS_TEXT];
        struct sum sum = { 0 };
        const json_t *entry;
        struct table table;
        size_t i;
        int r;

        table_init(&table, heading(want->by, name), "TENANTS>?", "DEVICE>", "GPU-SECONDS>", "GIB-HOURS>",
                   "HOST-GIB-HOURS>?", "PEAK>", "REFUSED>", "PRICE>?", "FROM", "TO", "ENGINE-SECONDS?", NULL);
        json_array_foreach (entries, i, entry)
                row(&table, entry, want, &sum);
        (void)snprintf(seconds, sizeof(seconds), "%.3f", sum.gpu_seconds);
        (void)snprintf(hours, sizeof(hours), "%.4f", sum.gib_hours);
        (void)snprintf(refused, sizeof(refused), "%llu", (unsigned long long)sum.n_refused);
        if (want->price > 0)
                (void)snprintf(cost, sizeof(cost), "%.2f", sum.gpu_seconds / 3600 * want->price);
        if (json_array_size(entries) > 1)
                table_row(&table, "(all)", want->by ? "" : "-", "", seconds, hours,
                          host_format(sum.host_gib_hours, host), "", refused, cost, "", "", "-", NULL);
        table_fit(&table, table_width(stdout), least);
        r = table_print(&table, stdout);
        table_done(&table);
        return r;
}

/* A word as a spreadsheet reads it: names are ours, but a quote or a comma in one must not end a column. */
static void csv_word(const char *word)
{
        (void)putchar('"');
        for (; *word; word++) {
                if (*word == '"')
                        (void)putchar('"');
                (void)putchar(*word);
        }
        (void)putchar('"');
}

/* What is new is behind all other columns, so that one who reads by position reads what he read before. */
static void csv_engine_heading(const char *engine)
{
        (void)putchar(',');
        for (; *engine; engine++)
                (void)putchar(*engine == '-' ? '_' : *engine);
        (void)printf("_seconds");
}

static void print_csv(const json_t *entries, const struct want *want)
{
        char name[NAME_TEXT];
        const json_t *entry;
        size_t i;

        (void)printf("%s,%s,device,uuid,gpu_seconds,gib_hours,peak_bytes,refused,from,to%s",
                     want->by ? want->by : "tenant", want->by ? "tenants" : "uid", want->price > 0 ? ",price" : "");
        for (size_t k = 0; k < ARRAY_SIZE(engines); k++)
                csv_engine_heading(engines[k]);
        (void)printf(",host_gib_hours\n");
        json_array_foreach (entries, i, entry) {
                csv_word(name_of(entry, want->by, name));
                (void)printf(",%llu,%llu,%s,%.3f,%.6f,%llu,%llu,%.0f,%.0f",
                             (unsigned long long)field_number(entry, want->by ? "tenants" : "uid"),
                             (unsigned long long)field_number(entry, "device"), field_text(entry, "uuid"),
                             field_real(entry, "gpu_seconds"), field_real(entry, "gib_hours"),
                             (unsigned long long)field_number(entry, "peak_bytes"),
                             (unsigned long long)field_number(entry, "refused"), field_real(entry, "from"),
                             field_real(entry, "to"));
                if (want->price > 0)
                        (void)printf(",%.4f", field_real(entry, "gpu_seconds") / 3600 * want->price);
                for (size_t k = 0; k < ARRAY_SIZE(engines); k++)
                        (void)printf(",%.3f", field_real(json_object_get(entry, "engine_seconds"), engines[k]));
                (void)printf(",%.6f\n", field_real(entry, "host_gib_hours"));
        }
}

static int read_price(const struct flag *flag, const char *value, struct err *err)
{
        char *end;
        double price = strtod(value, &end);

        if (end == value || *end || !(price > 0) || price > 1e9)
                return flag_refuse(flag, value, "a price of a GPU-hour such as 2.50", err);
        *(double *)flag->to = price;
        return 0;
}

static int read_by(const struct flag *flag, const char *value, struct err *err)
{
        if (strcmp(value, "user") && strcmp(value, "namespace") && (strncmp(value, "label:", 6) || !value[6]))
                return flag_refuse(flag, value, "user, namespace or label:NAME such as label:team", err);
        *(const char **)flag->to = value;
        return 0;
}

/* A query of the path, where the time was given. */
static int put_time(char path[static ASK_PATH], const char *name, nsec time)
{
        char text[40];

        (void)snprintf(text, sizeof(text), "%lld", (long long)(time / NSEC_PER_SEC));
        return time ? ask_query(path, name, text) : 0;
}

static int usage_print(const struct want *want, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        char path[ASK_PATH] = "/v1/usage";
        json_t *entries;
        int r;

        r = put_time(path, "since", want->since);
        if (r == 0)
                r = put_time(path, "until", want->until);
        if (r == 0 && want->by)
                r = ask_query(path, "by", want->by);
        if (r == 0 && want->tenant)
                r = ask_query(path, "tenant", want->tenant);
        if (r < 0)
                return err_say(err, r, "%s: no tenant has such a long name", want->tenant ? want->tenant : want->by);
        if ((r = ask_new(want->dir, &ask, err)) < 0 ||
            (want->tenant && (r = known_check(ask, want->tenant, err)) < 0) ||
            (r = ask_get(ask, path, &entries, err)) < 0)
                return r;
        if (want->is_json)
                (void)(json_dumpf(entries, stdout, JSON_INDENT(1)) == 0 && printf("\n"));
        else if (want->is_csv)
                print_csv(entries, want);
        else
                r = print_table(entries, want);
        json_decref(entries);
        return r < 0 ? err_set(err, r, "writing the table") : 0;
}

int usage_main(int argc, char **argv)
{
        struct want want = { 0 };
        const struct flag flags[] = {
                { "since", 0, flag_since, &want.since, "TIME",
                  "from then on: 1h (ago), yesterday, 2026-11-21, '2026-11-21 10:30' (default: all)", NULL },
                { "until", 0, flag_since, &want.until, "TIME", "up to then, in whole minutes (default: now)", NULL },
                { "by", 0, read_by, &want.by, "user|namespace|label:NAME",
                  "one row for each of those, of all their tenants ('sublet run --label NAME=VALUE')", NULL },
                { "price", 0, read_price, &want.price, "N", "of a GPU-hour: adds what each tenant's GPU time costs",
                  NULL },
                { "csv", 0, flag_is, &want.is_csv, NULL, "for a spreadsheet", NULL },
                { "json", 0, flag_is, &want.is_json, NULL, "the daemon's answer", NULL },
                { "dir", 0, flag_text, &want.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code);

        if (operand < 0)
                return code;
        if (want.until && want.until <= want.since) {
                (void)fprintf(stderr, "sublet: --until is not after --since ('sublet usage --help')\n");
                return VERB_USAGE;
        }
        want.tenant = argv[operand]; /* or argv's NULL */
        (void)setlocale(LC_CTYPE, "");
        return usage_print(&want, &err) < 0 ? flags_failed(&err) : VERB_DONE;
}
