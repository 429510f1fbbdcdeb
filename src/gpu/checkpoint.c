/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/checkpoint.h"

#include "base/cleanup.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
        LOCK_MSEC = 10000, /* until calls that have begun are over */

        /* cuda.h */
        CUDA_SUCCESS = 0,
};

struct library {
        int (*init)(unsigned int flags);
        int (*name)(int result, const char **ret);
        int (*state)(int process, int *ret);
        int (*steps[CHECKPOINT_N_STEPS])(int process, void *arguments);
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

/* A libcuda may want to be initialised before it answers: that opens the devices, so only if it does not answer. */
static bool states_read(const struct library *library, const pid_t *processes, size_t n, enum checkpoint_state *ret,
                        char *text)
{
        for (size_t i = 0; i < n; i++) {
                int state = CHECKPOINT_FAILED, r = library->state(processes[i], &state);

                if (r != CUDA_SUCCESS && library->init(0) == CUDA_SUCCESS)
                        r = library->state(processes[i], &state);
                if (kill(processes[i], 0) < 0 && errno == ESRCH)
                        ret[i] = CHECKPOINT_GONE;
                else if (r != CUDA_SUCCESS)
                        return failure_say(library, processes[i], "it cannot be suspended, cuCheckpointProcessGetState",
                                           r, text);
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

/* All the way. False: text says what failed. */
static bool move_all(const struct library *library, const pid_t *processes, size_t n, bool suspends, char *text)
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
                r = library->steps[step](processes[i], &arguments);
                if (r != CUDA_SUCCESS && (kill(processes[i], 0) == 0 || errno != ESRCH))
                        return failure_say(library, processes[i], step_names[step], r, text);
        }
        return false;
}

enum checkpoint_outcome checkpoint_move(const pid_t *processes, size_t n, bool suspends, char *text)
{
        enum checkpoint_state states[CHECKPOINT_PROCESSES];
        struct library library = { 0 };
        char why[CHECKPOINT_TEXT];

        *text = '\0';
        if (n > CHECKPOINT_PROCESSES) {
                (void)snprintf(text, CHECKPOINT_TEXT, "it has more than %d processes with memory of a device",
                               CHECKPOINT_PROCESSES);
                return CHECKPOINT_AS_BEFORE;
        }
        /* Nothing is begun with one of them that cannot. */
        if (!library_open(&library, text) || !states_read(&library, processes, n, states, text))
                return CHECKPOINT_AS_BEFORE;
        if (move_all(&library, processes, n, suspends, text))
                return CHECKPOINT_DONE;
        return move_all(&library, processes, n, !suspends, why) ? CHECKPOINT_AS_BEFORE : CHECKPOINT_LOST;
}
