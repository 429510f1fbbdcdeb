/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths that clients may use (endpoints.def), and the model in a multipart body. Pure. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum endpoint_method { ENDPOINT_OTHER = 0, ENDPOINT_GET = 1, ENDPOINT_POST = 2, ENDPOINT_DEL = 4 };

enum endpoint_body { ENDPOINT_JSON, ENDPOINT_FORM, ENDPOINT_NONE, ENDPOINT_SOCKET, ENDPOINT_ANY };

enum endpoint_model { ENDPOINT_NEEDED, ENDPOINT_OPTIONAL, ENDPOINT_QUERY, ENDPOINT_NO };

struct endpoint {
        unsigned int methods; /* enum endpoint_method, or-ed */
        const char *path;
        enum endpoint_body body;
        enum endpoint_model model;
        bool is_stored; /* what it names is at one replica: a 404 of another means nothing */
};

/*
 * The row of a path, without its query. NULL: no client's path. ret_methods: of all rows of the path (a request of
 * another method is 405).
 */
const struct endpoint *endpoint_find(const char *path, size_t size, enum endpoint_method method,
                                     unsigned int *ret_methods);

/*
 * The value of a field of a multipart/form-data body. type: the header Content-Type, which has the boundary. Within
 * `body`, not terminated. False: there is no such field, or the body is no such form.
 */
bool endpoint_form_field(const char *type, size_t type_size, const char *body, size_t size, const char *name,
                         const char **ret, size_t *ret_size);
