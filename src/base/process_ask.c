/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_ask.h"

#include "base/errand.h"
#include "base/process.h"

#include <stdbool.h>
#include <stdlib.h>

#define PATIENCE (20 * NSEC_PER_MSEC)

struct question {
        pid_t process;
        uint64_t began;
        bool is_there;
};

static void look(void *context)
{
        struct question *question = context;

        question->is_there = process_is_alive(question->process) &&
                             (!question->began || process_began(question->process) == question->began);
}

enum process_answer process_ask(pid_t process, uint64_t began)
{
        struct question *question = malloc(sizeof(*question));
        enum process_answer answer;

        if (!question)
                return PROCESS_UNKNOWN;
        *question = (struct question){ .process = process, .began = began };
        if (errand_run(look, question, PATIENCE) != ERRAND_DONE)
                return PROCESS_UNKNOWN;
        answer = question->is_there ? PROCESS_THERE : PROCESS_GONE;
        free(question);
        return answer;
}
