/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by calls of children that share their parent's memory (vfork), each gone after one call. */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
        const uint64_t piece = 16;
        uint32_t handle = KIT_MEMORY;
        struct kit_rm rm;
        uint64_t got = 0;
        int status = 0;

        kit_rm_open(&rm);
        while (status == 0 && got < 2 * kit_quota_mib()) {
                pid_t child = vfork();

                if (child == 0)
                        _exit(!kit_ok(kit_rm_memory(&rm, handle, piece * MIB)));
                if (child < 0 || waitpid(child, &status, 0) != child)
                        kit_cannot("no child");
                handle++;
                if (status == 0)
                        got += piece;
        }
        kit_hold(got);
        return 0;
}
