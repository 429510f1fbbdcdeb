/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VA space whose descriptor changes its number all the time, until a scan of the table has missed it and the gate has
 * let go of the space. Then a managed range is mapped there by a number that another thread changes between an ordinary
 * file and the space: nobody who knows of the mapping knows of the space that it came to.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        UVM_INITIALIZE = 0x30000001,
        UVM_REGISTER_GPU = 37,
        PIECE_MIB = 64,
        NUMBER = 600, /* that changes its file */
};

static _Atomic int space;
static atomic_bool is_moving = true, is_swapping;
static int plain;

static void *mover(void *unused)
{
        (void)unused;
        for (;;) {
                int high, low, was = space;

                if (!is_moving) {
                        (void)dup2(is_swapping ? was : plain, NUMBER);
                        (void)dup2(plain, NUMBER);
                        continue;
                }
                high = fcntl(was, F_DUPFD_CLOEXEC, 900);
                (void)close(was);
                low = fcntl(high, F_DUPFD_CLOEXEC, 20);
                (void)close(high);
                space = low;
        }
        return NULL;
}

/* Whoever ends with a space lets the gate look at all of them. */
static void settle(void)
{
        pid_t child = fork();
        uint64_t block[2] = { 0 };

        if (child == 0) {
                (void)kit_ioctl(open("/dev/nvidia-uvm", O_RDWR), UVM_INITIALIZE, block);
                _exit(0);
        }
        (void)waitpid(child, NULL, 0);
        kit_let_it_settle();
}

/* The gate lets nothing be mapped of a space that it does not know. */
static bool is_forgotten(int uvm, uint64_t at)
{
        return mmap((void *)at, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)at) ==
                       MAP_FAILED &&
               errno == EBADFD;
}

static int space_new(void)
{
        unsigned char block[40] = { 0 };
        int uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
        CUuuid uuid;

        if (uvm < 0 || kit_ioctl(uvm, UVM_INITIALIZE, block) < 0 || cuDeviceGetUuid(&uuid, 0) != CUDA_SUCCESS)
                kit_cannot("no space");
        memcpy(block, &uuid, sizeof(uuid));
        if (kit_ioctl(uvm, UVM_REGISTER_GPU, block) < 0)
                kit_cannot("no device in the space");
        return uvm;
}

static bool is_uvm(uint64_t at)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        bool is_it = false;
        char line[512];

        while (maps && fgets(line, sizeof(line), maps))
                if (strtoull(line, NULL, 16) == at)
                        is_it = strstr(line, "nvidia-uvm");
        if (maps)
                (void)fclose(maps);
        return is_it;
}

/* A mapping of the ordinary file is no range; the next one takes its place. */
static uint64_t map_swapped(uint64_t at)
{
        enum { TRIES = 500 };

        for (int i = 0; i < TRIES; i++) {
                if (mmap((void *)at, PIECE_MIB * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, NUMBER,
                         (off_t)at) == MAP_FAILED ||
                    !is_uvm(at))
                        continue;
                kit_migrate(space, at, PIECE_MIB * MIB);
                return PIECE_MIB;
        }
        return 0;
}

int main(void)
{
        uint64_t got = 0, at = 0x7000000000;
        pthread_t thread;
        int looks = 0;

        kit_start();
        plain = memfd_create("plain", MFD_CLOEXEC);
        space = space_new();
        if (pthread_create(&thread, NULL, mover, NULL))
                kit_cannot("no thread");
        for (; looks < 12; looks++, at += 2 * MIB) {
                settle();
                is_moving = false;
                (void)usleep(10 * 1000);
                if (is_forgotten(space, at))
                        break;
                is_moving = true;
        }
        printf("looks=%d\n", looks);
        is_moving = false;
        is_swapping = true;
        at += 1ull << 32;
        for (uint64_t i = 0; i < 2 * kit_quota_mib() / PIECE_MIB; i++, at += PIECE_MIB * MIB)
                got += map_swapped(at);
        kit_hold(got);
        _exit(0);
}
