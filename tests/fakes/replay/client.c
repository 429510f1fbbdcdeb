/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/client.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
        N_EVENTS = 64,
        HEAD_MAX = 8192,
};

struct line {
        struct client *client;
        struct call *call; /* NULL: idle */
        int fd;
        char *out;
        size_t out_size, sent;
        char head[HEAD_MAX + 1]; /* of the answer */
        char tail[8];            /* the last bytes of its body */
        size_t head_size, tail_size;
        bool has_head, is_chunked, wants_out, is_dead;
        size_t left; /* of a body with a length */
        struct line *next, **link;
};

struct client {
        int epoll;
        union {
                struct sockaddr any;
                struct sockaddr_un un;
                struct sockaddr_in in;
        } address;
        socklen_t address_size;
        char path[256];
        void (*done)(struct call *call, void *context);
        void *context;
        struct line *busy, *idle, *dead;
        size_t n_open;
};

static int parse_address(struct client *client, const char *address, struct err *err)
{
        const char *colon = strrchr(address, ':');
        char host[64] = "";

        if (strncmp(address, "unix:", 5) == 0) {
                client->address.un.sun_family = AF_UNIX;
                (void)snprintf(client->address.un.sun_path, sizeof(client->address.un.sun_path), "%s", address + 5);
                client->address_size = sizeof(client->address.un);
                return 0;
        }
        if (!colon || (size_t)(colon - address) >= sizeof(host))
                return err_say(err, -EINVAL, "'%s' is not HOST:PORT or unix:PATH", address);
        memcpy(host, address, (size_t)(colon - address));
        client->address.in.sin_family = AF_INET;
        client->address.in.sin_port = htons((uint16_t)atoi(colon + 1));
        client->address_size = sizeof(client->address.in);
        if (inet_pton(AF_INET, host, &client->address.in.sin_addr) != 1)
                return err_say(err, -EINVAL, "'%s' is not an IPv4 address", host);
        return 0;
}

int client_new(const char *address, const char *path, void (*done)(struct call *call, void *context), void *context,
               struct client **ret, struct err *err)
{
        struct client *client = calloc(1, sizeof(*client));

        if (!client)
                return err_set(err, -ENOMEM, "making a client");
        client->epoll = epoll_create1(EPOLL_CLOEXEC);
        client->done = done;
        client->context = context;
        (void)snprintf(client->path, sizeof(client->path), "%s", path);
        if (parse_address(client, address, err) < 0) {
                (void)client_free(client);
                return err->code;
        }
        *ret = client;
        return 0;
}

static void link_to(struct line **list, struct line *line)
{
        line->next = *list;
        line->link = list;
        if (*list)
                (*list)->link = &line->next;
        *list = line;
}

static void unlink_from(struct line *line)
{
        *line->link = line->next;
        if (line->next)
                line->next->link = line->link;
}

/* Freed after the round: its events may still be to come. */
static void line_free(struct line *line)
{
        (void)close(line->fd);
        unlink_from(line);
        line->is_dead = true;
        link_to(&line->client->dead, line);
}

static void free_dead(struct client *client)
{
        struct line *line;

        while ((line = client->dead) != NULL) {
                unlink_from(line);
                free(line->out);
                free(line);
        }
}

struct client *client_free(struct client *client)
{
        if (!client)
                return NULL;
        while (client->busy)
                line_free(client->busy);
        while (client->idle)
                line_free(client->idle);
        free_dead(client);
        (void)close(client->epoll);
        free(client);
        return NULL;
}

size_t client_n_open(const struct client *client)
{
        return client->n_open;
}

static void over(struct line *line, enum call_outcome outcome, bool keep)
{
        struct call *call = line->call;

        call->outcome = outcome;
        call->end_at = clock_now();
        line->call = NULL;
        line->client->n_open--;
        if (keep) {
                unlink_from(line);
                link_to(&line->client->idle, line);
        } else {
                line_free(line);
        }
        line->client->done(call, line->client->context);
}

static struct line *open_line(struct client *client)
{
        struct line *line = calloc(1, sizeof(*line));
        struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.ptr = line };
        int one = 1;

        if (!line)
                return NULL;
        line->client = client;
        line->wants_out = true;
        line->fd = socket(client->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        link_to(&client->busy, line);
        if (line->fd < 0 ||
            (connect(line->fd, &client->address.any, client->address_size) < 0 && errno != EINPROGRESS) ||
            epoll_ctl(client->epoll, EPOLL_CTL_ADD, line->fd, &event) < 0) {
                line_free(line);
                return NULL;
        }
        return line;
}

static void want_out(struct line *line, bool wants)
{
        struct epoll_event event = { .events = EPOLLIN | (wants ? (uint32_t)EPOLLOUT : 0), .data.ptr = line };

        if (wants != line->wants_out)
                (void)epoll_ctl(line->client->epoll, EPOLL_CTL_MOD, line->fd, &event);
        line->wants_out = wants;
}

/* What cannot be sent is seen as the end of the connection by receive(). */
static void flush(struct line *line)
{
        while (line->sent < line->out_size) {
                ssize_t n = send(line->fd, line->out + line->sent, line->out_size - line->sent, MSG_NOSIGNAL);

                if (n <= 0) {
                        want_out(line, n < 0 && (errno == EAGAIN || errno == ENOTCONN));
                        return;
                }
                line->sent += (size_t)n;
        }
        want_out(line, false);
}

void client_send(struct client *client, struct call *call)
{
        struct line *line = client->idle;
        char head[512];
        int n = snprintf(
                head, sizeof(head),
                "POST %s HTTP/1.1\r\nHost: replay\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                client->path, call->body_size);

        call->sent_at = clock_now();
        client->n_open++;
        if (line) {
                unlink_from(line);
                link_to(&client->busy, line);
        } else {
                line = open_line(client);
        }
        if (!line || !(line->out = realloc(line->out, (size_t)n + call->body_size))) {
                call->outcome = CALL_EARLY;
                call->end_at = call->sent_at;
                client->n_open--;
                client->done(call, client->context);
                return;
        }
        memcpy(line->out, head, (size_t)n);
        memcpy(line->out + n, call->body, call->body_size);
        line->out_size = (size_t)n + call->body_size;
        line->sent = line->head_size = 0;
        line->has_head = false;
        line->call = call;
        flush(line);
}

/* The head is complete: what kind of body follows. */
static bool read_head(struct line *line, const char *end)
{
        const char *length = NULL;

        if (sscanf(line->head, "HTTP/1.1 %d", &line->call->status) != 1)
                return false;
        line->is_chunked = false;
        line->left = 0;
        for (const char *at = line->head; at < end; at = strstr(at, "\r\n") + 2) {
                if (strncasecmp(at, "transfer-encoding: chunked", 26) == 0)
                        line->is_chunked = true;
                if (strncasecmp(at, "content-length:", 15) == 0)
                        length = at + 15;
        }
        if (length)
                line->left = strtoul(length, NULL, 10);
        line->has_head = true;
        return line->is_chunked || length;
}

static enum call_outcome outcome_of(const struct call *call)
{
        if (call->status == 200)
                return CALL_OK;
        return call->status == 429 || call->status == 503 ? CALL_REFUSED : CALL_STATUS;
}

/* The last bytes of a chunked body decide; they may come in pieces. The head's own end counts as one. */
static bool ends_here(struct line *line, const char *data, size_t size)
{
        static const char END[] = "\r\n0\r\n\r\n";
        size_t n = sizeof(END) - 1, fresh = size < n ? size : n;
        size_t keep = line->tail_size + fresh > n ? n - fresh : line->tail_size;

        memmove(line->tail, line->tail + line->tail_size - keep, keep);
        memcpy(line->tail + keep, data + size - fresh, fresh);
        line->tail_size = keep + fresh;
        return line->tail_size == n && memcmp(line->tail, END, n) == 0;
}

static void body(struct line *line, const char *data, size_t size)
{
        struct call *call = line->call;

        if (!size)
                return;
        if (!call->first_at)
                call->first_at = clock_now();
        for (const char *at = data; (at = memmem(at, size - (size_t)(at - data), "data:", 5)) != NULL; at += 5)
                call->n_events++;
        if (line->is_chunked) {
                if (ends_here(line, data, size))
                        over(line, outcome_of(call), true);
                return;
        }
        line->left -= size < line->left ? size : line->left;
        if (line->left == 0)
                over(line, outcome_of(call), true);
}

static void take_line(struct line *line, const char *data, size_t size)
{
        size_t room = HEAD_MAX - line->head_size, n = size < room ? size : room, before = line->head_size;
        char *end;

        if (line->has_head) {
                body(line, data, size);
                return;
        }
        memcpy(line->head + line->head_size, data, n);
        line->head_size += n;
        line->head[line->head_size] = 0;
        end = strstr(line->head, "\r\n\r\n");
        if (!end && line->head_size < HEAD_MAX)
                return;
        if (!end || !read_head(line, end)) {
                over(line, CALL_EARLY, false);
                return;
        }
        n = (size_t)(end + 4 - line->head) - before; /* of data, that belong to the head */
        memcpy(line->tail, "\r\n", 2);
        line->tail_size = 2;
        if (!line->is_chunked && line->left == 0)
                over(line, outcome_of(line->call), true);
        else
                body(line, data + n, size - n);
}

static void receive(struct line *line)
{
        char data[65536];

        while (!line->is_dead) {
                ssize_t n = recv(line->fd, data, sizeof(data), 0);

                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0 && !line->call) {
                        line_free(line);
                } else if (n <= 0) {
                        over(line, line->call->first_at ? CALL_LATE : CALL_EARLY, false);
                } else if (line->call) {
                        take_line(line, data, (size_t)n);
                        if (!line->call)
                                return;
                } else {
                        line_free(line); /* it speaks without being asked */
                }
        }
}

static nsec leave(struct client *client, nsec now)
{
        nsec next = INT64_MAX;

        for (struct line *line = client->busy, *after; line; line = after) {
                after = line->next;
                if (line->call->leave_at <= now)
                        over(line, CALL_LEFT, false);
                else if (line->call->leave_at < next)
                        next = line->call->leave_at;
        }
        return next;
}

void client_poll(struct client *client, nsec until)
{
        struct epoll_event events[N_EVENTS];
        nsec now = clock_now(), next = leave(client, now), wait;
        struct timespec span;
        int n;

        next = next < until ? next : until;
        wait = next > now ? next - now : 0;
        span = (struct timespec){ .tv_sec = wait / NSEC_PER_SEC, .tv_nsec = wait % NSEC_PER_SEC };
        n = epoll_pwait2(client->epoll, events, N_EVENTS, &span, NULL);
        for (int i = 0; i < n; i++) {
                struct line *line = events[i].data.ptr;

                if (!line->is_dead && events[i].events & EPOLLOUT)
                        flush(line);
                if (!line->is_dead && events[i].events & ~(uint32_t)EPOLLOUT)
                        receive(line);
        }
        free_dead(client);
}
