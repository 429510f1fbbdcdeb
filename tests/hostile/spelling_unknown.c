/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that no tenant needs, on the driver's nodes: every number with several sizes, types and directions, and
 * numbers of UVM. None may succeed, and the gate must have seen each: "sent=N" is how many there were. */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
        LARGEST = 16384,
};

static unsigned char block[LARGEST];
static unsigned int sent, succeeded;

/* Of these the block is looked at before it is refused; and some are no tenant's to try on a device. */
static int is_known(unsigned int number)
{
        static const unsigned char known[] = { 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x34, 0x35, 0x39, 0x41, 0x4a,
                                               0x4d, 0x4e, 0x4f, 0x52, 0x54, 0x57, 0x58, 0x59, 0x5e, 0x5f };

        for (unsigned int i = 0; i < sizeof(known); i++)
                if (known[i] == number)
                        return 1;
        return number >= 0xc8 && number <= 0xda;
}

static void send(int fd, unsigned long request)
{
        sent++;
        succeeded += kit_ioctl(fd, request, block) >= 0;
}

static void send_all(int fd)
{
        static const unsigned int sizes[] = { 1, 8, 40, 100, 4096, 16383 };
        static const unsigned char types[] = { 0, 'F', 'T', 'd', 0xff };

        for (unsigned int number = 0; number < 256; number++)
                for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                        if (!is_known(number) || sizes[i] == 1 || sizes[i] == 16383)
                                send(fd, (unsigned long)(number % 4) << 30 | (unsigned long)sizes[i] << 16 |
                                                 (unsigned long)types[(number + i) % sizeof(types)] << 8 | number);
        for (unsigned int number = 0; number < 256; number++)
                send(fd, (unsigned long)'F' << 8 | number);
}

int main(void)
{
        int uvm = open("/dev/nvidia-uvm", O_RDWR);
        struct kit_rm rm;

        kit_rm_open(&rm);
        send_all(rm.ctl);
        send_all(rm.node);
        for (unsigned long number = 100; number < 1024; number++)
                send(uvm, number);
        printf("sent=%u succeeded=%u\n", sent, succeeded);
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib()));
        return 0;
}
