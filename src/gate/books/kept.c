/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps memory of a tenant that has ended: a process outside of it that has the file on which one of its clients
 * was made, or to which memory was exported. Its name is for people: what is charged does not depend on it. So the
 * files of the first clients are watched, which a tenant may make many of, and no more.
 */
#include "gate/books.h"
#include "gate/request.h"
#include "gate/state/holder.h"

#include "base/clock.h"

#include <stdio.h>

enum {
        MAKERS_MAX = 64,
};

void makers_note(const struct request *request)
{
        struct open_files *makers = &request->gate->makers;
        nsec now = clock_now(), before = request->gate->makers_at;
        uint64_t gone[MAKERS_MAX];
        bool is_closing;

        if (open_files_count(makers) >= MAKERS_MAX && now - before > NSEC_PER_SEC &&
            atomic_compare_exchange_strong(&request->gate->makers_at, &before, now))
                (void)open_files_reap(makers, now, 0, gone, MAKERS_MAX, &is_closing);
        if (open_files_count(makers) < MAKERS_MAX)
                (void)open_files_keep(makers, request->fd);
}

pid_t gate_kept_by(struct gate *gate)
{
        pid_t holder = open_files_holder(&gate->makers);

        return holder ? holder : open_files_holder(&gate->exports);
}

void gate_report_leftover(struct gate *gate, unsigned int device, pid_t holder)
{
        char size[BYTES_TEXT], by[48] = "";

        if (holder > 0)
                (void)snprintf(by, sizeof(by), ": process %d has it open", holder);
        gate_tell(gate, EVENT_BOOKS_NOT_EMPTY, 0, "%s on device %u%s", bytes_format(gate_held(gate, device), size),
                  device, by);
}
