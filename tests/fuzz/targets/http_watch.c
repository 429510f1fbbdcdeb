/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST and WATCH with an API server that says anything, a line for each thing that it says: "P" and a page, "E" and a
 * status that ends the call, else an event. Every request has the path that is watched, and nothing is put outside of a
 * list or a stream that follows a whole one.
 */
#include "net/http/watch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static unsigned int n_lists, n_put;

static void require(bool holds)
{
        if (!holds)
                abort();
}

static void on_begin(void *context)
{
        (void)context;
        n_lists++;
}

static int on_put(void *context, const json_t *object)
{
        (void)context;
        require(object && n_lists > 0); /* of a page it may be any value: the readers of objects refuse it */
        return ++n_put % 50 ? 0 : -12;  /* now and then no memory */
}

static void on_drop(void *context, const json_t *object)
{
        (void)context;
        require(json_is_object(object) && n_lists > 0);
}

static void said(struct watch *watch, const char *line, size_t size)
{
        char path[WATCH_PATH];
        bool is_stream = watch_next(watch, path);
        json_t *page;

        require(memchr(path, 0, sizeof(path)) && !strncmp(path, watch->path, strlen(watch->path)));
        require(memchr(watch->version, 0, sizeof(watch->version)) && memchr(watch->next, 0, sizeof(watch->next)));
        require(is_stream == watch->is_listed);
        if (size && line[0] == 'E') {
                (void)watch_ended(watch, 0, strtol(size > 1 ? "410" : "200", NULL, 10));
        } else if (!is_stream) {
                page = json_loadb(line + (size && line[0] == 'P'), size - (size && line[0] == 'P'), 0, NULL);
                (void)watch_page(watch, 0, page ? 200 : 410, page);
                json_decref(page);
        } else if (watch_line(watch, line, size) < 0) {
                (void)watch_ended(watch, -5, 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct watch watch = { .path = "/api/v1/pods",
                               .select = "&fieldSelector=a",
                               .begin = on_begin,
                               .put = on_put,
                               .drop = on_drop,
                               .end = on_begin,
                               .limit = 500,
                               .most = 1 << 20 };

        n_lists = n_put = 0;
        while (size) {
                const uint8_t *end = memchr(data, '\n', size);
                size_t n = end ? (size_t)(end - data) : size;

                said(&watch, (const char *)data, n);
                data += n + (end != NULL);
                size -= n + (end != NULL);
        }
        return 0;
}
