/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/message.h"

#include <stdlib.h>
#include <string.h>

void message_header(const char *head, const char *end, const char *name, char ret[64])
{
        size_t length = strlen(name), n = 0;

        ret[0] = 0;
        for (const char *line = memchr(head, '\n', (size_t)(end - head)); line && line + 1 + length < end;
             line = memchr(line + 1, '\n', (size_t)(end - line - 1))) {
                if (strncasecmp(line + 1, name, length) != 0 || line[1 + length] != ':')
                        continue;
                for (const char *p = line + 2 + length; p < end && *p != '\r' && n < 63; p++)
                        if (*p != ' ')
                                ret[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
                ret[n] = 0;
                return;
        }
}

bool message_unchunk(char *at, const char *end, size_t *ret_size, char **ret_end)
{
        char *out = at, *in = at;
        bool is_complete = false;

        for (int pass = 0; pass < 2; pass++) { /* first look whether all is there, then move */
                in = out = at;
                for (;;) {
                        char *line = memchr(in, '\n', (size_t)(end - in));
                        size_t size = line ? strtoul(in, NULL, 16) : 0;

                        if (!line || size > MESSAGE_BODY_MAX || (size_t)(end - line) < size + 3)
                                return false;
                        if (pass == 1)
                                memmove(out, line + 1, size);
                        out += size;
                        in = line + 1 + size + 2;
                        if (size == 0)
                                break;
                }
                is_complete = true;
        }
        *ret_size = (size_t)(out - at);
        *ret_end = in;
        return is_complete;
}
