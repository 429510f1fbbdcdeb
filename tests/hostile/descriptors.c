/* SPDX-License-Identifier: Apache-2.0 */
/* Memory while the gate runs out of descriptors: each process that has made a driver call, each space and each export
 * costs it one. What it can no longer open or look up must not count as gone. */
#include "kit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
        PROCESSES = 1100,
        EXPORTS = 64,
};

static void child_main(int report)
{
        struct kit_rm rm;

        kit_rm_try_open(&rm);
        (void)!write(report, "", 1);
        kit_wait_for_end();
}

int main(void)
{
        uint64_t quota = kit_quota_mib(), got;
        int report[2];
        char word;

        kit_start();
        got = kit_take_managed(64, quota / 2);
        if (pipe(report) < 0)
                kit_cannot("no pipe");
        for (int i = 0; i < PROCESSES; i++) {
                pid_t child = fork();

                if (child == 0) {
                        (void)close(report[0]);
                        child_main(report[1]);
                }
                if (child < 0 || read(report[0], &word, 1) != 1)
                        kit_cannot("no process");
        }
        for (int i = 0; i < EXPORTS; i++) {
                int fd = kit_export(16);

                if (fd >= 0)
                        got += 16;
        }
        kit_let_it_settle();
        got += kit_take_managed(64, quota);
        kit_let_it_settle();
        got += kit_take_device(64, quota);
        kit_hold(got);
        return 0;
}
