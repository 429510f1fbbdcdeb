/*
 * Answers, each on the descriptor that came with its question: at once, later because a fault holds
 * it back (struct late), or whenever a fence is reached (gpu.c). Nobody waits for an answer that
 * cannot be sent.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static void send_bytes(int reply, struct iovec *parts, size_t n_parts, int fd)
{
        union {
                struct cmsghdr align;
                unsigned char bytes[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = n_parts };
        struct cmsghdr *header;

        if (fd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                header = CMSG_FIRSTHDR(&message);
                header->cmsg_level = SOL_SOCKET;
                header->cmsg_type = SCM_RIGHTS;
                header->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(header), &fd, sizeof(fd));
        }
        (void)sendmsg(reply, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void reply_send(int reply, int32_t result, uint64_t argument0, uint64_t argument1, int fd)
{
        struct sim_answer answer = { .result = result, .has_fd = fd >= 0, .argument = { argument0, argument1 } };
        struct iovec part = { &answer, sizeof(answer) };

        if (reply < 0)
                return;
        send_bytes(reply, &part, 1, fd);
        close(reply);
}

/* Only of controls: what a fault adds, and what the call takes. */
static nsec cost_of(const struct ask *ask)
{
        const struct faults *faults = &ask->file->machine->faults;

        if (ask->header.op != SIM_OP_IOCTL || ask->call.kind != RM_CONTROL)
                return 0;
        return (nsec)faults->slow_control * NSEC_PER_USEC + (faults->real_time ? ask->cost : 0);
}

/* The call takes time. False: send the answer now. */
static bool keep_for_later(struct ask *ask, const struct iovec *parts, size_t n_parts)
{
        struct machine *machine = ask->file->machine;
        struct late *late;
        size_t size = 0, at = 0;

        if (!cost_of(ask))
                return false;
        for (size_t i = 0; i < n_parts; i++)
                size += parts[i].iov_len;
        late = malloc(sizeof(*late) + size);
        if (!late)
                return false;
        *late = (struct late){
                .next = machine->late, .due = machine->now + cost_of(ask), .reply = TAKE_FD(ask->reply), .size = size
        };
        for (size_t i = 0; i < n_parts; i++) {
                memcpy(late->data + at, parts[i].iov_base, parts[i].iov_len);
                at += parts[i].iov_len;
        }
        machine->late = late;
        return true;
}

void answer_send(struct ask *ask)
{
        struct sim_answer header = { .result = ask->result,
                                     .n_segments = ask->header.n_segments,
                                     .has_fd = ask->fd >= 0,
                                     .argument = { ask->argument[0], ask->argument[1] } };
        struct iovec parts[2 + SIM_SEGMENTS_MAX] = { { &header, sizeof(header) } };
        size_t n = 1;

        if (ask->reply < 0 || ask->is_kept)
                return;
        if (ask->block.is_returned && ask->block.size) {
                header.block_size = (uint32_t)ask->block.size;
                parts[n++] = (struct iovec){ ask->block.data, ask->block.size };
        }
        for (size_t i = 0; i < ask->header.n_segments; i++) {
                if (!ask->segments[i].is_returned || !ask->segments[i].size)
                        continue;
                header.segment_size[i] = (uint32_t)ask->segments[i].size;
                parts[n++] = (struct iovec){ ask->segments[i].data, ask->segments[i].size };
        }
        if (keep_for_later(ask, parts, n))
                return;
        send_bytes(ask->reply, parts, n, ask->fd);
        close(ask->reply);
}

nsec answer_late(struct machine *machine)
{
        nsec next = RUN_NEVER;

        for (struct late **at = &machine->late; *at;) {
                struct late *late = *at;
                struct iovec part = { late->data, late->size };

                if (late->due > machine->now) {
                        next = late->due < next ? late->due : next;
                        at = &late->next;
                        continue;
                }
                send_bytes(late->reply, &part, 1, -1);
                close(late->reply);
                *at = late->next;
                free(late);
        }
        return next;
}
