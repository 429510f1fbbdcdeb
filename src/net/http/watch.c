/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        PAGE = 500,
        PAGE_BYTES = 8 << 20,    /* values take ten times that, and more */
        OBJECT_BYTES = 64 << 20, /* of a page of one */
        SHRINK = 8,              /* a page that is too large is asked for in so many parts */
        GONE = 410,
};

static const char *metadata(const json_t *object, const char *name)
{
        return json_string_value(json_object_get(json_object_get(object, "metadata"), name));
}

/* The server's text as a value of a query, all of it or nothing. False: there is no room. */
static bool quote(const char *text, char *ret, size_t size)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
        char quoted[WATCH_PATH];
        size_t n = 0;

        for (; *text; text++) {
                if (n + 4 > size || n + 4 > sizeof(quoted))
                        return false;
                n += (size_t)snprintf(quoted + n, 4, strchr(plain, *text) ? "%c" : "%%%02X", (unsigned char)*text);
        }
        quoted[n] = '\0';
        memcpy(ret, quoted, n + 1);
        return true;
}

static void keep_version(struct watch *watch, const json_t *object)
{
        const char *version = metadata(object, "resourceVersion");

        if (version && *version)
                (void)quote(version, watch->version, sizeof(watch->version)); /* else the one before stays */
}

void watch_renew(struct watch *watch)
{
        watch->is_listed = watch->is_listing = false;
}

bool watch_next(struct watch *watch, char path[static WATCH_PATH])
{
        const char *select = watch->select ? watch->select : "";

        if (watch->is_listed) {
                (void)snprintf(path, WATCH_PATH,
                               "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s%s",
                               watch->path, WATCH_SECONDS, watch->version, select);
                watch->most = 0;
                return true;
        }
        if (!watch->is_listing) {
                watch->is_listing = true;
                watch->limit = PAGE;
                watch->next[0] = '\0';
                watch->begin(watch->context);
        }
        (void)snprintf(path, WATCH_PATH, "%s?limit=%u%s%s%s", watch->path, watch->limit, select,
                       watch->next[0] ? "&continue=" : "", watch->next);
        watch->most = watch->limit > 1 ? PAGE_BYTES : OBJECT_BYTES;
        return false;
}

static int take_page(struct watch *watch, const json_t *page)
{
        const json_t *items = json_object_get(page, "items"), *item;
        const char *more = metadata(page, "continue");
        size_t i;

        if (!json_is_array(items))
                return -EIO;
        json_array_foreach (items, i, item)
                if (watch->put(watch->context, item) == -ENOMEM)
                        return -ENOMEM;
        keep_version(watch, page);
        return quote(more ? more : "", watch->next, sizeof(watch->next)) ? 0 : -EPROTO;
}

static int outcome_of(int r, long status)
{
        return r < 0 || status == 200 ? r : status == GONE ? -ESTALE : -EIO;
}

/* Objects are written by anybody, and a few hundred large ones must not keep the watcher from all the others. */
int watch_page(struct watch *watch, int r, long status, const json_t *page)
{
        if (r == -EMSGSIZE && watch->limit > 1) {
                watch->limit = watch->limit / SHRINK ? watch->limit / SHRINK : 1;
                return 0;
        }
        r = outcome_of(r, status);
        if (r == 0)
                r = take_page(watch, page);
        watch->limit = watch->limit * 2 < PAGE ? watch->limit * 2 : PAGE;
        if (r == 0 && watch->next[0])
                return 0;
        watch->is_listing = false;
        watch->is_listed = r == 0;
        if (r == 0)
                watch->end(watch->context);
        return r;
}

static int take_event(struct watch *watch, const char *type, const json_t *object)
{
        int r = 0;

        if (!strcmp(type, "ERROR"))
                return json_integer_value(json_object_get(object, "code")) == GONE ? -ESTALE : -EPROTO;
        if (!strcmp(type, "ADDED") || !strcmp(type, "MODIFIED"))
                r = watch->put(watch->context, object);
        else if (!strcmp(type, "DELETED"))
                watch->drop(watch->context, object);
        if (r == -ENOMEM)
                return -ESTALE;
        keep_version(watch, object); /* a BOOKMARK has nothing else */
        return 0;
}

int watch_line(struct watch *watch, const char *line, size_t size)
{
        json_t *event = json_loadb(line, size, 0, NULL);
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_t *object = json_object_get(event, "object");
        int r = type && json_is_object(object) ? take_event(watch, type, object) : -EPROTO;

        json_decref(event);
        return r;
}

int watch_ended(struct watch *watch, int r, long status)
{
        r = outcome_of(r, status);
        if (r == -ESTALE || r == -EPROTO)
                watch_renew(watch);
        return r;
}
