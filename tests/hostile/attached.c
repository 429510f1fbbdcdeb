/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices by the driver's ids, which are no secret, opened and kept open by request 0xd4 on the control node, whatever
 * nodes there are: "attached=N" of those that are arguments. Without one: the ids of the machine, a line each.
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
        NR_LIST = 0xc8,
        NR_ATTACH = 0xd4,
        DEVICES = 32,
        DEVICE_SIZE = 72,
        ID_AT = 16,
};

static int list_ids(int ctl)
{
        static unsigned char devices[DEVICES * DEVICE_SIZE];

        if (kit_ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_LIST, sizeof(devices)), devices) < 0)
                return 2;
        for (int i = 0; i < DEVICES; i++)
                if (devices[i * DEVICE_SIZE])
                        printf("%u\n", kit_get32(devices, (size_t)i * DEVICE_SIZE + ID_AT));
        return 0;
}

int main(int argc, char **argv)
{
        int ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC), n = 0;

        if (ctl < 0)
                return 2;
        if (argc < 2)
                return list_ids(ctl);
        for (int i = 1; i < argc; i++) {
                unsigned char ids[DEVICES * 4] = { 0 };

                kit_put32(ids, 4 * (size_t)(i % DEVICES), (uint32_t)strtoul(argv[i], NULL, 10));
                (void)close(ctl); /* a descriptor takes one list */
                ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
                n += kit_ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ATTACH, sizeof(ids)), ids) == 0;
        }
        printf("attached=%d\n", n);
        return 0;
}
