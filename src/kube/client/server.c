/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/server.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/client/authority.h"
#include "net/http/caller.h"
#include "net/http/server.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
        STACK = 512 * 1024,
        ROOM = 512 * 1024, /* of a connection: the names of 5,000 nodes at once */
        PEM_MAX = 1 << 20,
        VALUE = 136, /* bytes of a jansson value with its entry in the container: measured, 2.14 */
        UNIX_PREFIX = 5,
};

struct server {
        struct server_settings settings;
        struct http_server http;
        struct MHD_Daemon *daemon;
        struct MHD_Daemon
                *old;   /* takes no more connections; ends at the next refresh, when those it had are answered */
        int fd, old_fd; /* listening socket; its duplicate of `old` */
        struct certificate {
                char *cert, *key, *callers; /* PEM */
                struct timespec cert_time, key_time, callers_time;
                nsec renew_at; /* of the epoch; 0: when the files change only */
        } tls;
};

/* ---- calls ------------------------------------------------------------------------------------- */

void server_say(struct server_answer *answer, unsigned int status, const char *type, const char *text)
{
        answer->status = status;
        answer->type = type;
        answer->body = strdup(text);
        answer->size = answer->body ? strlen(text) : 0;
        if (!answer->body)
                answer->status = 500;
}

static const char *refusal_text(unsigned int status)
{
        switch (status) {
        case 403:
                return SERVER_UNKNOWN_CALLER;
        case 413:
                return "{\"error\":\"the body is too large (a scheduler with nodeCacheCapable sends names only)\"}\n";
        case 429:
                return "{\"error\":\"other calls from your address hold too much: try again when they are "
                       "answered\"}\n";
        default:
                return "{\"error\":\"too many large calls at once: try again\"}\n";
        }
}

/* Each value follows or begins with one of these; those inside strings are counted too. */
static size_t count_values(const char *text, size_t size)
{
        size_t n = 1;

        for (size_t i = 0; i < size; i++)
                n += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
        return n;
}

/* Before the body is read: who is not known makes us hold nothing. */
static void on_begin(void *context, struct http_server_call *call)
{
        const struct server *server = context;
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

        if (!server->settings.callers_file)
                return;
        if (!info || !caller_is_known(info->tls_session, server->settings.caller))
                call->refused = 403;
}

/* Three letters may become a value of a hundred bytes, which must fit as well before the body is parsed. */
static enum MHD_Result on_call(void *context, struct http_server_call *call, const char *method, const char *path)
{
        struct server *server = context;
        const char *body = call->body.text ? call->body.text : "";
        size_t size = call->body.size;
        struct server_answer answer = { 0 };
        bool is_known = call->refused != 403;

        if (!is_known && !strcmp(method, "GET"))
                call->refused = 0;
        if (!call->refused)
                call->refused = http_server_reserve(call, count_values(body, size) * VALUE + size);
        if (call->refused)
                server_say(&answer, call->refused, NULL, refusal_text(call->refused));
        else
                server->settings.handle(server->settings.context,
                                        &(struct server_call){ method, path, body, size, is_known }, &answer);
        return http_response_send(call->connection, http_response(answer.body, answer.size),
                                  answer.status ? answer.status : 200, answer.type);
}

static void on_end(void *context, struct http_server_call *call)
{
        (void)context;
        (void)call;
}

/* ---- the certificate --------------------------------------------------------------------------- */

static int read_pem(const char *path, char **ret, struct timespec *ret_time, struct err *err)
{
        _cleanup_(freep) char *text = malloc(PEM_MAX);
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat status;
        ssize_t n = 0;

        if (!text)
                return err_set(err, -ENOMEM, "reading %s", path);
        if (fd < 0 || fstat(fd, &status) < 0 || (n = read(fd, text, PEM_MAX - 1)) < 0)
                return err_set(err, -errno, "reading %s", path);
        text[n] = '\0';
        *ret = TAKE(text);
        *ret_time = status.st_mtim;
        return 0;
}

static void certificate_free(struct certificate *tls)
{
        free(tls->cert);
        free(tls->key);
        free(tls->callers);
}

static bool is_same(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* libmicrohttpd closes the socket it is given, so it gets a duplicate. */
static int start_on_duplicate(struct server *server, struct err *err)
{
        char *cert = server->tls.cert;
        const struct MHD_OptionItem more[] = { { MHD_OPTION_CONNECTION_MEMORY_LIMIT, ROOM, NULL },
                                               { MHD_OPTION_THREAD_STACK_SIZE, STACK, NULL },
                                               { cert ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, cert },
                                               { MHD_OPTION_HTTPS_MEM_KEY, 0, server->tls.key },
                                               { server->tls.callers ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
                                                 server->tls.callers },
                                               { MHD_OPTION_END, 0, NULL } };
        int fd = fcntl(server->fd, F_DUPFD_CLOEXEC, 3);

        if (fd < 0)
                return err_set(err, -errno, "the HTTP server");
        server->daemon = http_server_start(&server->http, fd, more);
        return server->daemon ? 0 :
                                err_say(err, -EIO, "the HTTP server does not start%s",
                                        cert ? ": is the certificate one, and the key its?" : "");
}

/* The permissions of a Unix socket are as the umask leaves them. */
static int listen_on(const char *where, unsigned int *ret_port, struct err *err)
{
        char host[SOCKET_HOST];
        int fd;

        *ret_port = 0;
        if (strncmp(where, "unix:", UNIX_PREFIX))
                return socket_listen_tcp(where, host, ret_port, err);
        fd = socket_listen(SOCK_STREAM | SOCK_NONBLOCK, 0, "%s", where + UNIX_PREFIX);
        return fd < 0 ? err_set(err, fd, "listening on %s", where + UNIX_PREFIX) : fd;
}

/* The files are an authority's: a leaf of it takes their place, and the next is made with a third of its life left. */
static int load_leaf(struct server *server, struct err *err)
{
        struct certificate *tls = &server->tls;
        struct authority_leaf leaf = { 0 };
        nsec now = clock_realtime();
        int r = authority_issue(tls->cert, tls->key, server->settings.host, server->settings.life, &leaf, err);

        if (r < 0)
                return r;
        free(tls->cert);
        free(tls->key);
        tls->cert = leaf.cert;
        tls->key = leaf.key;
        tls->renew_at = now + (leaf.ends - now) / 3 * 2;
        return 0;
}

static int load(struct server *server, struct err *err)
{
        int r = 0;

        if (!server->settings.cert_file)
                return 0;
        r = read_pem(server->settings.cert_file, &server->tls.cert, &server->tls.cert_time, err);
        r = r < 0 ? r : read_pem(server->settings.key_file, &server->tls.key, &server->tls.key_time, err);
        if (r == 0 && server->settings.callers_file)
                r = read_pem(server->settings.callers_file, &server->tls.callers, &server->tls.callers_time, err);
        return r < 0 || !server->settings.host ? r : load_leaf(server, err);
}

static bool is_changed(const char *path, const struct timespec *time)
{
        struct stat status;

        return path && stat(path, &status) == 0 && !is_same(&status.st_mtim, time);
}

static bool is_renewal_due(const struct server *server)
{
        struct stat cert, key;

        if (!server->settings.cert_file || stat(server->settings.cert_file, &cert) < 0 ||
            stat(server->settings.key_file, &key) < 0)
                return false;
        return !is_same(&cert.st_mtim, &server->tls.cert_time) || !is_same(&key.st_mtim, &server->tls.key_time) ||
               is_changed(server->settings.callers_file, &server->tls.callers_time) ||
               (server->tls.renew_at && clock_realtime() >= server->tls.renew_at);
}

static int guard_open(struct server *server, struct err *err)
{
        const struct http_limits limits = { .connections = SERVER_CONNECTIONS,
                                            .connections_each = SERVER_CONNECTIONS_EACH,
                                            .bodies = server->settings.bodies,
                                            .head = SERVER_HEAD_SEC * NSEC_PER_SEC,
                                            .rest = SERVER_REST_SEC * NSEC_PER_SEC,
                                            .body = SERVER_BODY_SEC * NSEC_PER_SEC,
                                            .answer = SERVER_ANSWER_SEC * NSEC_PER_SEC };
        int r = http_guard_new(&limits, &server->http.guard);

        if (r == 0)
                r = http_guard_watch(server->http.guard);
        return r < 0 ? err_set(err, r, "the HTTP server") : 0;
}

int server_new(const struct server_settings *settings, struct server **ret, unsigned int *ret_port, struct err *err)
{
        struct server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return err_set(err, -ENOMEM, "the HTTP server");
        *server = (struct server){ .settings = *settings, .fd = -1, .old_fd = -1 };
        server->http = (struct http_server){
                .flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
                         (settings->cert_file ? (unsigned int)MHD_USE_TLS : 0),
                .connections = SERVER_CONNECTIONS,
                .idle_sec = SERVER_REST_SEC,
                .body_most = SERVER_BODY,
                .call_size = sizeof(struct http_server_call),
                .context = server,
                .begin = on_begin,
                .answer = on_call,
                .end = on_end,
        };
        r = guard_open(server, err);
        if (r == 0)
                r = load(server, err);
        if (r == 0)
                r = server->fd = listen_on(settings->listen, ret_port, err);
        if (r >= 0)
                r = start_on_duplicate(server, err);
        if (r < 0) {
                (void)server_free(server);
                return r;
        }
        *ret = server;
        return 0;
}

/* The socket is closed last: until then libmicrohttpd may still wait for it. */
static void end_old(struct server *server)
{
        if (server->old)
                MHD_stop_daemon(server->old);
        server->old = NULL;
        closep(&server->old_fd);
        server->old_fd = -1;
}

struct server *server_free(struct server *server)
{
        if (!server)
                return NULL;
        end_old(server);
        if (server->daemon)
                MHD_stop_daemon(server->daemon);
        server->http.guard = http_guard_free(server->http.guard);
        closep(&server->fd);
        certificate_free(&server->tls);
        free(server);
        return NULL;
}

/* The new server listens on the same socket before the old one ends, and that ends a period later: no connection is
 * refused, and none that is being opened or answered is cut. */
int server_refresh(struct server *server, struct err *err)
{
        struct MHD_Daemon *daemon = server->daemon;
        struct certificate tls = server->tls;
        int r;

        end_old(server);
        if (!is_renewal_due(server))
                return 0;
        server->tls = (struct certificate){ 0 };
        r = load(server, err);
        if (r == 0)
                r = start_on_duplicate(server, err);
        if (r < 0) { /* perhaps only half of the pair is written: the next refresh finds the other */
                certificate_free(&server->tls);
                server->tls = tls;
                server->daemon = daemon;
                return r;
        }
        server->old_fd = MHD_quiesce_daemon(daemon);
        server->old = daemon;
        certificate_free(&tls);
        return 1;
}

/* ---- until a signal ---------------------------------------------------------------------------- */

static void ends(sigset_t *set)
{
        (void)sigemptyset(set);
        (void)sigaddset(set, SIGINT);
        (void)sigaddset(set, SIGTERM);
}

void server_block_signals(void)
{
        sigset_t set;

        ends(&set);
        (void)sigaddset(&set, SIGPIPE);
        (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void server_wait(void (*each)(void *context), void *context, nsec period)
{
        const struct timespec time = { period / NSEC_PER_SEC, period % NSEC_PER_SEC };
        sigset_t set;

        ends(&set);
        while (sigtimedwait(&set, NULL, &time) < 0)
                if (each)
                        each(context);
}
