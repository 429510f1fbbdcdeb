/* SPDX-License-Identifier: Apache-2.0 */
/* Its work is done by a child, whose client is another one, beside a parent that has a context and does nothing. */
#define _GNU_SOURCE
#include "kit_time.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
        pid_t child = fork(); /* before anything of CUDA */

        time_tricks.says = 9;
        time_start();
        if (child == 0) {
                time_compute();
                return 0;
        }
        (void)waitpid(child, NULL, 0);
        return 0;
}
