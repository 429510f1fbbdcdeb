/* SPDX-License-Identifier: Apache-2.0 */
/* Where a replica is, as people write it; and the settings of a command line that names replicas in place of a file. */
#include "route/settings/settings.h"

#include "base/err.h"
#include "route/settings/settings_read.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* The port of HOST:PORT or [HOST]:PORT; NULL: it has none. */
static const char *port_of(const char *text)
{
        const char *bracket = strrchr(text, ']'), *colon = strrchr(bracket ? bracket : text, ':');

        return colon && colon != text ? colon + 1 : NULL;
}

/* What follows the host of a URL; clients' base URLs end with /v1. */
static bool is_root(const char *path)
{
        return !strcmp(path, "") || !strcmp(path, "/") || !strcmp(path, "/v1") || !strcmp(path, "/v1/");
}

bool route_address_parse(const char *text, char ret[SETTINGS_WORD], bool *ret_is_tls)
{
        bool is_tls = !strncmp(text, "https://", 8), is_url = is_tls || !strncmp(text, "http://", 7);
        const char *host = text + (is_tls ? 8 : is_url ? 7 : 0), *port;
        size_t size = is_url ? strcspn(host, "/?#") : strlen(host);
        char copy[SETTINGS_WORD];
        int n;

        if (!strncmp(text, "unix:/", 6)) {
                (void)snprintf(ret, SETTINGS_WORD, "%s", text);
                *ret_is_tls = false;
                return strlen(text) < 108;
        }
        if (!size || size >= sizeof(copy) || !is_root(host + size) || memchr(host, '@', size) ||
            memchr(host, '/', size) || memchr(host, '?', size))
                return false;
        memcpy(copy, host, size);
        copy[size] = '\0';
        port = port_of(copy);
        if (port ? !settings_is_port(port) : !is_url || *copy == ':')
                return false;
        n = snprintf(ret, SETTINGS_WORD, "%s%s", copy, port ? "" : is_tls ? ":443" : ":80");
        *ret_is_tls = is_tls;
        return n > 0 && n < SETTINGS_WORD;
}

bool route_address_host(const char *address, char ret[SETTINGS_WORD])
{
        const char *port = port_of(address);
        struct in_addr number;

        if (!strncmp(address, "unix:", 5) || *address == '[' || !port)
                return false;
        (void)snprintf(ret, SETTINGS_WORD, "%.*s", (int)(port - 1 - address), address);
        return inet_pton(AF_INET, ret, &number) != 1;
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

bool route_is_url(const char *text)
{
        return !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);
}

/* A name for it: HOST:PORT, as far as names have its characters. */
static json_t *replica_of(const char *url)
{
        char address[SETTINGS_WORD], name[SETTINGS_NAME];
        bool is_tls;

        if (!route_address_parse(url, address, &is_tls))
                return NULL;
        (void)snprintf(name, sizeof(name), "%.*s", SETTINGS_NAME - 1, address);
        for (char *at = name; *at; at++)
                if (*at == '[' || *at == ']')
                        *at = '_';
        return json_pack("{ss ss}", "name", name, "address", url);
}

int route_settings_of_urls(char *const *urls, size_t n, struct settings *ret, struct err *err)
{
        static const char name[] = "the command line";
        json_t *list = json_array(), *file = json_pack("{so}", "replicas", list);
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                json_t *replica = replica_of(urls[i]);

                if (!replica || json_array_append_new(list, replica) < 0)
                        r = err_say(err, -EINVAL,
                                    "%s: expected the base URL of a replica, such as http://HOST:8000 (a file must be "
                                    "alone)",
                                    urls[i]);
        }
        if (r == 0)
                r = route_settings_parse(name, file, NULL, ret, err);
        json_decref(file);
        return r;
}

int route_settings_listen(const char *text, struct settings *settings, struct err *err)
{
        const struct settings_cursor cursor = { .file = "--listen", .err = err };
        json_t *value = json_string(text);
        int r = value ? read_listen(&cursor, value, &settings->listen, sizeof(settings->listen)) : -ENOMEM;

        json_decref(value);
        return r;
}
