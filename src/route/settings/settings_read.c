/* SPDX-License-Identifier: Apache-2.0 */
#include "route/settings/settings_read.h"

#include "base/err.h"
#include "base/when.h"

#include <errno.h>
#include <string.h>

enum {
        COUNT_MAX = 2000000000,
        REQUEST_RATE_MAX = 1000000,
};

int settings_refuse(const struct settings_cursor *cursor, const char *wanted)
{
        char line[24] = "";

        if (cursor->line)
                (void)snprintf(line, sizeof(line), ":%zu", cursor->line);
        return err_say(cursor->err, -EINVAL, "%s%s: %s%s%s%s", cursor->file, line, cursor->where,
                       cursor->key ? cursor->key : "", cursor->key ? ": " : "", wanted);
}

static bool is_plain(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text <= ' ' || *text == 127 || strchr(";{}\"'\\$#", *text))
                        return false;
        return true;
}

static int copy_text(char *to, size_t size, const char *text)
{
        size_t n = strlen(text);

        if (n >= size)
                return -ENAMETOOLONG;
        memcpy(to, text, n + 1);
        return 0;
}

int read_text(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        if (!text || copy_text(to, size, text) < 0)
                return settings_refuse(cursor, "expected text (quoted if it is a number) of at most 255 characters");
        return 0;
}

/* A word that is safe in nginx's configuration; a number is taken as it is written. */
int read_word(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        char number[24];
        const char *text = json_string_value(value);

        if (json_is_integer(value)) {
                (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
                text = number;
        }
        if (!text || !is_plain(text) || copy_text(to, size, text) < 0)
                return settings_refuse(cursor, "expected one word without blanks, quotes, or any of ; { } $ # \\");
        return 0;
}

int read_name(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        if (!text || (*text && !route_settings_is_name(text)) || copy_text(to, size, text) < 0)
                return settings_refuse(cursor, "expected a name of 1 to 63 letters, digits and _ . : -");
        return 0;
}

int read_key(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-";
        const char *text = json_string_value(value);

        if (!text || (*text && strlen(text) < 8) || text[strspn(text, allowed)] || copy_text(to, size, text) < 0)
                return settings_refuse(cursor, "expected 8 to 255 letters, digits and . _ ~ + / = -");
        return 0;
}

int read_list(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct settings_list *list = to;
        int r = 0;

        list->n = 0;
        if (!json_is_array(value)) {
                r = read_word(cursor, value, list->at[0], sizeof(list->at[0]));
                list->n = r == 0 && *list->at[0];
                return r;
        }
        (void)size;
        for (size_t i = 0; i < json_array_size(value) && r == 0; i++) {
                if (i == SETTINGS_LIST)
                        return settings_refuse(cursor, "expected at most 8");
                r = read_word(cursor, json_array_get(value, i), list->at[list->n++], sizeof(list->at[0]));
        }
        return r;
}

bool settings_is_port(const char *text)
{
        uint64_t n;

        return number_parse(text, &n) == 0 && n >= 1 && n <= 65535;
}

int read_listen(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct settings_list *list = to;
        int r = read_list(cursor, value, to, size);

        if (r == 0 && list->n == 1 && !strcmp(list->at[0], "off"))
                list->n = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const char *text = list->at[i], *colon = strrchr(text, ':');

                if (strncmp(text, "unix:/", 6) && (colon == text || !settings_is_port(colon ? colon + 1 : text)))
                        return settings_refuse(cursor, "expected PORT, ADDRESS:PORT or unix:/PATH");
        }
        return r;
}

static int read_model(const struct settings_cursor *cursor, const json_t *value, char to[static MODEL_NAME])
{
        const char *text = json_string_value(value);

        if (!text || !model_is_fine(text) || copy_text(to, MODEL_NAME, text) < 0)
                return settings_refuse(cursor, "expected a model's name (quoted if it is a number) of at most 255 "
                                               "characters, without double quotes and backslashes");
        return 0;
}

int read_models(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct settings_models *models = to;

        (void)size;
        models->n = 0;
        if (json_is_string(value) && !*json_string_value(value))
                return 0;
        if (!json_is_array(value) || json_array_size(value) > SETTINGS_MODELS)
                return settings_refuse(cursor, "expected a list of at most 16 names");
        for (; models->n < json_array_size(value); models->n++)
                if (read_model(cursor, json_array_get(value, models->n), models->at[models->n]) < 0)
                        return -EINVAL;
        return 0;
}

int read_count(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);
        uint64_t n = 0;

        (void)size;
        if (json_is_integer(value) && json_integer_value(value) >= 0)
                n = (uint64_t)json_integer_value(value);
        else if (!text || (*text && number_parse(text, &n) < 0))
                n = UINT64_MAX;
        if (n > COUNT_MAX)
                return settings_refuse(cursor, "expected a number from 0 to 2000000000");
        *(uint32_t *)to = (uint32_t)n;
        return 0;
}

int read_rate(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        uint32_t n;
        int r = read_count(cursor, value, &n, size);

        if (r == 0)
                *(uint64_t *)to = n;
        return r;
}

int read_span(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (json_is_integer(value) && json_integer_value(value) == 0)
                text = "0";
        if (!text || duration_parse(text, to) < 0)
                return settings_refuse(cursor, "expected a duration such as 500ms, 10s or 5m");
        return 0;
}

int read_size(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (!text || strchr(text, '%') || bytes_parse(text, 0, to) < 0)
                return settings_refuse(cursor, "expected a size such as 64M");
        return 0;
}

/* A percentage, also one as a number. */
int read_part(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        char number[32];
        const char *text = json_string_value(value);

        (void)size;
        *(unsigned int *)to = 0;
        if (json_is_number(value)) {
                (void)snprintf(number, sizeof(number), "%.4g", json_number_value(value));
                text = number;
        }
        if (text && (!*text || !strcmp(text, "0") || !strcmp(text, "0%")))
                return 0;
        if (!text || permille_parse(text, to) < 0)
                return settings_refuse(cursor, "expected a percentage such as 25%");
        return 0;
}

int read_flag(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (!json_is_boolean(value) && !(text && (!strcmp(text, "true") || !strcmp(text, "false"))))
                return settings_refuse(cursor, "expected true or false");
        *(bool *)to = json_is_true(value) || (text && !strcmp(text, "true"));
        return 0;
}

int read_wake(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct wake *wake = to;
        int r = read_text(cursor, value, wake->command, sizeof(wake->command));

        (void)size;
        if (r < 0)
                return r;
        wake->kind = !strcmp(wake->command, "none")   ? WAKE_NONE :
                     !strcmp(wake->command, "engine") ? WAKE_ENGINE :
                     !strcmp(wake->command, "daemon") ? WAKE_DAEMON :
                                                        WAKE_COMMAND;
        return *wake->command ? 0 : settings_refuse(cursor, "expected none, engine, daemon or a shell command");
}

int read_request_rate(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct request_rate *rate = to;
        const char *text = json_string_value(value), *slash = text ? strchr(text, '/') : NULL;
        char digits[12] = "";
        uint64_t n = 0;

        (void)size;
        *rate = (struct request_rate){ 0 };
        if (text && !*text)
                return 0;
        if (slash && (size_t)(slash - text) < sizeof(digits))
                memcpy(digits, text, (size_t)(slash - text));
        if (!slash || number_parse(digits, &n) < 0 || n < 1 || n > REQUEST_RATE_MAX ||
            (strcmp(slash, "/s") && strcmp(slash, "/m")))
                return settings_refuse(cursor, "expected requests per second or minute, such as 10/s or 600/m");
        *rate = (struct request_rate){ (uint32_t)n, slash[1] == 'm' };
        return 0;
}
