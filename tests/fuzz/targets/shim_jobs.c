/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shims of a job that ask each other for loans, with peers that say anything.
 *
 *      steps: what (1) and its operands (enum step)
 *
 * Nothing is lent but to who names the job, and shows what it names; a loan is known by a number that its lender gave,
 * and what is given back goes to that one. A wait takes no time, but the clock says it did. At the end no descriptor is
 * left.
 */
#include <poll.h>
#include <stdint.h>

static int64_t waited_clock(void);
static int waited_poll(struct pollfd *fds, nfds_t n, int msec);

#define gate_lend heard_lend
#define gate_loan_stands heard_stands
#define gate_loan_return heard_return
#define gate_borrower_gone heard_borrower_gone
#define gate_lender_gone heard_lender_gone
#define clock_now waited_clock
#define poll waited_poll
#include "shim/jobs.c"
#include "shim/jobs_ask.c"
#undef clock_now
#undef poll

#include "base/rights.h"

#include <fcntl.h>
#include <sys/socket.h>

enum step {
        STEP_QUESTION, /* borrower, descriptors, size (2), text */
        STEP_BORROW,   /* how many fields of the job are right, object, descriptors */
        STEP_ANSWER,   /* lender, descriptors, size (2), text: before it is asked */
        STEP_LENT,     /* lender, serial, number (4) */
        STEP_ASK,      /* object, with a file */
        STEP_STANDS,   /* which loan */
        STEP_GIVE_BACK,
        STEP_HANG_UP, /* which */
        STEP_LOST,    /* lender */
        N_STEPS,
};

enum {
        BORROWERS = 3,
        LENDERS = 3,
        STEPS_MAX = 64,
        DESCRIPTORS_MAX = 128,
};

static struct message_lease lease = { .owner = 7, .job = "train", .container = { .namespace = "team" } };
static struct jobs jobs;
static int borrowers[BORROWERS], lenders[LENDERS]; /* the peers' ends */
static uint64_t loans[4];
static unsigned int n_loans, n_lent;
static int64_t waited;
static bool is_right; /* what asks at the moment may be lent to */
static const uint8_t *at;
static size_t left;

static void require(bool holds)
{
        if (!holds)
                abort();
}

static uint8_t next(void)
{
        if (!left)
                return 0;
        left--;
        return *at++;
}

static unsigned int count_descriptors(void)
{
        unsigned int n = 0;

        for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* ---- time -------------------------------------------------------------------------------------------------- */

static int64_t waited_clock(void)
{
        return waited;
}

static int waited_poll(struct pollfd *fds, nfds_t n, int msec)
{
        int r = poll(fds, n, 0);

        if (r == 0 && msec > 0)
                waited += msec * NSEC_PER_MSEC;
        return r;
}

/* ---- the gate ---------------------------------------------------------------------------------------------- */

int heard_lend(struct gate *gate, uint32_t borrower, const struct gate_loan_ask *ask, struct gate_loan *ret)
{
        (void)gate;
        require(is_right && borrower > 0 && borrower <= BORROWERS);
        require(fcntl(ask->holder, F_GETFD) >= 0 && (ask->object || fcntl(ask->file, F_GETFD) >= 0));
        *ret = (struct gate_loan){ .number = ++n_lent, .class_number = 0x40, .size = 4096 };
        return 0;
}

bool heard_stands(struct gate *gate, uint32_t borrower, uint32_t number)
{
        (void)gate;
        require(borrower > 0 && borrower <= BORROWERS);
        return number % 2;
}

void heard_return(struct gate *gate, uint32_t borrower, uint32_t number)
{
        (void)gate;
        (void)number;
        require(borrower > 0 && borrower <= BORROWERS);
}

void heard_borrower_gone(struct gate *gate, uint32_t borrower)
{
        (void)gate;
        require(borrower > 0 && borrower <= BORROWERS);
}

bool heard_lender_gone(struct gate *gate, uint32_t lender)
{
        (void)gate;
        require(lender > 0 && lender <= LENDERS);
        return true;
}

/* ---- peers ------------------------------------------------------------------------------------------------- */

static void send_text(int peer, const char *text, size_t size, size_t n)
{
        int event = eventfd(0, EFD_CLOEXEC);
        const int fds[MESSAGE_FDS] = { event, event, event, event };

        if (peer >= 0)
                (void)rights_send(peer, &(struct iovec){ (void *)(uintptr_t)text, size }, 1, fds, n,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        closep(&event);
}

static void send_json(int peer, json_t *body, size_t n)
{
        char *text = json_dumps(body, JSON_COMPACT);

        if (text)
                send_text(peer, text, strlen(text), n);
        free(text);
        json_decref(body);
}

static void says(int peer)
{
        size_t n = next() % (MESSAGE_FDS + 1u), size = next();
        json_t *body = NULL;

        size |= (size_t)next() << 8;
        size = size < left ? size : left;
        is_right = n && message_parse((const char *)at, size, &body) == 0 && json_object_get(body, "owner") &&
                   is_same_job(&lease, body);
        send_text(peer, (const char *)at, size, n);
        json_decref(body);
        at += size;
        left -= size;
}

static void asks_to_borrow(int peer)
{
        unsigned int how = next();
        uint32_t object = next() % 2;
        size_t n = next() % (MESSAGE_FDS + 1u);
        struct message_lease other = lease;

        other.owner += how & 1;
        if (how & 2)
                other.job[0] = 'b';
        if (how & 4)
                other.container.namespace[0] = '\0';
        is_right = !(how & 7) && n && (object || n > 1);
        send_json(peer, borrow_new(&other, &(struct gate_loan_ask){ .client = 1, .object = object }), n);
}

static void answers(int peer)
{
        json_t *body = message_new("lent");
        int64_t serial = next(), number = next();

        for (int i = 0; i < 3; i++)
                number = number << 8 | next();
        (void)json_object_set_new(body, "serial", json_integer(serial));
        (void)json_object_set_new(body, "number", json_integer(number));
        send_json(peer, body, 0);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void asks(void)
{
        int file = next() % 2 ? borrowers[0] : -1;
        struct gate_loan_ask ask = { .client = 5, .object = file < 0 ? next() : 0, .file = file, .holder = jobs.wake };
        struct gate_loan loan = { 0 };
        int64_t began = waited;

        if (jobs_borrow(&jobs, &ask, &loan) == 0) {
                require((uint32_t)loan.number && loan.number >> 32 && loan.number >> 32 <= LENDERS);
                loans[n_loans++ % 4] = loan.number;
        }
        require(waited - began <= LENDERS * (PATIENCE + NSEC_PER_SEC)); /* J1 */
}

static void step(void)
{
        enum step what = next() % N_STEPS;
        unsigned int who = next() % BORROWERS;

        is_right = false;
        switch (what) {
        case STEP_QUESTION:
                says(borrowers[who]);
                break;
        case STEP_BORROW:
                asks_to_borrow(borrowers[who]);
                break;
        case STEP_ANSWER:
                says(lenders[who]);
                break;
        case STEP_LENT:
                answers(lenders[who]);
                break;
        case STEP_ASK:
                asks();
                break;
        case STEP_STANDS:
                (void)jobs_stands(&jobs, loans[who]);
                break;
        case STEP_GIVE_BACK:
                jobs_give_back(&jobs, loans[who]);
                break;
        case STEP_HANG_UP:
                closep(next() % 2 ? &borrowers[who] : &lenders[who]);
                break;
        case STEP_LOST:
                jobs_lender_lost(&jobs, who + 1);
                break;
        case N_STEPS:
                break;
        }
        turn(&jobs, 0);
        (void)jobs_returns_send(&jobs);
        for (size_t i = 0; i < jobs.n_returns; i++)
                require(!(uint32_t)jobs.returns[i] || jobs.returns[i] >> 32);
}

/* ---- begin and end ----------------------------------------------------------------------------------------- */

static void pair(int *ours, int *theirs)
{
        int ends[2];

        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        *ours = ends[0];
        *theirs = ends[1];
}

static void begin(void)
{
        jobs = (struct jobs){ .dir = "/nonexistent", .lease = &lease, .listener = -1 };
        lock_init(&jobs.ask_lock, LOCK_BORROW);
        lock_init(&jobs.peers_lock, LOCK_TALK);
        jobs.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (size_t i = 0; i < JOBS_PEERS_MAX; i++)
                jobs.lenders[i].fd = -1;
        for (uint32_t i = 0; i < LENDERS; i++) {
                int fd;

                pair(&fd, &lenders[i]);
                add_lender(&jobs, fd, "x");
        }
        for (uint32_t i = 0; i < BORROWERS; i++) {
                pair(&jobs.borrowers[i].fd, &borrowers[i]);
                jobs.borrowers[i].number = ++jobs.last_borrower;
        }
        jobs.n_borrowers = BORROWERS;
        memset(loans, 0, sizeof(loans));
        n_loans = n_lent = 0;
        waited = 0;
}

static void end(void)
{
        for (size_t i = 0; i < BORROWERS; i++) {
                closep(&borrowers[i]);
                closep(&lenders[i]);
        }
        turn(&jobs, 0);
        require(!jobs.n_borrowers && jobs_returns_send(&jobs)); /* J2: all that hung up were noticed */
        jobs_stop(&jobs);
        closep(&jobs.wake);
        free(jobs.returns);
        lock_done(&jobs.ask_lock);
        lock_done(&jobs.peers_lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned int n = count_descriptors();
        int64_t until;

        at = data;
        left = size;
        begin();
        for (int i = 0; i < STEPS_MAX && left; i++)
                step();
        end();
        for (until = clock_realtime() + 10 * NSEC_PER_SEC; count_descriptors() != n;)
                require(clock_realtime() < until); /* threads close what was sent (base/descriptors.h) */
        return 0;
}
