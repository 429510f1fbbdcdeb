/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/canned.h"

#include "unit.h"

#include "net/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Up to the end of the headers, and the body that they announce. */
static void read_request(struct server *server, int fd)
{
        size_t n = 0;

        while (n + 1 < sizeof(server->request)) {
                const char *end, *length;
                ssize_t r = read(fd, server->request + n, sizeof(server->request) - 1 - n);

                if (r <= 0)
                        return;
                n += (size_t)r;
                server->request[n] = '\0';
                end = strstr(server->request, "\r\n\r\n");
                length = strstr(server->request, "Content-Length: ");
                if (end && strlen(end + 4) >= (length ? strtoul(length + 16, NULL, 10) : 0))
                        return;
        }
}

static void *serve_all(void *context)
{
        struct server *server = context;
        char byte;
        int fd;

        while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
                const char *answer = server->answer; /* the test sets the next one when this call has ended */

                read_request(server, fd);
                if (answer && *answer)
                        (void)!write(fd, answer, strlen(answer));
                else if (answer)
                        (void)!read(fd, &byte, 1);
                (void)close(fd);
        }
        return NULL;
}

int server_start(void **state)
{
        struct server *server = calloc(1, sizeof(*server));

        (void)strcpy(server->dir, "/tmp/sublet-http-XXXXXX");
        assert_non_null(mkdtemp(server->dir));
        (void)snprintf(server->base, sizeof(server->base), "unix:%s/sublet.sock", server->dir);
        server->listener = socket_listen(SOCK_STREAM, 0600, "%s/sublet.sock", server->dir);
        assert_true(server->listener >= 0);
        *state = server;
        return -pthread_create(&server->thread, NULL, serve_all, server);
}

int server_stop(void **state)
{
        struct server *server = *state;

        (void)shutdown(server->listener, SHUT_RDWR);
        (void)pthread_join(server->thread, NULL);
        (void)close(server->listener);
        (void)unlink(server->base + sizeof("unix:") - 1);
        (void)rmdir(server->dir);
        free(server);
        return 0;
}
