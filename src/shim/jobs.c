/* SPDX-License-Identifier: Apache-2.0 */
/* The lender's side of jobs.h, and the thread. */
#include "shim/jobs.h"

#include "base/cleanup.h"
#include "net/socket.h"
#include "wire/messages.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

enum {
        RETRY_MS = 20,   /* a lender's socket is full */
        LAST_TRIES = 50, /* at the end, of RETRY_MS */
};

bool jobs_has(const struct message_lease *lease)
{
        return lease->job[0];
}

/* FNV-1a; jobs that share a number are told apart by what each question says. */
static uint64_t job_number(const struct message_lease *lease)
{
        char text[256];
        uint64_t hash = 0xcbf29ce484222325u;

        (void)snprintf(text, sizeof(text), "%u/%s/%s", (unsigned int)lease->owner, lease->container.namespace,
                       lease->job);
        for (const char *at = text; *at; at++)
                hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
        return hash;
}

void jobs_init(struct jobs *jobs, const char *dir, const struct message_lease *lease)
{
        char path[SOCKET_PATH];

        *jobs = (struct jobs){ .dir = dir, .lease = lease, .listener = -1 };
        lock_init(&jobs->ask_lock, LOCK_BORROW);
        lock_init(&jobs->peers_lock, LOCK_TALK);
        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                jobs->lenders[i].fd = -1;
        (void)snprintf(jobs->prefix, sizeof(jobs->prefix), "%016llx-", (unsigned long long)job_number(lease));
        (void)snprintf(jobs->name, sizeof(jobs->name), "%s%d.sock", jobs->prefix, (int)getpid());
        (void)snprintf(path, sizeof(path), "%s/jobs", dir);
        (void)mkdir(path, 0700);
        jobs->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        jobs->listener = socket_listen(SOCK_SEQPACKET | SOCK_NONBLOCK, 0600, "%s/jobs/%s", dir, jobs->name);
        if (jobs->wake < 0 || jobs->listener < 0)
                (void)fprintf(stderr,
                              "sublet: keeper: no socket for the job in %s/jobs: its tenants' memory stays apart\n",
                              dir);
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static bool is_same_job(const struct message_lease *lease, const json_t *body)
{
        return message_number(body, "owner", -1) == (int64_t)lease->owner &&
               !strcmp(message_text(body, "namespace", "?"), lease->container.namespace) &&
               !strcmp(message_text(body, "job", ""), lease->job);
}

static void answer(const struct jobs_borrower *borrower, const struct message *question, json_t *body)
{
        (void)json_object_set_new(body, "serial", json_integer(message_number(question->body, "serial", 0)));
        (void)message_send(borrower->fd, body, NULL, 0);
}

static void answer_loan(struct jobs *jobs, const struct jobs_borrower *borrower, const struct message *question,
                        const struct gate_loan *loan)
{
        json_t *body = message_new("lent");

        (void)json_object_set_new(body, "serial", json_integer(message_number(question->body, "serial", 0)));
        (void)json_object_set_new(body, "number", json_integer((json_int_t)loan->number));
        (void)json_object_set_new(body, "class", json_integer(loan->class_number));
        (void)json_object_set_new(body, "pages", json_integer(loan->pages));
        (void)json_object_set_new(body, "device", json_integer(loan->device));
        (void)json_object_set_new(body, "bytes", json_integer((json_int_t)loan->size));
        if (message_send(borrower->fd, body, NULL, 0) != MESSAGE_OK && loan->number)
                gate_loan_return(jobs->gate, borrower->number, (uint32_t)loan->number);
}

static void on_borrow(struct jobs *jobs, const struct jobs_borrower *borrower, struct message *question)
{
        const json_t *body = question->body;
        _cleanup_(closep) int holder = message_take_fd(question, 0);
        _cleanup_(closep) int file = message_take_fd(question, 1);
        struct gate_loan_ask ask = { (uint32_t)message_number(body, "client", 0),
                                     (uint32_t)message_number(body, "object", 0), file,
                                     (uint32_t)message_number(body, "index", 0), holder };
        struct gate_loan loan = { 0 };

        if (!is_same_job(jobs->lease, body) || holder < 0 || (file < 0 && !ask.object) ||
            gate_lend(jobs->gate, borrower->number, &ask, &loan) < 0)
                loan = (struct gate_loan){ 0 };
        answer_loan(jobs, borrower, question, &loan);
}

static void on_question(struct jobs *jobs, const struct jobs_borrower *borrower, struct message *question)
{
        const char *type = message_type(question);
        uint32_t number = (uint32_t)message_number(question->body, "number", 0);

        if (!strcmp(type, "borrow"))
                on_borrow(jobs, borrower, question);
        else if (!strcmp(type, "stands"))
                answer(borrower, question,
                       json_pack("{s:i, s:s, s:b}", "v", MESSAGE_VERSION, "type", "stands", "ok",
                                 gate_loan_stands(jobs->gate, borrower->number, number)));
        else if (!strcmp(type, "return_loan"))
                gate_loan_return(jobs->gate, borrower->number, number);
}

/* False: it has hung up. */
static bool borrower_read(struct jobs *jobs, const struct jobs_borrower *borrower)
{
        for (;;) {
                struct message question;
                int r = message_receive(borrower->fd, &question);

                if (r == MESSAGE_E_NONE)
                        return true;
                if (r == -EPROTO)
                        continue;
                if (r != MESSAGE_OK)
                        return false;
                on_question(jobs, borrower, &question);
                message_done(&question);
        }
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

/* The socket's directory is the daemon's user's, so whoever comes is one of ours. */
static void accept_borrower(struct jobs *jobs)
{
        int fd = accept4(jobs->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return;
        if (jobs->n_borrowers == JOBS_PEERS_MAX)
                (void)close(fd);
        else
                jobs->borrowers[jobs->n_borrowers++] = (struct jobs_borrower){ fd, ++jobs->last_borrower };
}

static void borrowers_read(struct jobs *jobs, const struct pollfd *fds)
{
        for (size_t i = jobs->n_borrowers; i--;) {
                struct jobs_borrower *borrower = &jobs->borrowers[i];

                if (!fds[i].revents || borrower_read(jobs, borrower))
                        continue;
                (void)close(borrower->fd);
                gate_borrower_gone(jobs->gate, borrower->number);
                *borrower = jobs->borrowers[--jobs->n_borrowers];
        }
}

static void lenders_check(struct jobs *jobs, const struct pollfd *fds, const struct jobs_watched *lenders, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
                        jobs_lender_lost(jobs, lenders[i].number);
                        if (gate_lender_gone(jobs->gate, lenders[i].number))
                                jobs->is_lender_lost = true;
                }
}

static void turn(struct jobs *jobs, int timeout_ms)
{
        struct pollfd fds[2 + 2 * JOBS_PEERS_MAX] = { { jobs->listener, POLLIN, 0 }, { jobs->wake, POLLIN, 0 } };
        struct jobs_watched lenders[JOBS_PEERS_MAX];
        size_t n_borrowers = jobs->n_borrowers, n_lenders = jobs_lenders(jobs, lenders, JOBS_PEERS_MAX);
        eventfd_t ignored;

        for (size_t i = 0; i < n_borrowers; i++)
                fds[2 + i] = (struct pollfd){ jobs->borrowers[i].fd, POLLIN, 0 };
        for (size_t i = 0; i < n_lenders; i++)
                fds[2 + n_borrowers + i] = (struct pollfd){ lenders[i].fd, POLLRDHUP, 0 };
        if (poll(fds, 2 + n_borrowers + n_lenders, timeout_ms) <= 0)
                return;
        if (fds[1].revents)
                (void)eventfd_read(jobs->wake, &ignored);
        lenders_check(jobs, fds + 2 + n_borrowers, lenders, n_lenders);
        borrowers_read(jobs, fds + 2);
        if (fds[0].revents)
                accept_borrower(jobs);
}

static void *jobs_run(void *context)
{
        struct jobs *jobs = context;

        while (!jobs->is_ending)
                turn(jobs, jobs_returns_send(jobs) ? -1 : RETRY_MS);
        for (int i = 0; i < LAST_TRIES && !jobs_returns_send(jobs); i++)
                (void)poll(NULL, 0, RETRY_MS);
        return NULL;
}

void jobs_start(struct jobs *jobs, struct gate *gate)
{
        jobs->gate = gate;
        if (jobs->listener >= 0 && jobs->wake >= 0)
                jobs->has_thread = pthread_create(&jobs->thread, NULL, jobs_run, jobs) == 0;
}

void jobs_stop(struct jobs *jobs)
{
        char path[SOCKET_PATH];

        jobs->is_ending = true;
        (void)eventfd_write(jobs->wake, 1);
        if (jobs->has_thread)
                (void)pthread_join(jobs->thread, NULL);
        (void)snprintf(path, sizeof(path), "%s/jobs/%s", jobs->dir, jobs->name);
        if (jobs->listener >= 0)
                (void)unlink(path);
        closep(&jobs->listener);
        for (size_t i = 0; i < jobs->n_borrowers; i++)
                (void)close(jobs->borrowers[i].fd);
        LOCKED(&jobs->peers_lock); /* a thread of the gate may still give back; nobody is told */
        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                closep(&jobs->lenders[i].fd);
}
