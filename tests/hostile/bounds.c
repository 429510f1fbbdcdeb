/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are larger than the gate takes, one for each bound that a tenant can reach: parameters, memory that
 * parameters point at, requests inside requests. Each must fail, and the gate must have said so: "sent=N" is how many
 * there were.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
        ROOM = 8 << 20,
        NR_XFER = 0xd3,
        NR_CONTROL = 0x2a,
        ATTACHED_IDS = 0x201,
        CLASS_LIST = 0x00800201, /* count@0, pointer@8 */
};

static unsigned int sent, succeeded;
static unsigned char *room;

static void count(bool is_done)
{
        sent++;
        succeeded += is_done;
}

/* Past each bound by one, by much, and by as much as the field can say. */
static void send_params(const struct kit_rm *rm)
{
        static const uint32_t sizes[] = { (256 << 10) + 1, 1 << 20, ROOM, 0x80000000u, 0xffffffffu };

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                count(kit_ok(kit_rm_control(rm, rm->client, ATTACHED_IDS, room, sizes[i])));
}

static void send_lists(const struct kit_rm *rm)
{
        static const uint32_t numbers[] = { (1 << 18) + 1, 1 << 20, 0x40000000u, 0x40000001u, 0xffffffffu };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                unsigned char params[16] = { 0 };

                kit_put32(params, 0, numbers[i]);
                kit_put64(params, 8, (uintptr_t)room);
                count(kit_ok(kit_rm_control(rm, KIT_DEVICE, CLASS_LIST, params, sizeof(params))));
        }
}

static void send_nested(const struct kit_rm *rm)
{
        static const uint32_t numbers[] = { NR_XFER, 0x100, 0x100 | NR_CONTROL, 0xffffffffu };
        static const uint32_t sizes[] = { 16384, 1 << 20, 0xffffffffu };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) + sizeof(sizes) / sizeof(sizes[0]); i++) {
                size_t n = sizeof(numbers) / sizeof(numbers[0]);
                unsigned char outer[16] = { 0 };

                kit_put32(outer, 0, i < n ? numbers[i] : NR_CONTROL);
                kit_put32(outer, 4, i < n ? 32 : sizes[i - n]);
                kit_put64(outer, 8, (uintptr_t)room);
                count(kit_ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_XFER, sizeof(outer)), outer) >= 0);
        }
}

int main(void)
{
        struct kit_rm rm;

        room = calloc(1, ROOM);
        if (!room)
                kit_cannot("no memory");
        kit_rm_open(&rm);
        send_params(&rm);
        send_lists(&rm);
        send_nested(&rm);
        printf("sent=%u succeeded=%u\n", sent, succeeded);
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib()));
        return 0;
}
