/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports that another process listens on, and those that only root may take. Of the first, `nginx -t` says nothing, and
 * nginx itself only in its error log; of the second it says three lines. Each is tried as nginx would take it; where
 * that nginx is ours already, nobody should ask about the first.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/xattr.h>

/* "PORT" or "ADDRESS:PORT"; false: another form, for nginx to judge. */
static bool split(const char *text, char host[SETTINGS_WORD], const char **ret_port)
{
        const char *colon = strrchr(text, ':');
        size_t n = colon ? (size_t)(colon - text) : 0;

        if (!strncmp(text, "unix:", 5))
                return false;
        *ret_port = colon ? colon + 1 : text;
        if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
                text++;
                n -= 2;
        }
        memcpy(host, text, n);
        host[n] = '\0';
        if (!strcmp(host, "*"))
                host[0] = '\0';
        return true;
}

/* 0; -EADDRINUSE; -EACCES. */
static int try_at(const struct addrinfo *at)
{
        _cleanup_(closep) int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int on = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
                return 0;
        if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 || (errno != EADDRINUSE && errno != EACCES))
                return 0;
        return -errno;
}

static int try(const char *listen)
{
        const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
        const struct addrinfo any = { .ai_family = AF_INET,
                                      .ai_socktype = SOCK_STREAM,
                                      .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
        struct addrinfo *found = NULL;
        char host[SETTINGS_WORD];
        const char *port;
        int r = 0;

        if (!split(listen, host, &port) || getaddrinfo(*host ? host : NULL, port, *host ? &hints : &any, &found) != 0)
                return 0;
        for (const struct addrinfo *at = found; at && r == 0; at = at->ai_next)
                r = try_at(at);
        freeaddrinfo(found);
        return r;
}

/* The first whose trial ends so. */
static const char *first_ending(const struct settings *settings, int result, const char **ret_key)
{
        const struct {
                const char *key;
                const struct settings_list *list;
        } lists[] = { { "listen", &settings->listen },
                      { "metrics", &settings->metrics },
                      { "tls_listen", &settings->tls_listen } };
        size_t n = *settings->certificate ? 3 : 2;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < lists[i].list->n; k++)
                        if (try(lists[i].list->at[k]) == result) {
                                *ret_key = lists[i].key;
                                return lists[i].list->at[k];
                        }
        return NULL;
}

int ports_check(const struct settings *settings, struct err *err)
{
        const char *key, *where = first_ending(settings, -EADDRINUSE, &key);

        return where ? err_say(err, -EADDRINUSE, "%s: %s is taken by another process: end it, or choose another port",
                               key, where) :
                       0;
}

int ports_permitted(const struct settings *settings, struct err *err)
{
        const char *key, *where;

        if (getxattr(NGINX, "security.capability", NULL, 0) > 0) /* nginx may more than we */
                return 0;
        where = first_ending(settings, -EACCES, &key);
        return where ? err_say(err, -EACCES,
                               "%s: %s is for root only: choose a port of 1024 or more, or give us "
                               "CAP_NET_BIND_SERVICE",
                               key, where) :
                       0;
}
