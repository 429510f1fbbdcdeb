/* SPDX-License-Identifier: Apache-2.0 */
/* The borrower's side of jobs.h. */
#include "shim/jobs.h"

#include "base/cleanup.h"
#include "net/socket.h"
#include "wire/messages.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

#define PATIENCE (5 * NSEC_PER_SEC)

enum {
        STALE_SEC = 10, /* a socket that nobody listens at is removed after so long */
};

static void closedirp(DIR **dir)
{
        if (*dir)
                (void)closedir(*dir);
}

/* ---- who there is: ask_lock is held --------------------------------------------------------------------------- */

static void forget_lost(struct jobs *jobs)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                if (jobs->lenders[i].fd >= 0 && jobs->lenders[i].is_lost)
                        closep(&jobs->lenders[i].fd);
}

static bool is_known(struct jobs *jobs, const char *name)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                if (jobs->lenders[i].fd >= 0 && !strcmp(jobs->lenders[i].name, name))
                        return true;
        return false;
}

static void add_lender(struct jobs *jobs, int fd, const char *name)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++) {
                struct jobs_lender *lender = &jobs->lenders[i];

                if (lender->fd >= 0)
                        continue;
                *lender = (struct jobs_lender){ .fd = fd, .number = ++jobs->last_lender };
                (void)snprintf(lender->name, sizeof(lender->name), "%s", name);
                (void)eventfd_write(jobs->wake, 1); /* to be watched */
                return;
        }
        (void)close(fd);
}

/* One that has just been made is not listened at yet. */
static void remove_stale(const struct jobs *jobs, const char *name)
{
        char path[SOCKET_PATH];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/jobs/%s", jobs->dir, name);
        if (stat(path, &st) == 0 && time(NULL) - st.st_mtime > STALE_SEC)
                (void)unlink(path);
}

static void find_lenders(struct jobs *jobs)
{
        _cleanup_(closedirp) DIR *dir = NULL;
        const struct dirent *entry;
        char path[SOCKET_PATH];
        int fd;

        forget_lost(jobs);
        (void)snprintf(path, sizeof(path), "%s/jobs", jobs->dir);
        dir = opendir(path);
        while (dir && (entry = readdir(dir))) {
                if (strncmp(entry->d_name, jobs->prefix, strlen(jobs->prefix)) != 0 ||
                    !strcmp(entry->d_name, jobs->name) || strlen(entry->d_name) >= sizeof(jobs->name) ||
                    is_known(jobs, entry->d_name))
                        continue;
                fd = socket_connect(SOCK_SEQPACKET | SOCK_NONBLOCK, 0, "%s/jobs/%s", jobs->dir, entry->d_name);
                if (fd >= 0)
                        add_lender(jobs, fd, entry->d_name);
                else if (fd == -ECONNREFUSED)
                        remove_stale(jobs, entry->d_name);
        }
}

size_t jobs_lenders(struct jobs *jobs, struct jobs_watched *ret, size_t n)
{
        LOCKED(&jobs->peers_lock);
        size_t found = 0;

        for (size_t i = 0; i < JOBS_PEERS_MAX && found < n; i++)
                if (jobs->lenders[i].fd >= 0 && !jobs->lenders[i].is_lost)
                        ret[found++] = (struct jobs_watched){ jobs->lenders[i].fd, jobs->lenders[i].number };
        return found;
}

void jobs_lender_lost(struct jobs *jobs, uint32_t number)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                if (jobs->lenders[i].fd >= 0 && jobs->lenders[i].number == number)
                        jobs->lenders[i].is_lost = true;
}

pid_t jobs_lender_shim(struct jobs *jobs, uint32_t number)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                if (jobs->lenders[i].fd >= 0 && jobs->lenders[i].number == number)
                        return (pid_t)strtol(jobs->lenders[i].name + strlen(jobs->prefix), NULL, 10); /* jobs_init */
        return 0;
}

static int fd_of(struct jobs *jobs, uint32_t number)
{
        LOCKED(&jobs->peers_lock);

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                if (jobs->lenders[i].fd >= 0 && jobs->lenders[i].number == number && !jobs->lenders[i].is_lost)
                        return jobs->lenders[i].fd;
        return -1;
}

/* ---- a question and its answer: ask_lock is held -------------------------------------------------------------- */

/* An answer that came too late may be a loan. */
static void return_late(struct jobs *jobs, uint32_t lender, const struct message *late)
{
        int64_t number = message_number(late->body, "number", 0);

        if (!strcmp(message_type(late), "lent") && number > 0)
                jobs_give_back(jobs, (uint64_t)lender << 32 | (uint32_t)number);
}

/* MESSAGE_OK; -ETIMEDOUT; otherwise the lender is lost. */
static int await(struct jobs *jobs, const struct jobs_watched *lender, int64_t serial, struct message *ret)
{
        nsec until = clock_now() + PATIENCE;

        for (;;) {
                nsec left = until - clock_now();
                struct pollfd fds[] = { { lender->fd, POLLIN, 0 } };
                int r;

                if (left <= 0)
                        return -ETIMEDOUT;
                (void)poll(fds, 1, (int)(left / NSEC_PER_MSEC) + 1);
                r = message_receive(lender->fd, ret);
                if (r == MESSAGE_E_NONE || r == -EPROTO)
                        continue;
                if (r != MESSAGE_OK || message_number(ret->body, "serial", 0) == serial)
                        return r;
                return_late(jobs, lender->number, ret);
                message_done(ret);
        }
}

static int ask_lender(struct jobs *jobs, const struct jobs_watched *lender, json_t *body, const int *fds, size_t n_fds,
                      struct message *ret)
{
        int r;

        (void)json_object_set_new(body, "serial", json_integer(++jobs->serial));
        r = message_send(lender->fd, body, fds, n_fds);
        return r == MESSAGE_OK ? await(jobs, lender, jobs->serial, ret) : -EIO;
}

static json_t *borrow_new(const struct message_lease *lease, const struct gate_loan_ask *ask)
{
        json_t *body = message_new("borrow");

        (void)json_object_set_new(body, "owner", json_integer(lease->owner));
        (void)json_object_set_new(body, "namespace", json_string(lease->container.namespace));
        (void)json_object_set_new(body, "job", json_string(lease->job));
        (void)json_object_set_new(body, "client", json_integer(ask->client));
        (void)json_object_set_new(body, "object", json_integer(ask->object));
        (void)json_object_set_new(body, "index", json_integer(ask->index));
        return body;
}

static bool read_loan(const json_t *body, uint32_t lender, struct gate_loan *ret)
{
        int64_t number = message_number(body, "number", 0);

        if (number <= 0 || number > UINT32_MAX)
                return false;
        *ret = (struct gate_loan){
                .number = (uint64_t)lender << 32 | (uint32_t)number,
                .class_number = (uint32_t)message_number(body, "class", 0),
                .pages = (uint32_t)message_number(body, "pages", 0),
                .device = (int)message_number(body, "device", -1),
                .size = (bytes)message_number(body, "bytes", 0),
        };
        return true;
}

int jobs_borrow(struct jobs *jobs, const struct gate_loan_ask *ask, struct gate_loan *ret)
{
        struct jobs_watched lenders[JOBS_PEERS_MAX];
        const int fds[] = { ask->holder, ask->file };
        size_t n;
        LOCKED(&jobs->ask_lock);

        find_lenders(jobs);
        n = jobs_lenders(jobs, lenders, JOBS_PEERS_MAX);
        for (size_t i = 0; i < n; i++) {
                _cleanup_(message_done) struct message answer = { 0 };

                if (ask_lender(jobs, &lenders[i], borrow_new(jobs->lease, ask), fds, ask->file < 0 ? 1 : 2, &answer) ==
                            MESSAGE_OK &&
                    read_loan(answer.body, lenders[i].number, ret))
                        return 0;
        }
        return -ENOENT;
}

bool jobs_stands(struct jobs *jobs, uint64_t loan)
{
        _cleanup_(message_done) struct message answer = { 0 };
        struct jobs_watched lender = { -1, (uint32_t)(loan >> 32) };
        json_t *body;
        LOCKED(&jobs->ask_lock);

        lender.fd = fd_of(jobs, lender.number);
        if (lender.fd < 0)
                return false;
        body = message_new("stands");
        (void)json_object_set_new(body, "number", json_integer((uint32_t)loan));
        return ask_lender(jobs, &lender, body, NULL, 0, &answer) == MESSAGE_OK &&
               message_flag(answer.body, "ok", false);
}

/* ---- what goes back -------------------------------------------------------------------------------------------- */

void jobs_give_back(struct jobs *jobs, uint64_t loan)
{
        LOCKED(&jobs->peers_lock);

        if (jobs->n_returns == jobs->n_returns_room) {
                size_t more = jobs->n_returns_room ? jobs->n_returns_room * 2 : 64;
                uint64_t *grown = realloc(jobs->returns, more * sizeof(*grown));

                if (!grown)
                        return; /* the lender keeps the charge until our client is gone and we are */
                jobs->returns = grown;
                jobs->n_returns_room = more;
        }
        jobs->returns[jobs->n_returns++] = loan;
        (void)eventfd_write(jobs->wake, 1);
}

/* The lock is held. False: not now. */
static bool return_send(const struct jobs *jobs, uint64_t loan)
{
        json_t *body;

        for (size_t i = 0; i < JOBS_PEERS_MAX; i++) {
                const struct jobs_lender *lender = &jobs->lenders[i];

                if (lender->fd < 0 || lender->number != loan >> 32 || lender->is_lost)
                        continue;
                body = message_new("return_loan");
                (void)json_object_set_new(body, "number", json_integer((uint32_t)loan));
                return message_send(lender->fd, body, NULL, 0) != MESSAGE_E_NONE;
        }
        return true; /* gone, and the loan with it */
}

bool jobs_returns_send(struct jobs *jobs)
{
        LOCKED(&jobs->peers_lock);
        size_t n = 0;

        while (n < jobs->n_returns && return_send(jobs, jobs->returns[n]))
                n++;
        jobs->n_returns -= n;
        if (jobs->n_returns) /* without any, there is no array yet */
                memmove(jobs->returns, jobs->returns + n, jobs->n_returns * sizeof(*jobs->returns));
        return !jobs->n_returns;
}
