/* SPDX-License-Identifier: Apache-2.0 */
/* The router's file: whatever the bytes, a complaint, or settings of which nginx's configuration can be made: one
 * brace for each, and no line that a text of the file has broken. */
#include "base/err.h"
#include "conf/file.h"
#include "route/agent/nginx_conf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_conf(const struct settings *settings)
{
        const struct nginx_environment environment = { "/d", "/m.so", true, 1024 };
        char *text = NULL;
        size_t size = 0, quotes = 0;
        int depth = 0;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return;
        nginx_conf_write(to, settings, &environment);
        if (fclose(to) != 0)
                abort();
        for (size_t i = 0; i < size; i++) {
                quotes += text[i] == '"' && !memchr("\\", text[i ? i - 1 : 0], 1);
                depth += (text[i] == '{') - (text[i] == '}');
                if (depth < 0 || !text[i])
                        abort();
        }
        if (depth || quotes % 2)
                abort();
        free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct settings settings;
        struct err err = { 0 };
        struct conf_lines lines = { 0 };
        json_t *file = NULL;

        if (conf_parse("x", (const char *)data, size, &file, &lines, &err) < 0)
                goto end;
        if (route_settings_parse("x", file, &lines, &settings, &err) == 0)
                check_conf(&settings);
        else if (strncmp(err.text, "x:", 2) != 0)
                abort();
        json_decref(file);
end:
        conf_lines_done(&lines);
        return 0;
}
