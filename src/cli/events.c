/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet events`: past events, and with -f new ones as they happen. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"
#include "cli/known.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: sublet events [OPTION...] [TENANT]\n"
                            "Lists events. 'sublet explain NAME' says what an event means.\n"
                            "\n"
                            "\f";

struct want {
        const char *dir, *tenant, *level; /* level: "info", "warn" or "alert": it and what is graver */
        nsec since;
        bool is_json, is_following;
};

static int rank(const char *level)
{
        static const char *const levels[] = { "info", "warn", "alert" };

        for (int i = 0; i < (int)ARRAY_SIZE(levels); i++)
                if (!strcasecmp(level, levels[i]))
                        return i;
        return (int)ARRAY_SIZE(levels); /* of a newer daemon: shown */
}

static void print_event(const struct want *want, const json_t *event)
{
        char when[WHEN_TEXT], tenant[128], line[400], detail[400];

        if (want->level && rank(field_text(event, "level")) < rank(want->level))
                return;
        if (want->is_json) {
                (void)json_dumpf(event, stdout, JSON_COMPACT);
                (void)printf("\n");
                return;
        }
        (void)field_clean(field_text(event, "tenant"), tenant, sizeof(tenant));
        (void)field_clean(field_text(event, "line"), line, sizeof(line));
        (void)field_clean(field_text(event, "detail"), detail, sizeof(detail));
        (void)printf("%s  %-5s  %s%s%s: %s%s%s\n", moment_format(field_moment(event, "time"), when),
                     field_text(event, "level"), tenant, *tenant ? ": " : "", field_text(event, "name"), line,
                     *detail ? ": " : "", detail);
}

static int on_line(void *context, char *line, size_t size)
{
        json_t *event = json_loadb(line, size, 0, NULL);

        if (!event)
                return -EPROTO;
        print_event(context, event);
        json_decref(event);
        (void)fflush(stdout);
        return ferror(stdout) ? -EPIPE : 0;
}

static int print_kept(struct want *want, struct ask *ask, const char *path, struct err *err)
{
        const json_t *event;
        json_t *events;
        size_t i;
        int r = ask_get(ask, path, &events, err);

        if (r < 0)
                return r;
        json_array_foreach (events, i, event)
                print_event(want, event);
        json_decref(events);
        return 0;
}

static int events_print(struct want *want, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        char path[ASK_PATH] = "/v1/events", since[40];
        int r = 0;

        (void)snprintf(since, sizeof(since), "%lld", (long long)(want->since / NSEC_PER_SEC));
        if (want->since)
                r = ask_query(path, "since", since);
        if (r == 0 && want->tenant)
                r = ask_query(path, "tenant", want->tenant);
        if (r == 0 && want->is_following)
                r = ask_query(path, "follow", "1");
        if (r < 0)
                return err_say(err, r, "%s: no tenant has such a long name", want->tenant);
        r = ask_new(want->dir, &ask, err);
        if (r == 0 && want->tenant)
                r = known_check(ask, want->tenant, err);
        if (r < 0)
                return r;
        if (!want->is_following)
                return print_kept(want, ask, path, err);
        return ask_lines(ask, path, on_line, want, err);
}

int events_main(int argc, char **argv)
{
        struct want want = { 0 };
        const struct flag flags[] = {
                { "follow", 'f', flag_is, &want.is_following, NULL, "and goes on as it happens", NULL },
                { "level", 0, flag_word, &want.level, "=info|warn|alert", "these and graver ones (default: all)",
                  NULL },
                { "since", 0, flag_since, &want.since, "TIME",
                  "from then on: 10m (ago), yesterday, 2026-11-21, '2026-11-21 10:30'\n"
                  "(default: all that is kept)",
                  NULL },
                { "json", 0, flag_is, &want.is_json, NULL, "one JSON object per line", NULL },
                { "dir", 0, flag_text, &want.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code);

        if (operand < 0)
                return code;
        want.tenant = argv[operand]; /* or argv's NULL */
        (void)setlocale(LC_CTYPE, "");
        return events_print(&want, &err) < 0 ? flags_failed(&err) : VERB_DONE;
}
