/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tools/abi, which compiles and runs it: the rows of src/rm as they are for a release, known or not, a line each.
 * What a release does not have is "-". For a release that is not known, that is the newest known one's rows below it.
 */
#include "rm/layout.h"
#include "rm/version.h"

#include <inttypes.h>
#include <stdio.h>

#define NONE RM_ABSENT

static void print(const char *what, const char *name, size_t n, const uint64_t values[static n])
{
        (void)printf("%s %s", what, name);
        for (size_t i = 0; i < n; i++) {
                if (values[i] == NONE)
                        (void)printf(" -");
                else
                        (void)printf(" %" PRIu64, values[i]);
        }
        (void)printf("\n");
}

#define PRINT(what, name, ...)                                                                                         \
        do {                                                                                                           \
                const uint64_t values[] = { __VA_ARGS__ };                                                             \
                                                                                                                       \
                print(what, name, sizeof(values) / sizeof(values[0]), values);                                         \
        } while (0)

static void print_calls(const struct rm_layout *layout)
{
#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        PRINT("request", #kind, nr, size, status, fd, client);
#include "rm/requests.def"
#undef REQUEST
#define BLOCK(kind, ...) PRINT("block", #kind, __VA_ARGS__);
#include "rm/blocks.def"
#undef BLOCK
}

static void print_numbers(const struct rm_layout *layout)
{
#define CLASS(number, size, name) PRINT("class", name, number, size);
#include "rm/classes.def"
#undef CLASS
#define CONTROL(number, name) PRINT("control", name, number);
#include "rm/controls.def"
#undef CONTROL
#define POINTER(control, since, at, count_at, power, element, direction, meaning)                                      \
        if (since <= layout->version.branch)                                                                           \
                PRINT((element) ? "pointer" : "refused", "-", control, at);
#include "rm/pointers.def"
#undef POINTER
}

int main(int argc, char *argv[])
{
        struct rm_layout layout = { .alloc_size = 0 };

        if (argc != 2 || rm_version_parse(argv[1], &layout.version) < 0)
                return 2;
#define SINCE(branch, minor, patch, field, value)                                                                      \
        if (rm_version_cmp(layout.version, (struct rm_version){ branch, minor, patch }) >= 0)                          \
                layout.field = value;
#include "rm/layouts.def"
#undef SINCE
        (void)printf("known %d\n", rm_version_is_known(layout.version));
        print_calls(&layout);
        print_numbers(&layout);
#define FIELD(name, unit, meaning) PRINT("field", #name, layout.name);
#include "rm/fields.def"
#undef FIELD
        return 0;
}
