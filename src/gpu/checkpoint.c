/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/checkpoint.h"

#include "base/cleanup.h"
#include "base/process.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum {
        LOCK_MSEC = 10000, /* until calls that have begun are over */
        END_MSEC = 5000,   /* until the threads of a process that ends have ended */

        /* cuda.h */
        CUDA_SUCCESS = 0,
};

struct library {
        int (*init)(unsigned int flags);
        int (*name)(int result, const char **ret);
        int (*state)(int process, int *ret);
        int (*steps[CHECKPOINT_N_STEPS])(int process, void *arguments);
};

/* C4 */
struct held {
        pid_t id;
        int pidfd; /* -1: it was gone, or another process's number, when it was looked for */
};

/* What the arguments of a step are in cuda.h: 64 bytes, of which only a lock uses the first four. */
struct arguments {
        uint32_t timeout_ms;
        uint8_t rest[60];
};

static const char *const step_names[] = { "cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint",
                                          "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock" };

bool checkpoint_next(const enum checkpoint_state *states, size_t n, bool suspends, size_t *ret_process,
                     enum checkpoint_step *ret_step)
{
        static const struct {
                enum checkpoint_state from;
                enum checkpoint_step step;
        } order[2][2] = { { { CHECKPOINT_OUT, CHECKPOINT_RESTORE }, { CHECKPOINT_LOCKED, CHECKPOINT_UNLOCK } },
                          { { CHECKPOINT_RUNNING, CHECKPOINT_LOCK }, { CHECKPOINT_LOCKED, CHECKPOINT_SAVE } } };

        for (size_t pass = 0; pass < 2; pass++)
                for (size_t i = 0; i < n; i++)
                        if (states[i] == order[suspends][pass].from) {
                                *ret_process = i;
                                *ret_step = order[suspends][pass].step;
                                return true;
                        }
        return false;
}

/* A NULL one is missing. */
static void *symbol_find(void *library, const char *name)
{
        return dlsym(library, name);
}

static bool library_open(struct library *library, char *text)
{
        void *loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

        if (!loaded) {
                (void)snprintf(text, CHECKPOINT_TEXT, "the daemon finds no libcuda: %s", dlerror());
                return false;
        }
        *(void **)&library->init = symbol_find(loaded, "cuInit");
        *(void **)&library->name = symbol_find(loaded, "cuGetErrorName");
        *(void **)&library->state = symbol_find(loaded, "cuCheckpointProcessGetState");
        for (size_t i = 0; i < ARRAY_SIZE(step_names); i++)
                *(void **)&library->steps[i] = symbol_find(loaded, step_names[i]);
        if (library->init && library->name && library->state && library->steps[0] && library->steps[1] &&
            library->steps[2] && library->steps[3])
                return true;
        (void)snprintf(text, CHECKPOINT_TEXT,
                       "this driver cannot suspend a process: its libcuda has no cuCheckpointProcess calls "
                       "(CUDA 12.8, driver 570)");
        return false;
}

static bool failure_say(const struct library *library, pid_t process, const char *what, int result, char *text)
{
        const char *name = NULL;

        if (library->name(result, &name) != CUDA_SUCCESS || !name)
                name = "unknown";
        (void)snprintf(text, CHECKPOINT_TEXT, "process %d: %s: %s (%d)", process, what, name, result);
        return false;
}

/* In this order: while the process that the pidfd holds has not ended, what its number leads to is its own. */
static void processes_hold(const struct checkpoint_process *processes, size_t n, struct held *ret)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, processes[i].id, 0);
                uint64_t began = process_began(processes[i].id);
                bool is_it = pidfd >= 0 && began && (!processes[i].began || processes[i].began == began);

                ret[i] = (struct held){ processes[i].id, is_it ? TAKE_FD(pidfd) : -1 };
        }
}

static bool is_gone(const struct held *process)
{
        struct pollfd end = { process->pidfd, POLLIN, 0 };

        return process->pidfd < 0 || poll(&end, 1, 0) != 0;
}

/* After a call about it has failed (C5). Its descriptors and its threads go before its pidfd says so; where processors
 * are busy that takes a while. */
static bool goes(const struct held *process)
{
        struct pollfd end = { process->pidfd, POLLIN, 0 };

        return is_gone(process) || (process_is_ending(process->id) && poll(&end, 1, END_MSEC) != 0);
}

/* A libcuda may want to be initialised before it answers: that opens the devices, so only if it does not answer. */
static bool states_read(const struct library *library, const struct held *processes, size_t n,
                        enum checkpoint_state *ret, char *text)
{
        for (size_t i = 0; i < n; i++) {
                pid_t id = processes[i].id;
                int state = CHECKPOINT_FAILED, r = is_gone(&processes[i]) ? CUDA_SUCCESS : library->state(id, &state);

                if (r != CUDA_SUCCESS && library->init(0) == CUDA_SUCCESS)
                        r = library->state(id, &state);
                if (r != CUDA_SUCCESS ? goes(&processes[i]) : is_gone(&processes[i]))
                        ret[i] = CHECKPOINT_GONE;
                else if (r != CUDA_SUCCESS)
                        return failure_say(library, id, "it cannot be suspended, cuCheckpointProcessGetState", r, text);
                else
                        ret[i] = state >= 0 && state < CHECKPOINT_FAILED ? (enum checkpoint_state)state :
                                                                           CHECKPOINT_FAILED;
        }
        return true;
}

static bool has_failed(const enum checkpoint_state *states, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (states[i] == CHECKPOINT_FAILED)
                        return true;
        return false;
}

/* Whether a process has moved although a step of ours was refused: one who was killed had asked it before (C1). */
static bool has_moved(const struct library *library, const struct held *process, enum checkpoint_state from)
{
        enum checkpoint_state now = from;
        char ignored[CHECKPOINT_TEXT];

        return states_read(library, process, 1, &now, ignored) && now != from;
}

/* All the way. False: text says what failed. */
static bool move_all(const struct library *library, const struct held *processes, size_t n, bool suspends, char *text)
{
        enum checkpoint_state states[CHECKPOINT_PROCESSES];
        enum checkpoint_step step;
        size_t i;

        while (states_read(library, processes, n, states, text)) {
                struct arguments arguments = { 0 };
                int r;

                if (has_failed(states, n)) {
                        (void)snprintf(text, CHECKPOINT_TEXT, "the driver says that a checkpoint has failed");
                        return false;
                }
                if (!checkpoint_next(states, n, suspends, &i, &step))
                        return true;
                arguments.timeout_ms = step == CHECKPOINT_LOCK ? LOCK_MSEC : 0;
                r = is_gone(&processes[i]) ? CUDA_SUCCESS : library->steps[step](processes[i].id, &arguments);
                if (r != CUDA_SUCCESS && !goes(&processes[i]) && !has_moved(library, &processes[i], states[i]))
                        return failure_say(library, processes[i].id, step_names[step], r, text);
        }
        return false;
}

enum checkpoint_outcome checkpoint_move(const struct checkpoint_process *processes, size_t n, bool suspends, char *text)
{
        enum checkpoint_state states[CHECKPOINT_PROCESSES];
        struct held held[CHECKPOINT_PROCESSES]; /* until this process ends, which is soon */
        struct library library = { 0 };
        char why[CHECKPOINT_TEXT];

        *text = '\0';
        if (n > CHECKPOINT_PROCESSES) {
                (void)snprintf(text, CHECKPOINT_TEXT, "it has more than %d processes with memory of a device",
                               CHECKPOINT_PROCESSES);
                return CHECKPOINT_AS_BEFORE;
        }
        processes_hold(processes, n, held);
        /* Nothing is begun with one of them that cannot. */
        if (!library_open(&library, text) || !states_read(&library, held, n, states, text))
                return CHECKPOINT_AS_BEFORE;
        if (move_all(&library, held, n, suspends, text))
                return CHECKPOINT_DONE;
        return move_all(&library, held, n, !suspends, why) ? CHECKPOINT_AS_BEFORE : CHECKPOINT_LOST;
}
