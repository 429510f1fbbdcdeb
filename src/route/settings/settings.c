/* SPDX-License-Identifier: Apache-2.0 */
#include "route/settings/settings.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "conf/file.h"
#include "route/settings/settings_read.h"
#include "route/pick.h"

#include <errno.h>
#include <string.h>

enum {
        CONCURRENT_MAX = 65534, /* what nginx can count */
};

enum table {
        TABLE_TOP,
        TABLE_REPLICA,
        TABLE_LISTED, /* of a replica in the file, besides TABLE_REPLICA */
        TABLE_KEY,
        TABLE_SERVICE,
};

static const struct row {
        enum table table;
        const char *key;
        settings_reader *read;
        size_t offset, size;
        const char *preset, *meaning;
} rows[] = {
#define ROW(table, type, key, reader, field, preset, meaning)                                                          \
        {                                                                                                              \
                table,  key,    read_##reader, offsetof(struct type, field), sizeof(((struct type *)NULL)->field),     \
                preset, meaning                                                                                        \
        },
#define SETTING(...) ROW(TABLE_TOP, settings, __VA_ARGS__)
#define OF_REPLICA(...) ROW(TABLE_REPLICA, replica_settings, __VA_ARGS__)
#define OF_LISTED(...) ROW(TABLE_LISTED, settings_replica, __VA_ARGS__)
#define OF_KEY(...) ROW(TABLE_KEY, settings_key, __VA_ARGS__)
#define OF_SERVICE(...) ROW(TABLE_SERVICE, settings_service, __VA_ARGS__)
#include "route/settings/settings.def"
};

/* Keys at the top of the file that have a table of their own. */
static const char *const sections[] = { "defaults", "replicas", "keys", "kubernetes" };

static const struct row *row_find(enum table table, const char *key)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].table == table && !strcmp(rows[i].key, key))
                        return &rows[i];
        return NULL;
}

static bool is_section(const char *key)
{
        for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
                if (!strcmp(sections[i], key))
                        return true;
        return false;
}

static int row_read(const struct row *row, struct settings_cursor *cursor, const json_t *value, void *to)
{
        cursor->key = row->key;
        return row->read(cursor, value, (char *)to + row->offset, row->size);
}

static int read_presets(struct settings_cursor *cursor, enum table table, void *to)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(json_decrefp) json_t *value = NULL;
                int r;

                if (rows[i].table != table)
                        continue;
                value = json_string(rows[i].preset);
                r = value ? row_read(&rows[i], cursor, value, to) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        cursor->key = NULL;
        return 0;
}

/* Reads every member of an object by its row, of one table or the other (to_more NULL: there is no other). */
static int read_object(struct settings_cursor *cursor, const json_t *object, enum table table, void *to,
                       enum table more, void *to_more)
{
        size_t before = cursor->line;
        const char *key;
        json_t *value;

        if (!json_is_object(object))
                return settings_refuse(cursor, "expected settings of the form 'key: value'");
        json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
                const struct row *row = row_find(table, key), *other = to_more ? row_find(more, key) : NULL;
                int r = 0;

                cursor->key = key;
                cursor->line = conf_line_of(cursor->lines, key);
                if (row || other)
                        r = row_read(row ? row : other, cursor, value, row ? to : to_more);
                else if (table != TABLE_TOP || !is_section(key))
                        r = settings_refuse(cursor, "there is no such key here ('sublet route --settings')");
                if (r < 0)
                        return r;
        }
        cursor->key = NULL;
        cursor->line = before;
        return 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

bool route_settings_is_name(const char *text)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
        size_t n = strspn(text, allowed);

        return n > 0 && n < SETTINGS_NAME && !text[n];
}

/* nginx compares names only. */
static bool is_unnamed(const struct settings_replica *replica, const struct settings *settings)
{
        char host[SETTINGS_WORD];

        return replica->config.is_tls && settings->verifies_replicas && !*replica->config.server_name &&
               !route_address_host(replica->address, host);
}

static int check_address(struct settings_cursor *cursor, const json_t *item, struct settings_replica *replica,
                         const struct settings *settings)
{
        char text[SETTINGS_WORD];
        bool is_tls = false, is_wrong;

        memcpy(text, replica->address, sizeof(text));
        is_wrong = !route_address_parse(text, replica->address, &is_tls);
        replica->config.is_tls |= is_tls;
        if (!is_wrong && !is_unnamed(replica, settings))
                return 0;
        if (json_object_get(item, "address"))
                cursor->line = conf_line_of_key(cursor->lines, item, "address");
        return settings_refuse(cursor, is_wrong ? "expected an address: HOST:PORT, unix:/PATH or https://HOST:PORT" :
                                                  "its address is not a name: give the server_name of its certificate");
}

static int read_replica(struct settings_cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_replica *replica = &settings->replicas[settings->n_replicas];
        int r;

        *replica = (struct settings_replica){ .config = settings->defaults };
        if ((r = read_object(cursor, item, TABLE_REPLICA, &replica->config, TABLE_LISTED, replica)) < 0)
                return r;
        if (!*replica->name)
                return settings_refuse(cursor, "each replica needs a name");
        (void)snprintf(cursor->where, sizeof(cursor->where), "replica '%s': ", replica->name);
        if ((r = check_address(cursor, item, replica, settings)) < 0)
                return r;
        for (size_t i = 0; i < settings->n_replicas; i++)
                if (!strcmp(settings->replicas[i].name, replica->name))
                        return settings_refuse(cursor, "another replica has this name");
        settings->n_replicas++;
        return 0;
}

static int read_api_key(struct settings_cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_key *key = &settings->keys[settings->n_keys];
        int r;

        if ((r = read_presets(cursor, TABLE_KEY, key)) < 0 ||
            (r = read_object(cursor, item, TABLE_KEY, key, TABLE_KEY, NULL)) < 0)
                return r;
        if (!*key->name || !*key->key)
                return settings_refuse(cursor, "each key needs a name and a key");
        if (key->concurrent > CONCURRENT_MAX)
                return settings_refuse(cursor, "concurrent: expected at most 65534");
        for (size_t i = 0; i < settings->n_keys; i++)
                if (!strcmp(settings->keys[i].key, key->key) || !strcmp(settings->keys[i].name, key->name))
                        return settings_refuse(cursor, "an earlier key has this name or value");
        settings->n_keys++;
        return 0;
}

static int read_service(struct settings_cursor *cursor, const json_t *item, struct settings *settings)
{
        struct settings_service *service = &settings->services[settings->n_services];
        int r;

        if ((r = read_presets(cursor, TABLE_SERVICE, service)) < 0)
                return r;
        service->config = settings->defaults;
        if ((r = read_object(cursor, item, TABLE_SERVICE, service, TABLE_REPLICA, &service->config)) < 0)
                return r;
        if (!*service->service)
                return settings_refuse(cursor, "each entry needs the name of a service");
        settings->n_services++;
        return 0;
}

static int read_each(struct settings_cursor *cursor, const json_t *file, const char *key, size_t most,
                     struct settings *settings,
                     int (*read)(struct settings_cursor *cursor, const json_t *item, struct settings *settings))
{
        const json_t *list = json_object_get(file, key);
        char wanted[64];
        int r = 0;

        cursor->where[0] = '\0';
        cursor->key = key;
        cursor->line = conf_line_of_key(cursor->lines, file, key);
        if (list && (!json_is_array(list) || json_array_size(list) > most)) {
                (void)snprintf(wanted, sizeof(wanted), "expected a list of at most %zu", most);
                return settings_refuse(cursor, wanted);
        }
        for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
                (void)snprintf(cursor->where, sizeof(cursor->where), "%s, number %zu: ", key, i + 1);
                cursor->key = NULL;
                cursor->line = conf_line_of(cursor->lines, json_array_get(list, i));
                r = read(cursor, json_array_get(list, i), settings);
        }
        return r;
}

static int refuse_at(struct settings_cursor *cursor, const json_t *file, const char *key, const char *wanted)
{
        cursor->line = conf_line_of_key(cursor->lines, file, key);
        return settings_refuse(cursor, wanted);
}

/* HOST:PORT or [ADDRESS]:PORT. */
static bool is_router(const char *text)
{
        const char *colon = strrchr(text, ':');

        return colon && colon > text && settings_is_port(colon + 1) && (*text == '[' || strchr(text, ':') == colon) &&
               !strchr(text, '/');
}

/* As a browser says it: a scheme, a host and perhaps a port. */
static bool is_origin(const char *text)
{
        const char *host = strstr(text, "://");

        if (!strcmp(text, "*"))
                return true;
        return (!strncmp(text, "https://", 8) || !strncmp(text, "http://", 7)) && host[3] && !strchr(host + 3, '/');
}

static int check_routers(struct settings_cursor *cursor, const json_t *file, const struct settings *settings)
{
        const char *key = settings->routers.n       ? "routers" :
                          *settings->routers_listen ? "routers_listen" :
                                                      "routers_secret";
        bool has_all = settings->routers.n && *settings->routers_listen && *settings->routers_secret;

        if (!has_all && (settings->routers.n || *settings->routers_listen || *settings->routers_secret))
                return refuse_at(cursor, file, key,
                                 "routers, routers_listen and routers_secret must be given together");
        for (size_t i = 0; i < settings->routers.n; i++)
                if (!is_router(settings->routers.at[i]))
                        return refuse_at(cursor, file, "routers", "routers: expected HOST:PORT of each");
        if (has_all && !is_router(settings->routers_listen))
                return refuse_at(cursor, file, "routers_listen", "routers_listen: expected ADDRESS:PORT");
        return 0;
}

static bool is_collector(const char *text)
{
        const char *host = !strncmp(text, "http://", 7) ? text + 7 : !strncmp(text, "https://", 8) ? text + 8 : "";

        return *host && *host != '/' && !strpbrk(host, " \t\r\n@?#");
}

static int check_settings(struct settings_cursor *cursor, const json_t *file, const struct settings *settings)
{
        cursor->where[0] = '\0';
        cursor->key = NULL;
        if (!pick_policy_find(settings->policy))
                return refuse_at(cursor, file, "policy",
                                 "policy: there is no policy of this name (docs/router-policy.md)");
        if (!*settings->certificate != !*settings->certificate_key)
                return refuse_at(cursor, file, *settings->certificate ? "certificate" : "certificate_key",
                                 "certificate and certificate_key must be given together");
        if (!*settings->replica_certificate != !*settings->replica_certificate_key)
                return refuse_at(cursor, file,
                                 *settings->replica_certificate ? "replica_certificate" : "replica_certificate_key",
                                 "replica_certificate and replica_certificate_key must be given together");
        if (settings->zone < 8 * MIB)
                return refuse_at(cursor, file, "zone", "zone: must be at least 8M");
        if (settings->health_every < 10 * NSEC_PER_MSEC || settings->health_timeout < 10 * NSEC_PER_MSEC)
                return refuse_at(cursor, file,
                                 settings->health_every < 10 * NSEC_PER_MSEC ? "health_every" : "health_timeout",
                                 "health_every and health_timeout: must be at least 10ms");
        if (*settings->health != '/' && strcmp(settings->health, "off"))
                return refuse_at(cursor, file, "health", "health: expected a path such as /health, or off");
        if (*settings->traces && !is_collector(settings->traces))
                return refuse_at(cursor, file, "traces",
                                 "traces: expected http://HOST:PORT of a collector, or https://");
        if (!settings->listen.n && !*settings->certificate)
                return refuse_at(cursor, file, "listen", "listen: no client could connect");
        for (size_t i = 0; i < settings->origins.n; i++)
                if (!is_origin(settings->origins.at[i]))
                        return refuse_at(cursor, file, "origins", "origins: expected https://HOST of each, or *");
        return check_routers(cursor, file, settings);
}

bool route_settings_has_tls(const struct settings *settings)
{
        bool has = false;

        for (size_t i = 0; i < settings->n_replicas; i++)
                has |= settings->replicas[i].config.is_tls;
        for (size_t i = 0; i < settings->n_services; i++)
                has |= settings->services[i].config.is_tls;
        return has;
}

int route_settings_parse(const char *name, const json_t *file, const struct conf_lines *lines, struct settings *ret,
                         struct err *err)
{
        struct settings_cursor cursor = { .file = name, .lines = lines, .err = err };
        const json_t *defaults = json_object_get(file, "defaults");
        int r;

        memset(ret, 0, sizeof(*ret));
        if ((r = read_presets(&cursor, TABLE_TOP, ret)) < 0 ||
            (r = read_presets(&cursor, TABLE_REPLICA, &ret->defaults)) < 0 ||
            (r = read_object(&cursor, file, TABLE_TOP, ret, TABLE_TOP, NULL)) < 0)
                return r;
        (void)snprintf(cursor.where, sizeof(cursor.where), "defaults: ");
        cursor.line = conf_line_of_key(lines, file, "defaults");
        if (defaults && (r = read_object(&cursor, defaults, TABLE_REPLICA, &ret->defaults, TABLE_REPLICA, NULL)) < 0)
                return r;
        if ((r = read_each(&cursor, file, "replicas", SETTINGS_REPLICAS, ret, read_replica)) < 0 ||
            (r = read_each(&cursor, file, "keys", SETTINGS_KEYS, ret, read_api_key)) < 0 ||
            (r = read_each(&cursor, file, "kubernetes", SETTINGS_SERVICES, ret, read_service)) < 0)
                return r;
        return check_settings(&cursor, file, ret);
}

int route_settings_read(const char *path, struct settings **ret, struct err *err)
{
        _cleanup_(json_decrefp) json_t *file = NULL;
        _cleanup_(freep) struct settings *settings = malloc(sizeof(*settings));
        struct conf_lines lines = { 0 };
        int r;

        if (!settings)
                return err_set(err, -ENOMEM, "reading %s", path);
        r = conf_read(path, &file, &lines, err);
        if (r == 0)
                r = route_settings_parse(path, file, &lines, settings, err);
        conf_lines_done(&lines);
        if (r < 0)
                return r;
        *ret = TAKE(settings);
        return 0;
}

static void print_table(FILE *to, const char *title, enum table table)
{
        (void)fprintf(to, "%s\n", title);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].table == table)
                        (void)fprintf(to, "  %-16s %s%s%s%s\n", rows[i].key, rows[i].meaning,
                                      *rows[i].preset ? " [" : "", rows[i].preset, *rows[i].preset ? "]" : "");
}

void route_settings_print(FILE *to)
{
        print_table(to, "The file (YAML); defaults in brackets:", TABLE_TOP);
        print_table(to, "replicas: a list of", TABLE_LISTED);
        print_table(to, "  and of these, which are also allowed in defaults: and in a service of kubernetes:",
                    TABLE_REPLICA);
        print_table(to, "keys: a list of", TABLE_KEY);
        print_table(to, "kubernetes: a list of", TABLE_SERVICE);
}

json_t *route_settings_rows(void)
{
        static const char *const places[] = { [TABLE_TOP] = "",
                                              [TABLE_LISTED] = "replicas",
                                              [TABLE_REPLICA] = "replicas, defaults, kubernetes",
                                              [TABLE_KEY] = "keys",
                                              [TABLE_SERVICE] = "kubernetes" };
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                (void)json_array_append_new(
                        list, json_pack("{s:s, s:s, s:s?, s:s}", "place", places[rows[i].table], "key", rows[i].key,
                                        "preset", *rows[i].preset ? rows[i].preset : NULL, "meaning", rows[i].meaning));
        return list;
}
