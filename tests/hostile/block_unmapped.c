/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by blocks that lie on two pages, the second of which another thread keeps taking away, so that the
 * answer cannot be written: the memory is there all the same. */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum {
        PAGE = 4096,
};

static unsigned char *pages;

/* The simulator's library writes the answer itself. */
static void come_back(int number)
{
        (void)number;
        (void)mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void *take_away(void *unused)
{
        (void)unused;
        for (;;) {
                (void)mprotect(pages + PAGE, PAGE, PROT_READ);
                (void)mprotect(pages + PAGE, PAGE, PROT_NONE);
                (void)mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE);
        }
        return NULL;
}

static int spelt(int fd, unsigned long request, void *block)
{
        size_t size = request >> 16 & 0x3fff;
        unsigned char *at = pages + PAGE - size / 2;
        int r;

        memcpy(at, block, size);
        r = ioctl(fd, request, at);
        memcpy(block, at, size);
        return r;
}

int main(void)
{
        struct sigaction action = { .sa_handler = come_back };
        struct kit_rm rm;
        pthread_t thread;

        pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        (void)sigaction(SIGSEGV, &action, NULL);
        kit_rm_open(&rm);
        if (pages == MAP_FAILED || pthread_create(&thread, NULL, take_away, NULL))
                kit_cannot("no pages");
        kit_ioctl = spelt;
        kit_hold(kit_rm_try(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib(), 100));
        exit(0);
}
