/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VA spaces of UVM that the tenant has or had: what the driver says is in them, and when the gate lets go of one.
 *
 *      X1  Which space a descriptor led to when the kernel made a mapping is not always the one that was looked up: so
 *          a range that was charged is sought in every space.
 *      X2  A space is let go of only when the driver says that it has nothing in it, also nothing that was charged in
 *          another, and no mapping is on its way that may yet come to it: a charge whose space is not asked any more
 *          would end.
 *      X3  Whoever has the file of such a space all the same, where no look sees it, has a space without a device: it
 *          is taken out first, and no call reaches the space any more (serve.c). What is mapped there lies in host
 *          memory for good.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "gate/state/uvm_space.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum {
        LINE_SIZE = 4352, /* of /proc/PID/maps: a path and its fields */
};

/* No space is asked so soon after a mapping of it was let through, while one may be on its way: the question would be
 * in the mapping's way. */
#define MAPPING_TAKES (5 * NSEC_PER_MSEC)

struct range {
        uint64_t base, end;
};

/* By name, and by inode: a second link to the node is the node, whatever its name. files_have_range knows a
 * container's own nodes. */
static bool is_uvm(const char *line)
{
        unsigned int major_, minor_;
        unsigned long inode;
        struct stat st;

        if (strstr(line, "nvidia-uvm"))
                return true;
        return strstr(line, "/dev/") && stat("/dev/nvidia-uvm", &st) == 0 &&
               sscanf(line, "%*s %*s %*s %x:%x %lu", &major_, &minor_, &inode) == 3 && inode == st.st_ino &&
               makedev(major_, minor_) == st.st_dev;
}

/* The ranges of UVM in a process's address space. How many, or -errno. */
static ssize_t read_ranges(struct files *files, pid_t process, struct range *ranges, size_t n_room)
{
        char path[64], line[LINE_SIZE];
        size_t n = 0;
        FILE *maps;

        (void)snprintf(path, sizeof(path), "/proc/%d/maps", process);
        maps = fopen(path, "re");
        if (!maps)
                return -errno;
        while (n < n_room && process_line(maps, line, sizeof(line))) {
                unsigned long long base, end;

                if ((is_uvm(line) || files_have_range(files, line)) && sscanf(line, "%llx-%llx", &base, &end) == 2)
                        ranges[n++] = (struct range){ base, end };
        }
        (void)fclose(maps);
        return (ssize_t)n;
}

/* A process that maps UVM, or whose address space cannot be seen. */
static bool has_ranges(struct files *files, pid_t process)
{
        struct range range;
        ssize_t n = read_ranges(files, process, &range, 1);

        return n > 0 || (n < 0 && n != -ENOENT && n != -ESRCH);
}

/* The tenant's own calls on the space wait meanwhile, and mappings that begin are not let through (note_mapping). */
enum answer space_ask(struct gate *gate, pid_t asker, const struct file *space, uint64_t base, uint64_t length)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        enum answer answer = RANGE_LATER;

        if (!mappings_has_others(&gate->mappings, asker, base, length) ||
            clock_now() - files_mapped_at(&gate->files, space->number) >= MAPPING_TAKES)
                answer = uvm_space_has(&gate->options.driver, &gate->options.layout, space->fd, base, length) ?
                                 RANGE_THERE :
                                 RANGE_GONE;
        client_locks_drop(&locks);
        return answer;
}

/* In any space: which one a descriptor led to when the kernel made the mapping is not what we looked up. */
enum answer spaces_ask(struct gate *gate, pid_t asker, uint64_t base, uint64_t length)
{
        enum answer answer = RANGE_GONE;
        struct file space = { 0 };

        while (answer == RANGE_GONE && files_next(&gate->files, space.number, &space)) {
                answer = space_ask(gate, asker, &space, base, length);
                files_unuse(&gate->files, space.number);
        }
        return answer;
}

void spaces_clean(struct gate *gate)
{
        struct file space = { 0 };

        while (files_next(&gate->files, space.number, &space)) {
                uvm_space_clean(&gate->options.driver, space.fd);
                files_unuse(&gate->files, space.number);
        }
}

/* What was charged as another's, X1; or there was no time to ask about all, and the space stays. */
static bool has_others_range(struct gate *gate, const struct file *file)
{
        nsec until = clock_now() + SWEEP_MOST;
        uint64_t space, base, length;
        uint32_t owner = 0;
        bool has_owner;

        for (;;) {
                size_t i = 0;

                {
                        LOCKED(&gate->ledger_lock);
                        has_owner = ledger_managed_owner_next(gate->ledger, &owner);
                }
                if (!has_owner)
                        return false;
                for (;;) {
                        {
                                LOCKED(&gate->ledger_lock);
                                if (!ledger_managed_next(gate->ledger, owner, &i, &space, &base, &length))
                                        break;
                        }
                        mappings_check_due(gate, clock_now());
                        if (uvm_space_has(&gate->options.driver, &gate->options.layout, file->fd, base, length) ||
                            clock_now() >= until)
                                return true;
                }
        }
}

/* One that was charged is made when it is there. Of another nothing can be asked: it is when its thread is back. */
static bool is_one_on_its_way(struct gate *gate)
{
        struct mapping_call call;

        for (size_t i = gate->mappings.n; i-- > 0;)
                if (mappings_at(&gate->mappings, i, &call) &&
                    (!call.is_charged || spaces_ask(gate, 0, call.base, call.length) != RANGE_THERE))
                        return true;
        return false;
}

static bool has_range(struct gate *gate, uint64_t number, uint64_t *base, uint64_t *ret_length)
{
        LOCKED(&gate->ledger_lock);

        return ledger_range_next(gate->ledger, number, base, ret_length);
}

/* Whatever the ledger knows in the space is freed by the driver, so that nobody who has the file unseen has memory in
 * it; and is no longer in the ledger, also where the space stays: what is mapped over a pool that is gone is managed
 * memory. False: the driver does not free one, or there was no time for all. */
static bool free_ranges(struct gate *gate, const struct file *file)
{
        const struct gate_driver *driver = &gate->options.driver;
        nsec until = clock_now() + SWEEP_MOST;
        uint64_t base = 0, length;
        bool is_free = true, is_left = true;

        while (is_free && is_left) {
                if (clock_now() >= until)
                        return false;
                mappings_check_due(gate, clock_now());
                struct client_lock_pair locks = client_locks_take(gate, file->number, file->number);

                is_left = has_range(gate, file->number, &base, &length);
                is_free = !is_left || uvm_space_free(driver, &gate->options.layout, file->fd, base, length);
                if (is_left && is_free) {
                        LOCKED(&gate->ledger_lock);
                        ledger_range_gone(gate->ledger, file->number, base);
                }
                client_locks_drop(&locks);
        }
        return is_free;
}

static bool space_empty(void *context, const struct file *file)
{
        struct gate *gate = context;
        const struct gate_driver *driver = &gate->options.driver;

        if (is_one_on_its_way(gate))
                return false;
        uvm_space_clean(driver, file->fd);
        if (!free_ranges(gate, file) || has_others_range(gate, file))
                return false;
        for (unsigned int i = 0; i < file->n_devices; i++) /* X3 */
                if (!uvm_space_leave(driver, file->fd, file->devices[i]))
                        return false;
        for (size_t i = 0; i < file->groups.n_slots; i++) /* it may live on, where nobody sees it */
                if (file->groups.slots[i].value)
                        uvm_space_ungroup(driver, file->fd, file->groups.slots[i].key);

        LOCKED(&gate->ledger_lock);
        if (ledger_space_has_managed(gate->ledger, file->number))
                return false;
        ledger_space_gone(gate->ledger, file->number);
        return true;
}

void settle_spaces(struct gate *gate)
{
        const struct files_release release = { gate, gate->host->find_open, has_ranges, space_empty };

        files_drop_unused(&gate->files, !gate->is_empty, &release);
}
