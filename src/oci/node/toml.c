/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/node/toml.h"

#include <errno.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
        return at + strspn(at, " \t");
}

static const char *skip_comment(const char *at)
{
        return *at == '#' ? at + strcspn(at, "\n") : at;
}

/* Blanks, comments and line ends. */
static const char *skip_space(const char *at)
{
        const char *from;

        do {
                from = at;
                at = skip_comment(at + strspn(at, " \t\r\n"));
        } while (at != from);
        return at;
}

/* Copies the string that begins here and returns what is behind it; `size` 0: only that. Escapes but \" and \\ stay as
 * they are. NULL: it does not end, or has no room. */
static const char *read_string(const char *at, char *ret, size_t size)
{
        const char *mark = *at == '"' ? "\"\"\"" : "'''";
        size_t width = !strncmp(at, mark, 3) ? 3 : 1, n = 0, more;

        for (at += width; strncmp(at, mark, width) != 0; at++) {
                if (*at == '\\' && *mark == '"' && (at[1] == '"' || at[1] == '\\'))
                        at++;
                if (!*at || (*at == '\n' && width == 1) || (size && n + 1 == size))
                        return NULL;
                if (size)
                        ret[n++] = *at;
        }
        at += width;
        for (more = 0; width == 3 && *at == *mark && more < 2; more++) /* """a""""" ends with two quotes of its own */
                at++;
        if (size)
                ret[n] = '\0';
        return at;
}

/* A dotted key is appended to the path. */
static const char *read_key(struct toml *toml, const char *at)
{
        static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

        for (;; at++) {
                size_t start = toml->starts[toml->n], length;
                char *key = toml->keys + start;

                at = skip_blanks(at);
                if (toml->n == TOML_KEYS || start + 1 >= TOML_ROOM)
                        return NULL;
                if (*at == '"' || *at == '\'') {
                        at = read_string(at, key, TOML_ROOM - start);
                        if (!at || strpbrk(key, "\\\n")) /* it might name another key than it seems to */
                                return NULL;
                } else {
                        length = strspn(at, bare);
                        if (!length || start + length + 1 >= TOML_ROOM)
                                return NULL;
                        memcpy(key, at, length);
                        key[length] = '\0';
                        at += length;
                }
                toml->starts[++toml->n] = start + strlen(key) + 1;
                at = skip_blanks(at);
                if (*at != '.')
                        return at;
        }
}

static const char *skip_value(const char *at)
{
        char open[TOML_DEPTH];
        size_t depth = 0;

        while (at && *at && (depth || (*at != '\n' && *at != '#'))) {
                if (*at == '"' || *at == '\'') {
                        at = read_string(at, NULL, 0);
                        continue;
                }
                if (*at == '#') {
                        at = skip_comment(at);
                        continue;
                }
                if (*at == '[' || *at == '{') {
                        if (depth == TOML_DEPTH)
                                return NULL;
                        open[depth++] = *at == '[' ? ']' : '}';
                } else if (*at == ']' || *at == '}') {
                        if (!depth || open[--depth] != *at)
                                return NULL;
                }
                at++;
        }
        return depth ? NULL : at;
}

struct toml toml_begin(const char *text)
{
        return (struct toml){ .text = text, .at = text + (strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3) };
}

int toml_next(struct toml *toml)
{
        const char *at = toml->at = skip_space(toml->at);
        size_t width = 1;

        if (!*at)
                return 0;
        toml->is_array = at[0] == '[' && at[1] == '[';
        toml->value = NULL;
        if (*at == '[') {
                width += toml->is_array;
                toml->n = 0;
                at = read_key(toml, at + width);
                if (!at || strncmp(at, "]]", width) != 0)
                        return -EINVAL;
                at += width;
                toml->n_table = toml->n;
        } else {
                toml->n = toml->n_table;
                at = read_key(toml, at);
                if (!at || *at != '=')
                        return -EINVAL;
                toml->value = skip_blanks(at + 1);
                at = skip_value(toml->value);
                if (!at || at == toml->value)
                        return -EINVAL;
        }
        at = skip_comment(at + strspn(at, " \t\r"));
        if (*at && *at != '\n')
                return -EINVAL;
        toml->at = at;
        return 1;
}

size_t toml_line(const struct toml *toml)
{
        size_t line = 1;

        for (const char *at = toml->text; at < toml->at; at++)
                line += *at == '\n';
        return line;
}

size_t toml_common(const struct toml *toml, const char *const *path)
{
        size_t n = 0;

        while (n < toml->n && path[n] && !strcmp(toml->keys + toml->starts[n], path[n]))
                n++;
        return n;
}

int toml_string(const char **at, char ret[static TOML_STRING])
{
        *at = skip_space(*at);
        *at = skip_space(*at + (**at == ','));
        if (**at == ']')
                return 0;
        if (**at != '"' && **at != '\'')
                return -EINVAL;
        *at = read_string(*at, ret, TOML_STRING);
        return *at ? 1 : -EINVAL;
}
