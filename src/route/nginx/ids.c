/* SPDX-License-Identifier: Apache-2.0 */
/*
 * $sublet_id: the number of a request, 32 hexadecimal digits, as nginx's $request_id, which asks OpenSSL for each
 * anew: a seventh of all instructions that nginx spends on a short request. Here the kernel is asked for many at once:
 * they are as hard to guess, and nobody has to make them up.
 */
#include "route/nginx/module.h"

#include <sys/random.h>

enum {
        ID = 16, /* bytes */
        IDS = 64,
};

/* Of this worker: filled after it was forked. */
static u_char ids[IDS][ID];
static size_t left;

static int fill(void)
{
        for (size_t n = 0; n < sizeof(ids);) {
                ssize_t some = getrandom((u_char *)ids + n, sizeof(ids) - n, 0);

                if (some < 0 && errno != EINTR)
                        return 0;
                n += some > 0 ? (size_t)some : 0;
        }
        left = IDS;
        return 1;
}

ngx_int_t sublet_id_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
        u_char *text = ngx_pnalloc(r->pool, 2 * ID);

        (void)data;
        if (!text || (!left && !fill()))
                return NGX_ERROR;
        (void)ngx_hex_dump(text, ids[--left], ID);
        v->data = text;
        v->len = 2 * ID;
        v->valid = 1;
        v->no_cacheable = 0;
        v->not_found = 0;
        return NGX_OK;
}
