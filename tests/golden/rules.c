/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's rules, one per line: what a tenant may do. Without arguments it prints them; with the name
 * of a file it compares, as a test.
 */
#include "gate/policy/decide.h"
#include "rm/numbers.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *status_name(uint32_t status)
{
        switch (status) {
#define STATUS(name)                                                                                                   \
        case RM_STATUS_##name:                                                                                         \
                return #name;
                STATUS(OK)
                STATUS(INSUFFICIENT_PERMISSIONS)
                STATUS(INSUFFICIENT_RESOURCES)
                STATUS(INVALID_ARGUMENT)
                STATUS(INVALID_CLASS)
                STATUS(INVALID_CLIENT)
                STATUS(INVALID_PARAM_STRUCT)
                STATUS(NO_MEMORY)
                STATUS(NOT_SUPPORTED)
                STATUS(OBJECT_NOT_FOUND)
#undef STATUS
        default:
                return "?";
        }
}

/* A number as in rules.def; of a request its name, and of others the name that messages use. */
static void print_rule(FILE *out, const char *what, uint32_t number, const char *action, uint32_t status,
                       const char *capability)
{
        char text[48], lower[16] = { 0 };
        const char *name = NULL;

        (void)snprintf(text, sizeof(text), "0x%08x", number);
        for (size_t i = 0; action[i]; i++)
                lower[i] = (char)tolower((unsigned char)action[i]);
        if (!strcmp(what, "REQUEST"))
                (void)snprintf(text, sizeof(text), "%s", rm_kind_name((enum rm_kind)number));
        else if (!strcmp(what, "CONTROL"))
                name = rm_control_name(number);
        else if (!strcmp(what, "CLASS") || !strcmp(what, "OLD"))
                name = rm_class_name(number);
        fprintf(out, "%-8s %-30s %-9s %-*s%-*s%s\n", what, text, lower, name || *capability ? 25 : 0,
                status_name(status), *capability ? 10 : 0, capability, name ? name : "");
}

static void rules_print(FILE *out)
{
        fprintf(out, "What the gate does with each call (src/gate/policy/rules.def); what is not here is refused. "
                     "Written by\n"
                     "        BUILD/tests/golden/rules > tests/golden/rules.txt\n"
                     "A line that changes here changes what a tenant may do: say why in the commit.\n\n");
#define RULE(what, number, action, status, because) print_rule(out, #what, number, #action, status, "");
#define RULE_OF(capability, what, number, action, status, because)                                                     \
        print_rule(out, #what, number, #action, status, #capability);
#include "gate/policy/rules.def"
#undef RULE
#undef RULE_OF
}

/* The first line that differs, or 0. */
static size_t golden_compare(FILE *golden, FILE *now)
{
        static char expected[4096], got[4096];

        for (size_t line = 1;; line++) {
                char *a = fgets(expected, sizeof(expected), golden);
                char *b = fgets(got, sizeof(got), now);

                if (!a && !b)
                        return 0;
                if (a && b && strcmp(a, b) == 0)
                        continue;
                printf("# line %zu\n# golden: %s# now:    %s", line, a ? expected : "(end)\n", b ? got : "(end)\n");
                return line;
        }
}

int main(int argc, char **argv)
{
        FILE *golden, *now;

        if (argc < 2) {
                rules_print(stdout);
                return 0;
        }
        golden = fopen(argv[1], "r");
        now = tmpfile();
        if (!golden || !now) {
                printf("Bail out! %s cannot be read, or there is no room for a temporary file\n", argv[1]);
                return 1;
        }
        rules_print(now);
        rewind(now);
        if (golden_compare(golden, now) == 0)
                printf("ok 1 - rules are as in the golden file\n1..1\n");
        else
                printf("# if this is meant: %s > tests/golden/rules.txt, and read the diff\n"
                       "not ok 1 - rules are as in the golden file\n1..1\n",
                       argv[0]);
        (void)fclose(golden);
        (void)fclose(now);
        return 0;
}
