/* SPDX-License-Identifier: Apache-2.0 */
/* The parts: see ownmem.h. */
#define _GNU_SOURCE
#include "ownmem.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } parts[] = { { "calls", contexts }, { "groups", groups }, { "objects", objects }, { "ranges", ranges } };

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++)
                if (!strcmp(argv[1], parts[i].name)) {
                        parts[i].run();
                        return 0;
                }
        (void)fprintf(stderr, "usage: ownmem calls|groups|objects|ranges\n");
        return 2;
}
