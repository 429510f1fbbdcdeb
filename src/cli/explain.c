/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet explain EVENT`: the row of events.def. */
#include "cli/verbs.h"

#include "base/cleanup.h"

#include <stdio.h>
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
};

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

int explain_main(int argc, char **argv)
{
        const char *name = argc > 1 ? argv[1] : NULL;

        if (!name || !strcmp(name, "--help") || !strcmp(name, "-h")) {
                (void)printf("usage: sublet explain [EVENT]\nSays what an event means. The events:\n");
                for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                        (void)printf("  %-19s %s\n", events[i].name, events[i].line);
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                if (!strcasecmp(name, events[i].name)) {
                        (void)printf("%s (%s): %s\n", events[i].name, events[i].level, events[i].line);
                        print_wrapped(events[i].meaning);
                        return 0;
                }
        (void)fprintf(stderr, "sublet: there is no event '%s' ('sublet explain' lists them)\n", name);
        return 2;
}
