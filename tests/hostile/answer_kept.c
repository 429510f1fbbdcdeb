/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are never over, by memory that does not come (userfaultfd, and nobody serves it), of a tenant whose memory
 * should leave its device: its gate waits until no call is under way. Whoever never leaves keeps others out.
 *
 *      attack-answer-kept block    the answer goes to a page that may be read and not be written
 *      attack-answer-kept piece    what a pointer of the parameters points at cannot be written
 *      attack-answer-kept list     nor read
 *
 * "waiting=1", when the call has been made and has not come back.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0x00)
#endif

enum {
        PAGE = 4096,
        NR_CONTROL = 0x2a,
        BUILD_VERSION = 0x00000101, /* params: bytes@0, three pointers that are written */
        GR_GET_INFO = 0x20801201,   /* params: n@0, a pointer to pairs that are read and written @8 */
        HELD_MIB = 64,
};

static struct kit_rm rm;
static unsigned char *kept; /* the page */
static unsigned char params[40], text[3][32];
static const char *which;
static atomic_bool is_back;

/* Of a page that is there only its writing waits. */
static bool keep(bool is_there)
{
        struct uffdio_api api = { .api = UFFD_API, .features = is_there ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0 };
        struct uffdio_register range = { .mode = is_there ? UFFDIO_REGISTER_MODE_WP : UFFDIO_REGISTER_MODE_MISSING };
        struct uffdio_writeprotect protect = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
        int node = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        int faults = node < 0 ? -1 : ioctl(node, USERFAULTFD_IOC_NEW, O_CLOEXEC);

        if (faults < 0)
                faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        range.range.start = protect.range.start = (uintptr_t)kept;
        range.range.len = protect.range.len = PAGE;
        return faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &range) == 0 &&
               (!is_there || ioctl(faults, UFFDIO_WRITEPROTECT, &protect) == 0);
}

static void block_fill(unsigned char *block, uint32_t object, uint32_t command, uint32_t size)
{
        kit_put32(block, 0, rm.client);
        kit_put32(block, 4, object);
        kit_put32(block, 8, command);
        kit_put64(block, 16, (uintptr_t)params);
        kit_put32(block, 24, size);
        kit_put32(block, 28, 0x55); /* the answer is another */
}

static void *caller(void *unused)
{
        unsigned char own[32] = { 0 };
        unsigned char *block = strcmp(which, "block") ? own : kept;
        bool is_list = !strcmp(which, "list");

        (void)unused;
        if (is_list) {
                kit_put32(params, 0, 4);
                kit_put64(params, 8, (uintptr_t)kept);
        } else {
                kit_put32(params, 0, sizeof(text[0]));
                for (int i = 0; i < 3; i++)
                        kit_put64(params, 8 + 8 * (size_t)i, (uintptr_t)(block == kept ? text[i] : kept + 64 * i));
        }
        if (block == own)
                block_fill(own, is_list ? KIT_SUBDEVICE : rm.client, is_list ? GR_GET_INFO : BUILD_VERSION,
                           is_list ? 32 : 40);
        (void)kit_ioctl(rm.ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_CONTROL, sizeof(own)), block);
        is_back = true;
        return NULL;
}

int main(int argc, char **argv)
{
        pthread_t thread;

        which = argc > 1 ? argv[1] : "block";
        kit_start();
        kit_rm_open(&rm);
        if (!kit_take_device(HELD_MIB, HELD_MIB))
                kit_cannot("no memory");
        kept = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!strcmp(which, "block"))
                block_fill(kept, rm.client, BUILD_VERSION, sizeof(params)); /* while it may be written */
        if (!keep(!strcmp(which, "block")))
                kit_cannot("no userfaultfd here");
        if (pthread_create(&thread, NULL, caller, NULL))
                kit_cannot("no thread");
        (void)sleep(1);
        printf("waiting=%d\n", !is_back);
        (void)fflush(stdout);
        (void)pause();
        _exit(0);
}
