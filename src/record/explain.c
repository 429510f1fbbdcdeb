/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet explain`: an event's row of events.def, what a number of the driver is, or what a record says. */
#include "record/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/text.h"
#include "gate/policy/decide.h"
#include "lease/capabilities.h"
#include "record/record.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event {
        const char *name, *level, *line, *meaning;
};

static const struct event events[] = {
#define EVENT(name, level, line, meaning) { #name, #level, line, meaning },
#include "sublet/events.def"
#undef EVENT
};

enum {
        WIDTH = 96,
        CLASS_MOST = 0xffff, /* a larger number is a control's */
        REQUEST_TYPE = 0x46, /* 'F': the driver's requests as a system call has them */
        REQUEST_TOP = 0xc0,  /* which are read and written */
};

static const char usage[] =
        "usage: sublet explain [EVENT | [control | class | request] NUMBER | NAME]\n"
        "       sublet explain --json [EVENT]\n"
        "       sublet explain --record FILE [--json]\n"
        "Says what an event means; what a number of the driver belongs to, and whether tenants may use it; or what\n"
        "was refused in the run that 'sublet run --record FILE' has recorded.\n"
        "\n"
        "\f\n"
        "Without an argument it lists the events.\n";

/* Prints text, wrapped and indented. */
static void print_wrapped(const char *text)
{
        size_t column = 0;

        while (*text) {
                size_t n = strcspn(text, " ");

                if (column && column + 1 + n > WIDTH) {
                        (void)putchar('\n');
                        column = 0;
                }
                column += (size_t)printf("%s%.*s", column ? " " : "  ", (int)n, text);
                text += n + strspn(text + n, " ");
        }
        (void)putchar('\n');
}

static int list_events(void)
{
        (void)printf("usage: sublet explain [EVENT]\nSays what an event means. The events:\n");
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                (void)printf("  %-19s %s\n", events[i].name, events[i].line);
        return VERB_DONE;
}

static json_t *event_json(const struct event *event)
{
        return json_pack("{s:s, s:s, s:s, s:s}", "name", event->name, "level", event->level, "line", event->line,
                         "meaning", event->meaning);
}

static int print_json(json_t *value)
{
        (void)(json_dumpf(value, stdout, JSON_INDENT(1)) == 0 && printf("\n"));
        json_decref(value);
        return VERB_DONE;
}

static int list_events_json(void)
{
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                (void)json_array_append_new(list, event_json(&events[i]));
        return print_json(list);
}

static bool explain_event(const char *name, bool is_json)
{
        for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
                if (strcasecmp(name, events[i].name) != 0)
                        continue;
                if (is_json)
                        return print_json(event_json(&events[i])) == VERB_DONE;
                (void)printf("%s (%s): %s\n", events[i].name, events[i].level, events[i].line);
                print_wrapped(events[i].meaning);
                return true;
        }
        return false;
}

static void explain_rule(enum rm_kind kind, uint32_t number)
{
        struct gate_verdict verdict;
        char needs[CAPABILITIES_TEXT_MAX], text[512];

        if (!gate_rule(kind, number, &verdict)) {
                print_wrapped("It has no rule, so tenants are refused. If a program does not work as it does without "
                              "Sublet, run it with 'sublet run --record FILE' and send FILE with the program's name.");
                return;
        }
        (void)snprintf(text, sizeof(text), "%s%s%s: %s.",
                       verdict.action == GATE_DENY || verdict.action == GATE_QUIET ? "Refused to tenants" :
                                                                                     "Tenants may use it",
                       verdict.capability ? " with --capabilities " : "",
                       verdict.capability ? capabilities_format(verdict.capability, needs) : "", verdict.because);
        print_wrapped(text);
}

static void explain_number(enum rm_kind kind, uint32_t number)
{
        char meaning[RECORD_MEANING_MAX];
        const char *name = record_name(kind, number);

        (void)printf("%s 0x%x%s%s: %s\n", record_what(kind), number, *name ? " " : "", name,
                     record_meaning(kind, number, meaning));
        explain_rule(kind, number);
}

static enum rm_kind request_kind(uint32_t number)
{
        static const uint8_t numbers[] = {
#define REQUEST(kind, node, nr, size, status, fd, client, meaning) [RM_##kind] = (uint8_t)(nr),
#include "rm/requests.def"
#undef REQUEST
        };

        for (size_t kind = 0; kind < ARRAY_SIZE(numbers); kind++)
                if (numbers[kind] == (number & 0xff))
                        return (enum rm_kind)kind;
        return RM_N_KINDS;
}

/* False: it is none. */
static bool explain_numbered(const char *what, const char *word)
{
        uint64_t number;
        char *end;

        number = strtoull(word, &end, 0);
        if (!*word || *word == '-' || *end || number > UINT32_MAX)
                return false;
        if (what ? !strcmp(what, "request") : number >> 24 == REQUEST_TOP && (number >> 8 & 0xff) == REQUEST_TYPE)
                explain_number(request_kind((uint32_t)number), (uint32_t)number);
        else if (what ? !strcmp(what, "class") : number <= CLASS_MOST)
                explain_number(RM_ALLOC, (uint32_t)number);
        else
                explain_number(RM_CONTROL, (uint32_t)number);
        return true;
}

static bool explain_named(const char *name)
{
        static const struct {
                enum rm_kind kind;
                uint32_t number;
                const char *name;
        } names[] = {
#define CONTROL(number, name) { RM_CONTROL, number, name },
#include "rm/controls.def"
#undef CONTROL
#define CLASS(number, size, name) { RM_ALLOC, number, name },
#include "rm/classes.def"
#undef CLASS
        };
        bool is_found = false;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (strcasecmp(name, names[i].name) != 0)
                        continue;
                explain_number(names[i].kind, names[i].number);
                is_found = true;
        }
        return is_found;
}

static bool is_kind(const char *word)
{
        return !strcmp(word, "control") || !strcmp(word, "class") || !strcmp(word, "request");
}

int explain_main(int argc, char **argv)
{
        const char *path = NULL;
        bool is_json = false;
        const struct flag flags[] = {
                { "record", 0, flag_text, &path, "FILE", "what was refused in a run that was recorded", NULL },
                { "json", 0, flag_is, &is_json, NULL, "of events, and of a record, as JSON", NULL },
        };
        int code, first = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 2, &code);

        if (first < 0)
                return code;
        if (path && first < argc)
                return flags_surplus("explain", argv[first]);
        if (path)
                return record_explain(path, is_json);
        if (first == argc)
                return is_json ? list_events_json() : list_events();
        if (is_json) {
                if (argc - first == 1 && explain_event(argv[first], true))
                        return VERB_DONE;
                (void)fprintf(stderr, "sublet: explain: --json goes with an event, with none, or with --record FILE\n");
                return VERB_USAGE;
        }
        if (argc - first == 2 && is_kind(argv[first]) && explain_numbered(argv[first], argv[first + 1]))
                return VERB_DONE;
        if (argc - first == 2)
                return flags_surplus("explain", argv[first + 1]);
        if (explain_event(argv[first], false) || explain_numbered(NULL, argv[first]) || explain_named(argv[first]))
                return VERB_DONE;
        (void)fprintf(stderr,
                      "sublet: there is no event '%s', and no number or name of the driver's ('sublet explain' lists "
                      "the events)\n",
                      argv[first]);
        return VERB_USAGE;
}
