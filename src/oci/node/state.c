/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/node/state.h"

#include "oci/node/files.h"

#include <string.h>

int state_write(const struct install *install, const char *text, struct err *err)
{
        char place[PLACE];

        (void)snprintf(place, sizeof(place), "%s%s/state", install->host, install->prefix);
        return file_write(place, text, strlen(text), &(struct stat){ .st_mode = 0644 }, err);
}

bool state_has(const char *state, const char *kind, const char *path)
{
        char line[INSTALL_PATH + 16];
        size_t n = (size_t)snprintf(line, sizeof(line), "%s%s\n", kind, path);
        const char *at = state;

        while ((at = strstr(at, line)) && at > state && at[-1] != '\n')
                at += n;
        return at;
}

void state_note(struct noting *noting, const char *kind, const char *path)
{
        if (fflush(noting->file) == 0 && !state_has(noting->text, kind, path))
                (void)fprintf(noting->file, "%s%s\n", kind, path);
}

const char *state_next(const char **at, const char *kind, char ret[static INSTALL_PATH])
{
        while (**at) {
                const char *line = *at;
                size_t length = strcspn(line, "\n"), n = strlen(kind);

                *at += length + (line[length] == '\n');
                if (strncmp(line, kind, n) != 0 || length - n >= INSTALL_PATH)
                        continue;
                memcpy(ret, line + n, length - n);
                ret[length - n] = '\0';
                return ret;
        }
        return NULL;
}
