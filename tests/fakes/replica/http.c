/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/http.h"
#include "replica/message.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
        HEAD_MAX = 65536,
        N_EVENTS = 64,
};

struct buffer {
        char *data;
        size_t size, room;
};

struct http_listener {
        int fd;
        void *data;
        struct http_listener *next;
};

struct http_conn {
        struct http_listener *listener;
        struct http *http;
        int fd;
        struct buffer in, out;
        size_t sent;        /* of out */
        size_t request_end; /* of the request under way, in `in`; 0: none */
        char *method, *path, *query;
        void *data;
        bool is_close, wants_out, is_dead;
        struct http_conn *next, **link;
};

struct http {
        int epoll;
        struct http_calls calls;
        struct http_listener *listeners;
        struct http_conn *conns, *dead;
        bool has_more; /* bytes of a further request came with an earlier one */
};

static bool buffer_append(struct buffer *buffer, const char *data, size_t size)
{
        if (buffer->size + size > buffer->room) {
                size_t room = buffer->room ? buffer->room : 1024;
                char *grown;

                while (room < buffer->size + size)
                        room *= 2;
                grown = realloc(buffer->data, room);
                if (!grown)
                        return false;
                buffer->data = grown;
                buffer->room = room;
        }
        memcpy(buffer->data + buffer->size, data, size);
        buffer->size += size;
        return true;
}

int http_new(const struct http_calls *calls, struct http **ret, struct err *err)
{
        struct http *http = calloc(1, sizeof(*http));

        if (!http || (http->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) {
                free(http);
                return err_set(err, -ENOMEM, "making a server");
        }
        http->calls = *calls;
        *ret = http;
        return 0;
}

/* Freed at the end of the poll: events of this round may still point to it. */
static void conn_free(struct http_conn *conn)
{
        if (conn->is_dead)
                return;
        conn->is_dead = true;
        (void)close(conn->fd);
        *conn->link = conn->next;
        if (conn->next)
                conn->next->link = conn->link;
        conn->next = conn->http->dead;
        conn->http->dead = conn;
}

static void free_dead(struct http *http)
{
        struct http_conn *conn;

        while ((conn = http->dead) != NULL) {
                http->dead = conn->next;
                free(conn->in.data);
                free(conn->out.data);
                free(conn);
        }
}

struct http *http_free(struct http *http)
{
        struct http_listener *listener;

        if (!http)
                return NULL;
        while (http->conns)
                conn_free(http->conns);
        free_dead(http);
        while ((listener = http->listeners) != NULL) {
                http->listeners = listener->next;
                (void)close(listener->fd);
                free(listener);
        }
        (void)close(http->epoll);
        free(http);
        return NULL;
}

static int open_socket(const char *address, struct err *err)
{
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        struct sockaddr_in in = { .sin_family = AF_INET };
        bool is_unix = strncmp(address, "unix:", 5) == 0;
        _cleanup_(closep) int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const char *colon = strrchr(address, ':');
        char host[64] = "";
        int r, one = 1;

        if (fd < 0)
                return err_set(err, -errno, "listening on %s", address);
        if (is_unix) {
                (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", address + 5);
                (void)unlink(un.sun_path);
                r = bind(fd, (struct sockaddr *)&un, sizeof(un));
        } else {
                if (!colon || (size_t)(colon - address) >= sizeof(host))
                        return err_say(err, -EINVAL, "'%s' is not HOST:PORT", address);
                memcpy(host, address, (size_t)(colon - address));
                in.sin_port = htons((uint16_t)atoi(colon + 1));
                if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
                        return err_say(err, -EINVAL, "'%s' is not an IPv4 address", host);
                (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
                r = bind(fd, (struct sockaddr *)&in, sizeof(in));
        }
        if (r < 0 || listen(fd, 4096) < 0)
                return err_set(err, -errno, "listening on %s", address);
        return TAKE_FD(fd);
}

int http_listen(struct http *http, const char *address, void *data, struct err *err)
{
        struct http_listener *listener = calloc(1, sizeof(*listener));
        struct epoll_event event = { .events = EPOLLIN };

        if (!listener)
                return err_set(err, -ENOMEM, "listening on %s", address);
        listener->fd = open_socket(address, err);
        if (listener->fd < 0) {
                free(listener);
                return err->code;
        }
        listener->data = data;
        listener->next = http->listeners;
        http->listeners = listener;
        event.data.u64 = (uint64_t)(uintptr_t)listener | 1; /* the low bit tells it from a connection */
        if (epoll_ctl(http->epoll, EPOLL_CTL_ADD, listener->fd, &event) < 0)
                return err_set(err, -errno, "listening on %s", address);
        return 0;
}

static void accept_all(struct http *http, struct http_listener *listener)
{
        int fd, one = 1;

        while ((fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
                struct http_conn *conn = calloc(1, sizeof(*conn));
                struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = conn };

                if (!conn || epoll_ctl(http->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
                        free(conn);
                        (void)close(fd);
                        return;
                }
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                *conn = (struct http_conn){ .listener = listener, .http = http, .fd = fd, .next = http->conns };
                conn->link = &http->conns;
                if (http->conns)
                        http->conns->link = &conn->next;
                http->conns = conn;
        }
}

static void gone(struct http_conn *conn)
{
        if (conn->is_dead)
                return;
        if (conn->request_end)
                conn->http->calls.gone(conn, conn->listener->data);
        conn_free(conn);
}

static void want_out(struct http_conn *conn, bool wants)
{
        struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | (wants ? (uint32_t)EPOLLOUT : 0),
                                     .data.ptr = conn };

        if (wants != conn->wants_out)
                (void)epoll_ctl(conn->http->epoll, EPOLL_CTL_MOD, conn->fd, &event);
        conn->wants_out = wants;
}

/* A failure here is seen again by the next read, which ends the connection. */
static void flush(struct http_conn *conn)
{
        while (conn->sent < conn->out.size) {
                ssize_t n = send(conn->fd, conn->out.data + conn->sent, conn->out.size - conn->sent, MSG_NOSIGNAL);

                if (n <= 0) {
                        want_out(conn, n < 0 && errno == EAGAIN);
                        return;
                }
                conn->sent += (size_t)n;
        }
        conn->sent = conn->out.size = 0;
        want_out(conn, false);
        if (conn->is_close && !conn->request_end)
                conn_free(conn);
}

void http_set(struct http_conn *conn, void *data)
{
        conn->data = data;
}

void *http_get(struct http_conn *conn)
{
        return conn->data;
}

void http_raw(struct http_conn *conn, const char *data, size_t size)
{
        if (!conn->is_dead && buffer_append(&conn->out, data, size))
                flush(conn);
}

static const char *reason(int status)
{
        return status < 300 ? "OK" : status < 500 ? "Refused" : "Failed";
}

static size_t head(char text[512], const struct http_conn *conn, int status, const char *type, const char *length)
{
        int n = snprintf(text, 512, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s\r\n%s\r\n", status, reason(status), type,
                         length, conn->is_close ? "Connection: close\r\n" : "");

        return n < 512 ? (size_t)n : 0;
}

/* The request is answered: its bytes leave the buffer, and the next one may already be there. */
static void finish(struct http_conn *conn)
{
        size_t end = conn->request_end;

        memmove(conn->in.data, conn->in.data + end, conn->in.size - end);
        conn->in.size -= end;
        conn->request_end = 0;
        conn->data = NULL;
        conn->http->has_more = conn->http->has_more || conn->in.size > 0;
        flush(conn);
}

void http_reply(struct http_conn *conn, int status, const char *type, const char *body, size_t size)
{
        char text[512], length[64];

        (void)snprintf(length, sizeof(length), "Content-Length: %zu", size);
        (void)buffer_append(&conn->out, text, head(text, conn, status, type, length));
        (void)buffer_append(&conn->out, body, size);
        finish(conn);
}

void http_begin(struct http_conn *conn, int status, const char *type)
{
        char text[512];

        http_raw(conn, text, head(text, conn, status, type, "Transfer-Encoding: chunked"));
}

void http_chunk(struct http_conn *conn, const char *data, size_t size)
{
        char text[32];
        int n = snprintf(text, sizeof(text), "%zx\r\n", size);

        (void)buffer_append(&conn->out, text, (size_t)n);
        (void)buffer_append(&conn->out, data, size);
        http_raw(conn, "\r\n", 2);
}

void http_end(struct http_conn *conn)
{
        (void)buffer_append(&conn->out, "0\r\n\r\n", 5);
        finish(conn);
}

void http_close(struct http_conn *conn, bool reset)
{
        struct linger linger = { .l_onoff = 1 };

        if (reset)
                (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        conn_free(conn);
}

static bool split(struct http_conn *conn, char *line_end)
{
        char *space = memchr(conn->in.data, ' ', (size_t)(line_end - conn->in.data)), *end, *query;

        if (!space || !(end = memchr(space + 1, ' ', (size_t)(line_end - space - 1))))
                return false;
        *space = *end = 0;
        conn->method = conn->in.data;
        conn->path = space + 1;
        query = strchr(conn->path, '?');
        conn->query = query ? query + 1 : end;
        if (query)
                *query = 0;
        return true;
}

static void give(struct http_conn *conn, char *body, size_t size, size_t end)
{
        struct http_request request;
        char *line = memchr(conn->in.data, '\r', conn->in.size);

        if (!line || !split(conn, line)) {
                http_close(conn, true);
                return;
        }
        conn->request_end = end;
        request = (struct http_request){ .method = conn->method,
                                         .path = conn->path,
                                         .query = conn->query,
                                         .body = body,
                                         .body_size = size,
                                         .is_close = conn->is_close };
        conn->http->calls.request(conn, &request, conn->listener->data);
}

/* One request, if all of it is there and none is under way. */
static void parse_one(struct http_conn *conn)
{
        char *end = memmem(conn->in.data, conn->in.size, "\r\n\r\n", 4), *raw_end, value[64];
        size_t size, offset;

        if (!end) {
                if (conn->in.size > HEAD_MAX)
                        http_close(conn, true);
                return;
        }
        offset = (size_t)(end + 4 - conn->in.data);
        message_header(conn->in.data, end + 2, "connection", value);
        conn->is_close = strcmp(value, "close") == 0 || memmem(conn->in.data, offset, " HTTP/1.0\r", 10);
        message_header(conn->in.data, end + 2, "transfer-encoding", value);
        if (strcmp(value, "chunked") == 0) {
                if (message_unchunk(end + 4, conn->in.data + conn->in.size, &size, &raw_end))
                        give(conn, end + 4, size, (size_t)(raw_end - conn->in.data));
                return;
        }
        message_header(conn->in.data, end + 2, "content-length", value);
        size = strtoul(value, NULL, 10);
        if (size > MESSAGE_BODY_MAX)
                http_close(conn, true);
        else if (conn->in.size >= offset + size)
                give(conn, end + 4, size, offset + size);
}

static void parse_requests(struct http_conn *conn)
{
        size_t before = SIZE_MAX;

        while (!conn->is_dead && !conn->request_end && conn->in.size > 0 && conn->in.size != before) {
                before = conn->in.size;
                parse_one(conn);
        }
}

static void receive(struct http_conn *conn)
{
        char data[65536];

        for (;;) {
                ssize_t n = recv(conn->fd, data, sizeof(data), 0);

                if (n < 0 && errno == EAGAIN)
                        break;
                if (n <= 0 || !buffer_append(&conn->in, data, (size_t)n)) {
                        gone(conn);
                        return;
                }
                if ((size_t)n < sizeof(data))
                        break;
        }
        parse_requests(conn);
}

static void parse_more(struct http *http)
{
        while (http->has_more) {
                http->has_more = false;
                for (struct http_conn *conn = http->conns, *next; conn; conn = next) {
                        next = conn->next;
                        parse_requests(conn);
                }
        }
}

int http_poll(struct http *http, nsec until)
{
        struct epoll_event events[N_EVENTS];
        nsec now = clock_now(), wait = until > now ? until - now : 0;
        struct timespec span = { .tv_sec = wait / NSEC_PER_SEC, .tv_nsec = wait % NSEC_PER_SEC };
        int n = epoll_pwait2(http->epoll, events, N_EVENTS, until == INT64_MAX ? NULL : &span, NULL);

        if (n < 0)
                return -errno;
        for (int i = 0; i < n; i++) {
                struct http_conn *conn = events[i].data.ptr;

                if (events[i].data.u64 & 1) {
                        accept_all(http, (struct http_listener *)(uintptr_t)(events[i].data.u64 & ~(uint64_t)1));
                        continue;
                }
                if (!conn->is_dead && events[i].events & EPOLLOUT)
                        flush(conn);
                if (!conn->is_dead && events[i].events & ~(uint32_t)EPOLLOUT)
                        receive(conn);
        }
        parse_more(http);
        free_dead(http);
        return 0;
}
