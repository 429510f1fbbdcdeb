/* SPDX-License-Identifier: Apache-2.0 */
/* A table of own memory, whatever it says: refused in a line, or a table that prints as one that says the same. */
#include "base/err.h"
#include "gate/policy/own_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

static void compare(const struct own_table *a, const struct own_table *b)
{
        need(a->n == b->n && !strcmp(a->release, b->release));
        for (size_t i = 0; i < a->n; i++) {
                need(!strcmp(a->models[i].name, b->models[i].name));
                need(a->models[i].architecture == b->models[i].architecture && a->models[i].architecture);
                need(own_table_model(a, b->models[i].name, b->models[i].architecture) == &a->models[i]);
                for (enum own_kind kind = 0; kind < OWN_KINDS; kind++) {
                        need(a->models[i].own.of[kind].is_known == b->models[i].own.of[kind].is_known);
                        need(a->models[i].own.of[kind].size == b->models[i].own.of[kind].size);
                        need(a->models[i].own.of[kind].size <= (bytes)OWN_KIB_MAX * KIB);
                }
        }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct own_table table, again;
        struct err err = { 0 };
        char *text = NULL;
        size_t length = 0;
        FILE *to;

        if (own_table_parse((const char *)data, size, &table, &err) < 0) {
                need(err.text[0] && !strchr(err.text, '\n'));
                return 0;
        }
        to = open_memstream(&text, &length);
        need(to != NULL);
        own_table_print(to, &table);
        (void)fclose(to);
        need(own_table_parse(text, length, &again, &err) == 0);
        compare(&table, &again);
        free(text);
        return 0;
}
