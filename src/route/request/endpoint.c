/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/endpoint.h"

#include "base/cleanup.h"

#include <string.h>
#include <strings.h>

enum {
        OTHER = ENDPOINT_OTHER,
        GET = ENDPOINT_GET,
        POST = ENDPOINT_POST,
        DEL = ENDPOINT_DEL,
        ANYWHERE = false,
        STORED = true,
        BOUNDARY_MAX = 70, /* RFC 2046 */
};

static const struct endpoint endpoints[] = {
#define ENDPOINT(methods, path, body, model, place) { methods, path, ENDPOINT_##body, ENDPOINT_##model, place },
#include "route/request/endpoints.def"
#undef ENDPOINT
};

/* Segment by segment; `*` fits any that is not empty. */
static bool fits(const char *pattern, const char *path, const char *end)
{
        for (; *pattern && path < end; pattern++) {
                if (*pattern != '*') {
                        if (*path++ != *pattern)
                                return false;
                        continue;
                }
                if (*path == '/')
                        return false;
                while (path < end && *path != '/')
                        path++;
        }
        return !*pattern && path == end;
}

const struct endpoint *endpoint_find(const char *path, size_t size, enum endpoint_method method,
                                     unsigned int *ret_methods)
{
        const struct endpoint *found = NULL;

        *ret_methods = 0;
        for (size_t i = 0; i < ARRAY_SIZE(endpoints) && !found; i++) {
                if (!fits(endpoints[i].path, path, path + size))
                        continue;
                *ret_methods |= endpoints[i].methods;
                if (endpoints[i].methods & (unsigned int)method)
                        found = &endpoints[i];
        }
        return found;
}

/* ---- forms ------------------------------------------------------------------------------------------------- */

/* The value of a parameter of a header, without its quotes. */
static bool parameter(const char *text, const char *end, const char *name, const char **ret, size_t *ret_size)
{
        size_t length = strlen(name);

        for (const char *at = memchr(text, ';', (size_t)(end - text)); at; at = memchr(at, ';', (size_t)(end - at))) {
                for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
                        ;
                if ((size_t)(end - at) <= length || strncasecmp(at, name, length) != 0 || at[length] != '=')
                        continue;
                at += length + 1;
                if (at < end && *at == '"') {
                        const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));

                        *ret = ++at;
                        *ret_size = (size_t)((quote ? quote : end) - at);
                        return quote != NULL;
                }
                *ret = at;
                while (at < end && *at != ';' && *at != ' ' && *at != '\t')
                        at++;
                *ret_size = (size_t)(at - *ret);
                return true;
        }
        return false;
}

/* "\r\n--BOUNDARY"; 0: the header has none. */
static size_t delimiter_of(const char *type, size_t size, char ret[BOUNDARY_MAX + 4])
{
        static const char form[] = "multipart/form-data";
        const char *boundary;
        size_t n;

        if (size < sizeof(form) - 1 || strncasecmp(type, form, sizeof(form) - 1) != 0 ||
            !parameter(type, type + size, "boundary", &boundary, &n) || !n || n > BOUNDARY_MAX)
                return 0;
        memcpy(ret, "\r\n--", 4);
        memcpy(ret + 4, boundary, n);
        return n + 4;
}

/* Whether the head of a part says that it is this field. */
static bool is_field(const char *head, const char *end, const char *name)
{
        static const char wanted[] = "content-disposition:";
        const char *found;
        size_t size;

        for (const char *line = head; line < end;) {
                const char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
                const char *stop = next ? next : end;

                if ((size_t)(stop - line) > sizeof(wanted) - 1 && !strncasecmp(line, wanted, sizeof(wanted) - 1))
                        return parameter(line, stop, "name", &found, &size) && size == strlen(name) &&
                               !memcmp(found, name, size);
                line = next ? next + 2 : end;
        }
        return false;
}

bool endpoint_form_field(const char *type, size_t type_size, const char *body, size_t size, const char *name,
                         const char **ret, size_t *ret_size)
{
        char delimiter[BOUNDARY_MAX + 4];
        size_t n = delimiter_of(type, type_size, delimiter);
        const char *at = body, *end = body + size;

        if (!n || size < n - 2 || memcmp(body, delimiter + 2, n - 2) != 0) /* the first has no line before it */
                return false;
        at += n - 2;
        while (end - at > 2 && !memcmp(at, "\r\n", 2)) {
                const char *value = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
                const char *stop = value ? memmem(value + 2, (size_t)(end - value - 2), delimiter, n) : NULL;

                if (!stop)
                        return false;
                if (is_field(at + 2, value, name)) {
                        *ret = value + 4;
                        *ret_size = stop > value + 4 ? (size_t)(stop - value - 4) : 0;
                        return true;
                }
                at = stop + n;
        }
        return false;
}
