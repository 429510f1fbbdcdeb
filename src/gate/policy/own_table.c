/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/own_table.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>

enum {
        VERSION = 1,
        LINE_MAX_BYTES = 160,
};

struct reader {
        struct own_table *table;
        struct own_model *model; /* that began last; NULL: none yet */
        unsigned int line;
        bool has_version;
};

/* Decimal, or hexadecimal after 0x; digits and nothing else. */
static bool read_number(const char *text, uint64_t most, uint64_t *ret)
{
        unsigned int base = !strncmp(text, "0x", 2) ? 16 : 10;
        uint64_t value = 0;

        text += base == 16 ? 2 : 0;
        if (!*text)
                return false;
        for (; *text; text++) {
                const char *digits = "0123456789abcdef", *at = strchr(digits, *text);

                if (!at || (unsigned int)(at - digits) >= base)
                        return false;
                value = value * base + (uint64_t)(at - digits);
                if (value > most)
                        return false;
        }
        *ret = value;
        return true;
}

/* Printable ASCII that fits, and is not empty. */
static bool read_text(const char *text, char *ret, size_t room)
{
        size_t length = strlen(text);

        if (!length || length >= room)
                return false;
        for (size_t i = 0; i < length; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        memcpy(ret, text, length + 1);
        return true;
}

static const char *begin_model(struct reader *reader, const char *value)
{
        struct own_table *table = reader->table;
        struct own_model model = { 0 };

        if (table->n == OWN_MODELS_MAX)
                return "too many models";
        if (!read_text(value, model.name, sizeof(model.name)))
                return "not the name of a model";
        for (size_t i = 0; i < table->n; i++)
                if (!strcmp(table->models[i].name, model.name))
                        return "this model was there before";
        if (reader->model && !reader->model->architecture)
                return "the model before has no architecture";
        reader->model = &table->models[table->n++];
        *reader->model = model;
        return NULL;
}

static const char *set_kind(struct reader *reader, const char *word, const char *value)
{
        uint64_t kib;

        for (enum own_kind kind = 0; kind < OWN_KINDS; kind++) {
                if (strcmp(word, own_name(kind)) != 0)
                        continue;
                if (!reader->model || reader->model->own.of[kind].is_known)
                        return reader->model ? "the same again" : "it belongs to no model";
                if (!read_number(value, OWN_KIB_MAX, &kib))
                        return "not a number of KiB";
                reader->model->own.of[kind].is_known = true;
                reader->model->own.of[kind].size = kib * KIB;
                return NULL;
        }
        return "an unknown word";
}

/* NULL, or what is wrong with the line. */
static const char *take(struct reader *reader, const char *word, const char *value)
{
        uint64_t number;

        if (!reader->has_version) {
                reader->has_version = !strcmp(word, "own-memory") && read_number(value, VERSION, &number) && number;
                return reader->has_version ? NULL : "not a file of 'sublet doctor --measure', or of a newer one";
        }
        if (!strcmp(word, "release")) {
                if (reader->table->release[0])
                        return "the same again";
                return read_text(value, reader->table->release, sizeof(reader->table->release)) ? NULL :
                                                                                                  "not a release";
        }
        if (!strcmp(word, "model"))
                return begin_model(reader, value);
        if (strcmp(word, "architecture") != 0)
                return set_kind(reader, word, value);
        if (!reader->model || reader->model->architecture)
                return reader->model ? "the same again" : "it belongs to no model";
        if (!read_number(value, UINT32_MAX, &number) || !number)
                return "not an architecture";
        reader->model->architecture = (uint32_t)number;
        return NULL;
}

static const char *take_line(struct reader *reader, const char *line, size_t length)
{
        char text[LINE_MAX_BYTES], *value;

        if (!length || line[0] == '#')
                return NULL;
        if (length >= sizeof(text) || memchr(line, '\0', length))
                return "not a line of such a file";
        memcpy(text, line, length);
        text[length] = '\0';
        value = strchr(text, ' ');
        if (!value)
                return "a word without a value";
        *value++ = '\0';
        return take(reader, text, value);
}

int own_table_parse(const char *text, size_t size, struct own_table *ret, struct err *err)
{
        struct own_table table = { .n = 0 };
        struct reader reader = { .table = &table };

        if (size > OWN_TABLE_MAX)
                return err_say(err, -EINVAL, "larger than such a file is");
        for (const char *at = text, *end = text + size; at < end;) {
                const char *stop = memchr(at, '\n', (size_t)(end - at));
                const char *wrong;

                stop = stop ? stop : end;
                reader.line++;
                wrong = take_line(&reader, at, (size_t)(stop - at));
                if (wrong)
                        return err_say(err, -EINVAL, "line %u: %s", reader.line, wrong);
                at = stop + 1;
        }
        if (!reader.has_version || !table.release[0] || !reader.model || !reader.model->architecture)
                return err_say(err, -EINVAL, "it ends too early");
        *ret = table;
        return 0;
}

void own_table_print(FILE *to, const struct own_table *table)
{
        (void)fprintf(to,
                      "# What the driver takes of a model for an object without being asked, in KiB: measured by\n"
                      "# 'sublet doctor --measure', read by 'sublet daemon' and 'sublet run'.\n"
                      "own-memory %d\nrelease %s\n",
                      VERSION, table->release);
        for (size_t i = 0; i < table->n; i++) {
                const struct own_model *model = &table->models[i];

                (void)fprintf(to, "\nmodel %s\narchitecture 0x%x\n", model->name, model->architecture);
                for (enum own_kind kind = 0; kind < OWN_KINDS; kind++)
                        if (model->own.of[kind].is_known)
                                (void)fprintf(to, "%s %llu\n", own_name(kind),
                                              (unsigned long long)(model->own.of[kind].size / KIB));
        }
}

const struct own_model *own_table_model(const struct own_table *table, const char *name, uint32_t architecture)
{
        for (size_t i = 0; i < table->n; i++)
                if (!strcmp(table->models[i].name, name) && table->models[i].architecture == architecture)
                        return &table->models[i];
        return NULL;
}
