/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that tenants of a job let each other have, by bare driver calls; tests/integration/daemon/job-memory.bats
 * plays several of them against each other. Each says what it did and goes on when the next file is there.
 *
 *      attack-lent give FILE        allocates, lets everybody dup it, and writes "CLIENT OBJECT" to FILE; at FILE.close
 *                                   it closes all descriptors of its client, without a word to the driver, at
 *                                   FILE.free it frees the client; then there is FILE.gone
 *      attack-lent stand FILE       the same as give with FILE.stand, for a client that has got the number again
 *      attack-lent take FILE [N]    dups what FILE names: "took=N", 1 if it has it, and frees it; N times
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
        NR_DUP = 0x34,
        NR_SHARE = 0x35,
        PIECE_MIB = 256,
        TAKEN = KIT_MEMORY + 0x100,
        WAITS = 3000,
};

static bool is_there(const char *file, const char *suffix)
{
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s.%s", file, suffix);
        return access(path, F_OK) == 0;
}

static bool request(const struct kit_rm *rm, unsigned int nr, void *block, size_t size, size_t status_at)
{
        return kit_ioctl(rm->ctl, (3ul << 30) | (size << 16) | ('F' << 8) | nr, block) == 0 &&
               kit_get32(block, status_at) == 0;
}

static bool let_all(const struct kit_rm *rm, uint32_t object)
{
        unsigned char block[24] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, object);
        kit_put32(block, 8, rm->client);
        kit_put32(block, 12, 1); /* may dup */
        kit_put32(block, 16, 1); /* all */
        return request(rm, NR_SHARE, block, sizeof(block), 20);
}

static bool dup_it(const struct kit_rm *rm, uint32_t client, uint32_t object)
{
        unsigned char block[28] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, TAKEN);
        kit_put32(block, 12, client);
        kit_put32(block, 16, object);
        return request(rm, NR_DUP, block, sizeof(block), 24);
}

static void names_write(const char *file, const char *suffix, uint32_t client)
{
        char path[4000], new[4096];
        FILE *to;

        (void)snprintf(path, sizeof(path), "%s%s", file, suffix);
        (void)snprintf(new, sizeof(new), "%s.new", path);
        to = fopen(new, "w");
        if (!to)
                exit(2);
        (void)fprintf(to, "%u %u\n", client, KIT_MEMORY);
        if (fclose(to) == 0)
                (void)rename(new, path);
}

static int give(const char *file, const char *suffix)
{
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE_MIB * MIB)) || !let_all(&rm, KIT_MEMORY))
                return 2;
        names_write(file, suffix, rm.client);
        for (int i = 0; i < WAITS && !is_there(file, "end"); i++) {
                if (!*suffix && rm.ctl >= 0 && (is_there(file, "close") || is_there(file, "free"))) {
                        if (is_there(file, "free") && !kit_ok(kit_rm_free(&rm, rm.client, rm.client)))
                                return 2;
                        (void)close(rm.node);
                        (void)close(rm.ctl);
                        rm.ctl = -1;
                        names_write(file, ".gone", rm.client);
                }
                (void)usleep(10000);
        }
        return 0;
}

static int take(const char *file, unsigned long n)
{
        unsigned int client = 0, object = 0;
        unsigned long n_taken = 0;
        struct kit_rm rm;
        FILE *from;

        kit_rm_open(&rm);
        from = fopen(file, "r");
        if (!from || fscanf(from, "%u %u", &client, &object) != 2)
                return 2;
        (void)fclose(from);
        for (unsigned long i = 0; i < n; i++)
                if (dup_it(&rm, client, object)) {
                        n_taken++;
                        (void)kit_rm_free(&rm, KIT_DEVICE, TAKEN);
                }
        printf("took=%lu\n", n_taken);
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 3 && !strcmp(argv[1], "give"))
                return give(argv[2], "");
        if (argc == 3 && !strcmp(argv[1], "stand"))
                return give(argv[2], ".stand");
        if (argc >= 3 && !strcmp(argv[1], "take"))
                return take(argv[2], argc > 3 ? strtoul(argv[3], NULL, 0) : 1);
        fprintf(stderr, "usage: attack-lent give|stand|take FILE\n");
        return 2;
}
