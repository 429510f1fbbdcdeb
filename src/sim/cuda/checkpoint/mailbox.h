/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where another process asks this one to be checkpointed: shared memory behind a descriptor that this process keeps
 * open, and that the other finds in /proc/PID/fd, by its name. So whoever may trace a process may checkpoint it, also
 * across namespaces, as with the real library; and it needs no file and no socket.
 *
 *      caller  holds a lock of the file, writes the question and raises `asked`
 *      thread  of the process, waits for `asked`, does it, writes the answer and sets `answered` to it
 *
 * A caller that dies leaves a question that is answered all the same; the next one waits until it is.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define MAILBOX_NAME "sublet-sim-checkpoint"

enum mailbox_question {
        MAILBOX_LOCK = 1,
        MAILBOX_CHECKPOINT,
        MAILBOX_RESTORE,
        MAILBOX_UNLOCK,
};

struct mailbox {
        _Atomic uint32_t asked, answered; /* serials; futexes */
        _Atomic uint32_t question, answer;
        _Atomic uint32_t state; /* CUprocessState */
};
