/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers, each on the descriptor that came with its request: at once, later because the call takes time
 * (struct late_answer), or when a fence is reached (gpu.c). An answer that cannot be sent is dropped.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "base/rights.h"

#include <stdlib.h>
#include <string.h>

static void send_bytes(int reply, struct iovec *parts, size_t n_parts, int fd)
{
        (void)rights_send(reply, parts, n_parts, &fd, fd >= 0, MSG_NOSIGNAL | MSG_DONTWAIT);
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
static nsec cost_of(const struct request *request)
{
        const struct faults *faults = &request->file->machine->faults;

        if (request->header.op != SIM_OP_IOCTL || request->call.kind != RM_CONTROL)
                return 0;
        return (nsec)faults->slow_control * NSEC_PER_USEC + (faults->real_time ? request->cost : 0);
}

/* The call takes time. False: send the answer now. */
static bool keep_for_later(struct request *request, const struct iovec *parts, size_t n_parts)
{
        struct machine *machine = request->file->machine;
        struct late_answer *late_answer;
        size_t size = 0, at = 0;

        if (!cost_of(request))
                return false;
        for (size_t i = 0; i < n_parts; i++)
                size += parts[i].iov_len;
        late_answer = malloc(sizeof(*late_answer) + size);
        if (!late_answer)
                return false;
        *late_answer = (struct late_answer){ .next = machine->late_answers,
                                             .due = machine->now + cost_of(request),
                                             .reply = TAKE_FD(request->reply),
                                             .size = size };
        for (size_t i = 0; i < n_parts; i++) {
                memcpy(late_answer->data + at, parts[i].iov_base, parts[i].iov_len);
                at += parts[i].iov_len;
        }
        machine->late_answers = late_answer;
        return true;
}

void answer_send(struct request *request)
{
        struct sim_answer header = { .result = request->result,
                                     .n_segments = request->header.n_segments,
                                     .has_fd = request->fd >= 0,
                                     .argument = { request->argument[0], request->argument[1] } };
        struct iovec parts[2 + SIM_SEGMENTS_MAX] = { { &header, sizeof(header) } };
        size_t n = 1;

        if (request->reply < 0 || request->is_kept)
                return;
        if (request->block.is_returned && request->block.size) {
                header.block_size = (uint32_t)request->block.size;
                parts[n++] = (struct iovec){ request->block.data, request->block.size };
        }
        for (size_t i = 0; i < request->header.n_segments; i++) {
                if (!request->segments[i].is_returned || !request->segments[i].size)
                        continue;
                header.segment_size[i] = (uint32_t)request->segments[i].size;
                parts[n++] = (struct iovec){ request->segments[i].data, request->segments[i].size };
        }
        if (keep_for_later(request, parts, n))
                return;
        send_bytes(request->reply, parts, n, request->fd);
        close(request->reply);
}

nsec answer_late(struct machine *machine)
{
        nsec next = RUN_NEVER;

        for (struct late_answer **at = &machine->late_answers; *at;) {
                struct late_answer *late_answer = *at;
                struct iovec part = { late_answer->data, late_answer->size };

                if (late_answer->due > machine->now) {
                        next = late_answer->due < next ? late_answer->due : next;
                        at = &late_answer->next;
                        continue;
                }
                send_bytes(late_answer->reply, &part, 1, -1);
                close(late_answer->reply);
                *at = late_answer->next;
                free(late_answer);
        }
        return next;
}
