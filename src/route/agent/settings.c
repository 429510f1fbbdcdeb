#include "route/agent/settings.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"
#include "conf/file.h"
#include "route/pick.h"

#include <errno.h>
#include <string.h>

/* Where we are in the file, for messages. */
struct cursor {
        const char *file;
        char where[SETTINGS_NAME + 24]; /* "replica 'chat-1': " */
        const char *key;
        struct err *err;
};

struct reader {
        int (*read)(const struct cursor *cursor, const json_t *value, void *to, size_t size);
};

struct row {
        const char *key;
        const struct reader *reader;
        size_t offset, size;
        const char *preset, *meaning;
};

static int refuse(const struct cursor *cursor, const char *wanted)
{
        return err_say(cursor->err, -EINVAL, "%s: %s%s%s%s", cursor->file, cursor->where,
                       cursor->key ? cursor->key : "", cursor->key ? ": " : "", wanted);
}

/* ---- readers: a value of the file, or a preset, which is text ------------------------------------------------ */

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

static int read_text(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        if (!text || copy_text(to, size, text) < 0)
                return refuse(cursor, "a text, please (quoted if it is a number), and not longer than 255 characters");
        return 0;
}

/* A text that nginx's configuration can bear; a number is taken as it is written. */
static int read_word(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        char number[24];
        const char *text = json_string_value(value);

        if (json_is_integer(value)) {
                (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
                text = number;
        }
        if (!text || !is_plain(text) || copy_text(to, size, text) < 0)
                return refuse(cursor, "one word, please, without blanks, quotes, or any of ; { } $ # \\");
        return 0;
}

static int read_name(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        if (!text || (*text && !route_settings_is_name(text)) || copy_text(to, size, text) < 0)
                return refuse(cursor, "a name of 1 to 63 letters, digits and _ . : - is needed");
        return 0;
}

static int read_key(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-";
        const char *text = json_string_value(value);

        if (!text || (*text && strlen(text) < 8) || text[strspn(text, allowed)] || copy_text(to, size, text) < 0)
                return refuse(cursor, "8 to 255 letters, digits and . _ ~ + / = - are needed");
        return 0;
}

static int read_list(const struct cursor *cursor, const json_t *value, void *to, size_t size)
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
                        return refuse(cursor, "at most 8, please");
                r = read_word(cursor, json_array_get(value, i), list->at[list->n++], sizeof(list->at[0]));
        }
        return r;
}

static bool is_port(const char *text)
{
        uint64_t n;

        return number_parse(text, &n) == 0 && n >= 1 && n <= 65535;
}

static int read_listen(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct settings_list *list = to;
        int r = read_list(cursor, value, to, size);

        if (r == 0 && list->n == 1 && !strcmp(list->at[0], "off"))
                list->n = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const char *text = list->at[i], *colon = strrchr(text, ':');

                if (strncmp(text, "unix:/", 6) && !is_port(colon ? colon + 1 : text))
                        return refuse(cursor, "PORT, ADDRESS:PORT or unix:/PATH, please");
        }
        return r;
}

static int read_models(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        struct settings_models *models = to;

        (void)size;
        models->n = 0;
        if (json_is_string(value) && !*json_string_value(value))
                return 0;
        if (!json_is_array(value) || json_array_size(value) > SETTINGS_MODELS)
                return refuse(cursor, "a list of at most 16 names, please");
        for (; models->n < json_array_size(value); models->n++)
                if (read_text(cursor, json_array_get(value, models->n), models->at[models->n], SETTINGS_WORD) < 0)
                        return -EINVAL;
        return 0;
}

static int read_path(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        return read_word(cursor, value, to, size);
}

static int read_count(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);
        uint64_t n = 0;

        (void)size;
        if (json_is_integer(value) && json_integer_value(value) >= 0)
                n = (uint64_t)json_integer_value(value);
        else if (!text || (*text && number_parse(text, &n) < 0))
                n = UINT64_MAX;
        if (n > 2000000000)
                return refuse(cursor, "a number from 0 to 2000000000, please");
        *(uint32_t *)to = (uint32_t)n;
        return 0;
}

static int read_rate(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        uint32_t n;
        int r = read_count(cursor, value, &n, size);

        if (r == 0)
                *(uint64_t *)to = n;
        return r;
}

static int read_span(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (json_is_integer(value) && json_integer_value(value) == 0)
                text = "0";
        if (!text || duration_parse(text, to) < 0)
                return refuse(cursor, "a span such as 500ms, 10s or 5m, please");
        return 0;
}

static int read_size(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (!text || strchr(text, '%') || bytes_parse(text, 0, to) < 0)
                return refuse(cursor, "a size such as 64M, please");
        return 0;
}

/* A percentage, also one as a number. */
static int read_part(const struct cursor *cursor, const json_t *value, void *to, size_t size)
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
                return refuse(cursor, "a percentage such as 25%, please");
        return 0;
}

static int read_flag(const struct cursor *cursor, const json_t *value, void *to, size_t size)
{
        const char *text = json_string_value(value);

        (void)size;
        if (!json_is_boolean(value) && !(text && (!strcmp(text, "true") || !strcmp(text, "false"))))
                return refuse(cursor, "true or false, please");
        *(bool *)to = json_is_true(value) || (text && !strcmp(text, "true"));
        return 0;
}

static int read_wake(const struct cursor *cursor, const json_t *value, void *to, size_t size)
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
        return *wake->command ? 0 : refuse(cursor, "none, engine, daemon or a shell command, please");
}

/* "10/s", "600/m". */
static int read_request_rate(const struct cursor *cursor, const json_t *value, void *to, size_t size)
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
        if (!slash || number_parse(digits, &n) < 0 || n < 1 || n > 1000000 ||
            (strcmp(slash, "/s") && strcmp(slash, "/m")))
                return refuse(cursor, "requests per second or minute, please: 10/s or 600/m");
        *rate = (struct request_rate){ (uint32_t)n, slash[1] == 'm' };
        return 0;
}

#define READER(name) static const struct reader reader_##name = { read_##name };
READER(text)
READER(word)
READER(name)
READER(key)
READER(list)
READER(listen)
READER(models)
READER(path)
READER(count)
READER(rate)
READER(span)
READER(size)
READER(part)
READER(flag)
READER(wake)
READER(request_rate)
#undef READER

/* ---- rows ---------------------------------------------------------------------------------------------------- */

#define ROW(type, key, reader, field, preset, meaning)                                                                 \
        { key, &reader_##reader, offsetof(struct type, field), sizeof(((struct type *)NULL)->field), preset, meaning },
#define NO_ROW(...)

static const struct row rows_top[] = {
#define SETTING(...) ROW(settings, __VA_ARGS__)
#define OF_REPLICA NO_ROW
#define OF_KEY NO_ROW
#define OF_SERVICE NO_ROW
#include "route/agent/settings.def"
#undef SETTING
#undef OF_REPLICA
        { 0 }
};
static const struct row rows_replica[] = {
#define SETTING NO_ROW
#define OF_REPLICA(...) ROW(replica_settings, __VA_ARGS__)
#include "route/agent/settings.def"
#undef OF_REPLICA
#undef OF_KEY
        { 0 }
};
static const struct row rows_key[] = {
#define OF_REPLICA NO_ROW
#define OF_KEY(...) ROW(settings_key, __VA_ARGS__)
#include "route/agent/settings.def"
#undef OF_KEY
#undef OF_SERVICE
        { 0 }
};
static const struct row rows_service[] = {
#define OF_KEY NO_ROW
#define OF_SERVICE(...) ROW(settings_service, __VA_ARGS__)
#include "route/agent/settings.def"
        { 0 }
};
/* What a replica of the file has besides. */
static const struct row rows_listed[] = { { "name", &reader_name, offsetof(struct settings_replica, name),
                                            SETTINGS_NAME, "", "its name here" },
                                          { "address", &reader_word, offsetof(struct settings_replica, address),
                                            SETTINGS_WORD, "", "HOST:PORT or unix:/PATH" },
                                          { 0 } };

static const struct row *row_find(const struct row *rows, const char *key)
{
        for (; rows && rows->key; rows++)
                if (!strcmp(rows->key, key))
                        return rows;
        return NULL;
}

static int preset(struct cursor *cursor, const struct row *rows, void *to)
{
        for (; rows->key; rows++) {
                json_t *value = json_string(rows->preset);
                int r;

                cursor->key = rows->key;
                r = value ? rows->reader->read(cursor, value, (char *)to + rows->offset, rows->size) : -ENOMEM;
                json_decref(value);
                if (r < 0)
                        return r;
        }
        cursor->key = NULL;
        return 0;
}

/* Every member of an object by its row, of one table or the other; `else_known` are keys that somebody else reads. */
static int read_object(struct cursor *cursor, const json_t *object, const struct row *rows, void *to,
                       const struct row *more, void *to_more, const char *else_known)
{
        const char *key;
        json_t *value;

        if (!json_is_object(object))
                return refuse(cursor, "settings of the form «key: value» belong here");
        json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
                const struct row *row = row_find(rows, key), *other = row_find(more, key);
                int r;

                cursor->key = key;
                if (!row && !other && (!else_known || !strstr(else_known, key)))
                        return refuse(cursor, "there is no such key here ('sublet route --settings')");
                r = row   ? row->reader->read(cursor, value, (char *)to + row->offset, row->size) :
                    other ? other->reader->read(cursor, value, (char *)to_more + other->offset, other->size) :
                            0;
                if (r < 0)
                        return r;
        }
        cursor->key = NULL;
        return 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

bool route_settings_is_name(const char *text)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
        size_t n = strspn(text, allowed);

        return n > 0 && n < SETTINGS_NAME && !text[n];
}

static bool is_address(const char *text)
{
        const char *colon = strrchr(text, ':');

        return !strncmp(text, "unix:/", 6) ? strlen(text) < 108 : colon && colon != text && is_port(colon + 1);
}

static int read_replica(struct cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_replica *replica = &settings->replicas[settings->n_replicas];
        int r;

        *replica = (struct settings_replica){ .config = settings->defaults };
        if ((r = read_object(cursor, item, rows_replica, &replica->config, rows_listed, replica, NULL)) < 0)
                return r;
        if (!*replica->name)
                return refuse(cursor, "each replica needs a name");
        (void)snprintf(cursor->where, sizeof(cursor->where), "replica '%s': ", replica->name);
        if (!is_address(replica->address))
                return refuse(cursor, "its address is needed: HOST:PORT or unix:/PATH");
        for (size_t i = 0; i < settings->n_replicas; i++)
                if (!strcmp(settings->replicas[i].name, replica->name))
                        return refuse(cursor, "there are two of this name");
        settings->n_replicas++;
        return 0;
}

static int read_api_key(struct cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_key *key = &settings->keys[settings->n_keys];
        int r;

        if ((r = preset(cursor, rows_key, key)) < 0 ||
            (r = read_object(cursor, item, rows_key, key, NULL, NULL, NULL)) < 0)
                return r;
        if (!*key->name || !*key->key)
                return refuse(cursor, "each has a name and a key");
        for (size_t i = 0; i < settings->n_keys; i++)
                if (!strcmp(settings->keys[i].key, key->key) || !strcmp(settings->keys[i].name, key->name))
                        return refuse(cursor, "its name or key stands above already");
        settings->n_keys++;
        return 0;
}

static int read_service(struct cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_service *service = &settings->services[settings->n_services];
        int r;

        if ((r = preset(cursor, rows_service, service)) < 0)
                return r;
        service->config = settings->defaults;
        if ((r = read_object(cursor, item, rows_service, service, rows_replica, &service->config, NULL)) < 0)
                return r;
        if (!*service->service)
                return refuse(cursor, "the name of a service is needed");
        settings->n_services++;
        return 0;
}

static int read_each(struct cursor *cursor, const json_t *file, const char *key, size_t most, struct settings *settings,
                     int (*read)(struct cursor *cursor, const json_t *item, struct settings *settings))
{
        const json_t *list = json_object_get(file, key);
        int r = 0;

        cursor->where[0] = '\0';
        cursor->key = key;
        if (list && (!json_is_array(list) || json_array_size(list) > most))
                return err_say(cursor->err, -EINVAL, "%s: %s: a list of at most %zu, please", cursor->file, key, most);
        for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
                (void)snprintf(cursor->where, sizeof(cursor->where), "%s, number %zu: ", key, i + 1);
                cursor->key = NULL;
                r = read(cursor, json_array_get(list, i), settings);
        }
        return r;
}

static int check_settings(struct cursor *cursor, const struct settings *settings)
{
        cursor->where[0] = '\0';
        cursor->key = NULL;
        if (!pick_policy_find(settings->policy))
                return refuse(cursor, "policy: there is none of this name (docs/router-policy.md)");
        if (!*settings->certificate != !*settings->certificate_key)
                return refuse(cursor, "certificate and certificate_key belong together");
        if (settings->zone < 8 * MIB)
                return refuse(cursor, "zone: at least 8M, please");
        if (settings->health_every < 10 * NSEC_PER_MSEC || settings->health_timeout < 10 * NSEC_PER_MSEC)
                return refuse(cursor, "health_every and health_timeout: at least 10ms, please");
        if (*settings->health != '/' && strcmp(settings->health, "off"))
                return refuse(cursor, "health: a path such as /health, or off");
        if (!settings->listen.n && !*settings->certificate)
                return refuse(cursor, "listen: nobody could connect");
        return 0;
}

int route_settings_parse(const char *name, const json_t *file, struct settings *ret, struct err *err)
{
        struct cursor cursor = { .file = name, .err = err };
        const json_t *defaults = json_object_get(file, "defaults");
        int r;

        memset(ret, 0, sizeof(*ret));
        if ((r = preset(&cursor, rows_top, ret)) < 0 || (r = preset(&cursor, rows_replica, &ret->defaults)) < 0 ||
            (r = read_object(&cursor, file, rows_top, ret, NULL, NULL, "defaults replicas keys kubernetes")) < 0)
                return r;
        (void)snprintf(cursor.where, sizeof(cursor.where), "defaults: ");
        if (defaults && (r = read_object(&cursor, defaults, rows_replica, &ret->defaults, NULL, NULL, NULL)) < 0)
                return r;
        if ((r = read_each(&cursor, file, "replicas", SETTINGS_REPLICAS, ret, read_replica)) < 0 ||
            (r = read_each(&cursor, file, "keys", SETTINGS_KEYS, ret, read_api_key)) < 0 ||
            (r = read_each(&cursor, file, "kubernetes", SETTINGS_SERVICES, ret, read_service)) < 0)
                return r;
        return check_settings(&cursor, ret);
}

int route_settings_read(const char *path, struct settings **ret, struct err *err)
{
        _cleanup_(json_decrefp) json_t *file = NULL;
        _cleanup_(freep) struct settings *settings = malloc(sizeof(*settings));
        int r;

        if (!settings)
                return err_set(err, -ENOMEM, "reading %s", path);
        if ((r = conf_read(path, &file, err)) < 0 || (r = route_settings_parse(path, file, settings, err)) < 0)
                return r;
        *ret = TAKE(settings);
        return 0;
}

static void print_rows(FILE *to, const char *title, const struct row *rows)
{
        (void)fprintf(to, "%s\n", title);
        for (; rows->key; rows++)
                (void)fprintf(to, "  %-16s %s%s%s%s\n", rows->key, rows->meaning, *rows->preset ? " [" : "",
                              rows->preset, *rows->preset ? "]" : "");
}

void route_settings_print(FILE *to)
{
        print_rows(to, "The file (YAML); defaults in brackets:", rows_top);
        print_rows(to, "replicas: a list of", rows_listed);
        print_rows(to,
                   "  and of these, which may also stand in defaults: and in a service of kubernetes:", rows_replica);
        print_rows(to, "keys: a list of", rows_key);
        print_rows(to, "kubernetes: a list of", rows_service);
}
