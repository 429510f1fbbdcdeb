/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory of more processes than any list may have had room for: 2 MiB each of 1,200. */
#include "kit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        PROCESSES = 1200,
        PIECE = 2,
};

static void child_main(int report)
{
        struct kit_rm rm;

        kit_rm_open(&rm);
        (void)!write(report, kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE * MIB)) ? "y" : "n", 1);
        kit_wait_for_end();
}

int main(void)
{
        uint64_t got = 0;
        int report[2];

        if (pipe(report) < 0)
                kit_cannot("no pipe");
        for (int i = 0; i < PROCESSES; i++) {
                pid_t child = fork();
                char word = 'n';

                if (child == 0) {
                        (void)close(report[0]);
                        child_main(report[1]);
                }
                if (child < 0)
                        kit_cannot("no process");
                if (read(report[0], &word, 1) == 1 && word == 'y')
                        got += PIECE;
        }
        kit_hold(got);
        return 0;
}
