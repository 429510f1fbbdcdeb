/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/slot.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        NODES = 1024, /* no kernel has more */
        WORD_BITS = 8 * sizeof(unsigned long),
};

int slot_numa(const struct rm_device *device)
{
        char path[96];
        int node = -1;
        FILE *file;

        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", device->domain,
                       device->bus, device->slot);
        file = fopen(path, "re");
        if (!file)
                return -1;
        if (fscanf(file, "%d", &node) != 1)
                node = -1;
        (void)fclose(file);
        return node;
}

void slot_memory_at(int node, void *memory, size_t size)
{
        unsigned long mask[NODES / WORD_BITS] = { 0 };

        if (node < 0 || node >= NODES)
                return;
        mask[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
        (void)syscall(SYS_mbind, memory, size, MPOL_PREFERRED, mask, (unsigned long)NODES + 1, 0u);
}
