/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolved layout of every branch, as a table that a person can read: a column per release, a
 * row per field, block and class. Without arguments it prints the table; with the name of a file it
 * compares, as a test.
 */
#include "../unit/rm/fields.h"

#include "rm/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static const char *const releases[] = { "525.53",     "525.147.05", "535.54.03",  "535.288.01", "545.29.06",
                                        "550.163.01", "555.58.02",  "560.35.03",  "565.77",     "570.211.01",
                                        "575.64.05",  "580.142",    "580.159.04", "590.48.01",  "595.45.04" };

enum {
        N_RELEASES = sizeof(releases) / sizeof(releases[0]),
};

static struct rm_layout layouts[N_RELEASES];

static void cell(FILE *out, uint32_t value)
{
        if (value == NONE)
                fprintf(out, " %11s", "-");
        else
                fprintf(out, " %11u", value);
}

static void fields_print(FILE *out)
{
        struct rm_field fields[N_RELEASES][RM_N_FIELDS];

        for (size_t i = 0; i < N_RELEASES; i++)
                layout_fields(&layouts[i], fields[i]);
        for (size_t f = 0; f < RM_N_FIELDS; f++) {
                fprintf(out, "%-44s", fields[0][f].name);
                for (size_t i = 0; i < N_RELEASES; i++)
                        cell(out, fields[i][f].value);
                fputc('\n', out);
        }
}

#define ROW(kind, what, value)                                                                                         \
        fprintf(out, "%-30s %-13s", #kind, what);                                                                      \
        for (size_t i = 0; i < N_RELEASES; i++) {                                                                      \
                const struct rm_layout *layout = &layouts[i];                                                          \
                                                                                                                       \
                (void)layout;                                                                                          \
                cell(out, value);                                                                                      \
        }                                                                                                              \
        fputc('\n', out);

static void requests_print(FILE *out)
{
#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        ROW(kind, "size", size)                                                                                        \
        ROW(kind, "status at", (size) == RM_ABSENT ? NONE : (status))                                                  \
        ROW(kind, "fd at", (size) == RM_ABSENT ? NONE : (fd))                                                          \
        ROW(kind, "client at", (size) == RM_ABSENT ? NONE : (client))
#include "rm/requests.def"
#undef REQUEST
}

static void classes_print(FILE *out)
{
        static const struct {
                uint32_t number;
                const char *name;
        } classes[] = {
#define CLASS(number, size, name) { number, name },
#include "rm/classes.def"
#undef CLASS
        };

        for (size_t c = 0; c < sizeof(classes) / sizeof(classes[0]); c++) {
                struct rm_call call = { .kind = RM_ALLOC, .class_or_cmd = classes[c].number, .params = 1 };

                fprintf(out, "0x%04x %-37s", classes[c].number, classes[c].name);
                for (size_t i = 0; i < N_RELEASES; i++)
                        cell(out, rm_params_size(&layouts[i], &call));
                fputc('\n', out);
        }
}

static void heading(FILE *out, const char *text)
{
        fprintf(out, "\n%-44s", text);
        for (size_t i = 0; i < N_RELEASES; i++)
                fprintf(out, " %11s", releases[i]);
        fputc('\n', out);
}

static void layouts_print(FILE *out)
{
        fprintf(out, "Resolved layouts of the driver's blocks, in bytes. Written by\n"
                     "        BUILD/tests/golden/layouts > tests/golden/layouts.txt\n"
                     "Check every changed number against the driver's sources before committing it.\n");
        heading(out, "FIELDS (fields.def)");
        fields_print(out);
        heading(out, "BLOCKS (requests.def)");
        requests_print(out);
        heading(out, "PARAMETERS OF CLASSES (classes.def)");
        classes_print(out);
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

        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_version version;

                if (rm_version_parse(releases[i], &version) != 0 || rm_layout_for(version, &layouts[i]) != RM_OK) {
                        printf("Bail out! %s is not known\n", releases[i]);
                        return 1;
                }
        }
        if (argc < 2) {
                layouts_print(stdout);
                return 0;
        }

        golden = fopen(argv[1], "r");
        now = tmpfile();
        if (!golden || !now) {
                printf("Bail out! %s cannot be read, or there is no room for a temporary file\n", argv[1]);
                return 1;
        }
        layouts_print(now);
        rewind(now);
        if (golden_compare(golden, now) == 0)
                printf("ok 1 - layouts are as in the golden file\n1..1\n");
        else
                printf("# if this is meant: %s > tests/golden/layouts.txt, and read the diff\n"
                       "not ok 1 - layouts are as in the golden file\n1..1\n",
                       argv[0]);
        (void)fclose(golden);
        (void)fclose(now);
        return 0;
}
