/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of channels change under a sequence count, which is odd meanwhile. A reader copies and checks the count again;
 * words are copied as atomics, so a torn row may be read but is never returned. The writer does not wait for readers.
 * It may be stopped or killed in the middle, so a reader waits only so long, and then returns an odd sequence and no
 * rows.
 *
 * The memfd is sealed against shrinking: mapped memory stays (a fault would end the daemon).
 */
#include "wire/control_block.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* What two binaries must agree on; changed by adding at the end only, and then with the version. */
static_assert(offsetof(struct control_block, tenant) == 20, "layout of the control block");
static_assert(offsetof(struct control_block, sequence) == 92, "layout of the control block");
static_assert(offsetof(struct control_block, host_quota) == 112, "layout of the control block");
static_assert(offsetof(struct control_block, heartbeat) == 144, "layout of the control block");
static_assert(offsetof(struct control_block, devices) == 160, "layout of the control block");
static_assert(offsetof(struct control_device, launched_at) == 32, "layout of the control block");
static_assert(offsetof(struct control_device, slice_set) == 56, "layout of the control block");
static_assert(offsetof(struct control_device, is_disabled) == 72, "layout of the control block");
static_assert(offsetof(struct control_device, used) == 112, "layout of the control block");
static_assert(sizeof(struct control_device) == 120, "layout of the control block");
static_assert(sizeof(struct control_channel) == 24, "layout of the control block");
static_assert(offsetof(struct control_block, channels) == 160 + 120 * LEASE_DEVICES_MAX, "layout of the control block");
static_assert(offsetof(struct control_block, engines) == 160 + 120 * LEASE_DEVICES_MAX + 24 * CONTROL_BLOCK_CHANNELS,
              "layout of the control block");
static_assert(sizeof(struct control_engine) == 32 && RM_N_ENGINES == 6, "layout of the control block");
static_assert(offsetof(struct control_block, quiets) ==
                      offsetof(struct control_block, engines) + LEASE_DEVICES_MAX * RM_N_ENGINES * 32,
              "layout of the control block");
static_assert(sizeof(struct control_quiet) == 32, "layout of the control block");
static_assert(offsetof(struct control_block, processes) ==
                      offsetof(struct control_block, quiets) + 32 * LEASE_DEVICES_MAX,
              "layout of the control block");
static_assert(sizeof(struct control_process) == 32 && sizeof(struct control_loan) == 16, "layout of the control block");
static_assert(offsetof(struct control_block, suspension) == offsetof(struct control_block, processes) +
                                                                    32 * CONTROL_BLOCK_PROCESSES +
                                                                    16 * CONTROL_BLOCK_LOANS,
              "layout of the control block");
static_assert(offsetof(struct control_block, waiting) == offsetof(struct control_block, kinds) + 16 * LEASE_DEVICES_MAX,
              "layout of the control block");
static_assert(sizeof(struct control_waiting) == 16, "layout of the control block");
static_assert(offsetof(struct control_block, began) == offsetof(struct control_block, waiting) + 16,
              "layout of the control block");
static_assert(sizeof(struct control_began) == 16 * CONTROL_BLOCK_PROCESSES, "layout of the control block");
static_assert(offsetof(struct control_block, before) ==
                      offsetof(struct control_block, began) + 16 * CONTROL_BLOCK_PROCESSES,
              "layout of the control block");
static_assert(sizeof(struct control_before) == 8 * LEASE_DEVICES_MAX + 16 * CONTROL_BLOCK_PROCESSES,
              "layout of the control block");
static_assert(offsetof(struct control_block, listed_at) ==
                      offsetof(struct control_block, before) + sizeof(struct control_before),
              "layout of the control block");
static_assert(offsetof(struct control_block, move) == offsetof(struct control_block, listed_at) + 8,
              "layout of the control block");
static_assert(sizeof(struct control_move) == 16, "layout of the control block");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics of two processes have no lock");

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
        WORDS = sizeof(struct control_channel) / sizeof(uint32_t),
};

/* Far longer than a change takes, also when the shim has lost its CPU; the caller is the scheduler's thread. */
#define CHANGE_MAX (2 * NSEC_PER_MSEC)

static const char magic[8] = "sublet\0\1";

static const size_t sizes[] = { 0,
                                offsetof(struct control_block, engines),
                                offsetof(struct control_block, quiets),
                                offsetof(struct control_block, suspension),
                                offsetof(struct control_block, waiting),
                                offsetof(struct control_block, began),
                                offsetof(struct control_block, before),
                                offsetof(struct control_block, move),
                                sizeof(struct control_block) };
static_assert(ARRAY_SIZE(sizes) == CONTROL_BLOCK_VERSION + 1, "a size for each version");

/* 0: not a size of any version. */
static uint32_t version_of(off_t size)
{
        for (uint32_t version = CONTROL_BLOCK_VERSION; version; version--)
                if (size == (off_t)sizes[version])
                        return version;
        return 0;
}

static size_t size_of(uint32_t version)
{
        return sizes[version];
}

static int control_block_mmap(int fd, size_t size, struct control_block **ret)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (memory == MAP_FAILED)
                return -errno;
        *ret = memory;
        return 0;
}

int control_block_new(const char *tenant, uid_t owner, unsigned int n_devices, struct control_block **ret, int *ret_fd)
{
        _cleanup_(closep) int fd = memfd_create("sublet-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct control_block *control = NULL;
        int r;

        if (n_devices > LEASE_DEVICES_MAX || strlen(tenant) >= sizeof(control->tenant))
                return -EINVAL;
        if (fd < 0 || ftruncate(fd, sizeof(*control)) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return -errno;
        r = control_block_mmap(fd, sizeof(*control), &control);
        if (r < 0)
                return r;
        memcpy(control->magic, magic, sizeof(magic));
        control->version = CONTROL_BLOCK_VERSION;
        control->size = sizeof(*control);
        control->shim = getpid();
        (void)snprintf(control->tenant, sizeof(control->tenant), "%s", tenant);
        control->owner = owner;
        control->n_devices = n_devices;
        *ret = control;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static bool is_control_block(const struct control_block *control, uint32_t version)
{
        return !memcmp(control->magic, magic, sizeof(magic)) && control->version == version &&
               control->size == size_of(version) && control->n_devices <= LEASE_DEVICES_MAX &&
               memchr(control->tenant, '\0', sizeof(control->tenant));
}

int control_block_map(int fd, struct control_block **ret)
{
        struct control_block *control = NULL;
        struct stat st;
        uint32_t version;
        int seals, r;

        if (fstat(fd, &st) < 0)
                return -errno;
        seals = fcntl(fd, F_GET_SEALS);
        version = version_of(st.st_size);
        if (seals < 0 || (seals & SEALS) != SEALS || !version)
                return -EPROTO;
        r = control_block_mmap(fd, size_of(version), &control);
        if (r < 0)
                return r;
        if (!is_control_block(control, version)) {
                (void)munmap(control, size_of(version));
                return -EPROTO;
        }
        *ret = control;
        return 0;
}

void control_block_unmap(struct control_block *control)
{
        if (control)
                (void)munmap(control, size_of(control->version));
}

struct control_suspension *control_block_suspension(struct control_block *control)
{
        return control && control->version >= 4 ? &control->suspension : NULL;
}

bool control_block_is_away(const struct control_block *control, pid_t process)
{
        const struct control_suspension *suspension = &control->suspension;
        uint32_t state = suspension->state, n = suspension->n;

        if (state != CONTROL_RESUMING && state != CONTROL_REVERTING)
                return state == CONTROL_SUSPENDED;
        for (uint32_t i = 0; i < n && i < CONTROL_BLOCK_PROCESSES; i++)
                if (suspension->processes[i] == process)
                        return false;
        return true;
}

struct control_waiting *control_block_waiting(struct control_block *control)
{
        return control && control->version >= 5 ? &control->waiting : NULL;
}

struct control_began *control_block_began(struct control_block *control)
{
        return control && control->version >= 6 ? &control->began : NULL;
}

struct control_before *control_block_before(struct control_block *control)
{
        return control && control->version >= 7 ? &control->before : NULL;
}

struct control_move *control_block_move(struct control_block *control)
{
        return control && control->version >= 8 ? &control->move : NULL;
}

pid_t control_block_kept_by(const struct control_block *control)
{
        return control && control->version >= 8 ? control->move.kept_by : 0;
}

bool control_block_is_held(const struct control_block *control)
{
        return control->version >= 8 && control->move.is_held;
}

const struct control_kinds *control_block_kinds(const struct control_block *control, unsigned int device)
{
        return control && control->version >= 4 ? &control->kinds[device] : NULL;
}

struct control_engine *control_block_engine(struct control_block *control, unsigned int device, enum rm_engine engine)
{
        return control->version == 1 ? NULL : &control->engines[device][engine];
}

/* ---- quiet ------------------------------------------------------------------------------------- */

void control_block_quiet_put(struct control_block *control, unsigned int device, bool has_sign, nsec before, nsec now)
{
        struct control_quiet *quiet = &control->quiets[device];

        if (!has_sign)
                return;
        atomic_fetch_add(&quiet->sequence, 1);
        if (quiet->signed_at && before > quiet->signed_at) {
                quiet->began_at = (nsec)quiet->signed_at;
                quiet->until = before;
                quiet->n++;
        }
        quiet->signed_at = now;
        atomic_fetch_add(&quiet->sequence, 1);
}

bool control_block_quiet(const struct control_block *control, unsigned int device, struct control_quiet_seen *ret)
{
        const struct control_quiet *quiet = &control->quiets[device];
        uint32_t sequence;

        if (control->version < 3)
                return false;
        sequence = quiet->sequence;
        *ret = (struct control_quiet_seen){ quiet->n, quiet->signed_at, quiet->began_at, quiet->until };
        return !(sequence & 1) && sequence == quiet->sequence;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void row_write(struct control_channel *row, const struct control_channel *channel)
{
        uint32_t words[WORDS], *to = (uint32_t *)row;

        memcpy(words, channel, sizeof(words));
        for (size_t i = 0; i < WORDS; i++)
                __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
}

static void row_read(const struct control_channel *row, struct control_channel *ret)
{
        const uint32_t *from = (const uint32_t *)row;
        uint32_t words[WORDS];

        for (size_t i = 0; i < WORDS; i++)
                words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        memcpy(ret, words, sizeof(words));
}

/* Words of rows are written between the two; the fences keep them there. */
static void change_begin(struct control_block *control)
{
        atomic_fetch_add(&control->sequence, 1);
        atomic_thread_fence(memory_order_release);
}

static void change_end(struct control_block *control)
{
        atomic_fetch_add(&control->sequence, 1);
}

/* The row of a channel; n_channels: there is none. Only the shim calls this: its own rows need no sequence. */
static uint32_t row_of(const struct control_block *control, uint32_t client, uint32_t handle)
{
        uint32_t i = 0;

        while (i < control->n_channels &&
               (control->channels[i].handle != handle || control->channels[i].client != client))
                i++;
        return i;
}

static uint32_t row_free(const struct control_block *control)
{
        uint32_t i = 0;

        while (i < control->n_channels && control->channels[i].handle)
                i++;
        return i;
}

int control_block_channel_put(struct control_block *control, const struct control_channel *channel)
{
        uint32_t i = row_of(control, channel->client, channel->handle);

        if (i == control->n_channels)
                i = row_free(control);
        if (i == CONTROL_BLOCK_CHANNELS)
                return -ENOSPC;
        change_begin(control);
        row_write(&control->channels[i], channel);
        if (i == control->n_channels)
                control->n_channels = i + 1;
        change_end(control);
        return 0;
}

void control_block_channel_drop(struct control_block *control, uint32_t client, uint32_t handle)
{
        uint32_t i = row_of(control, client, handle), n = control->n_channels;

        if (i == n)
                return;
        change_begin(control);
        row_write(&control->channels[i], &(struct control_channel){ 0 });
        while (n && !control->channels[n - 1].handle)
                n--;
        control->n_channels = n;
        change_end(control);
}

static size_t copy_rows(const struct control_block *control, struct control_channel *ret)
{
        uint32_t n = control->n_channels;
        size_t copied = 0;

        for (uint32_t i = 0; i < n && i < CONTROL_BLOCK_CHANNELS; i++) {
                row_read(&control->channels[i], &ret[copied]);
                copied += ret[copied].handle != 0;
        }
        return copied;
}

size_t control_block_channels(const struct control_block *control, struct control_channel *ret, uint32_t *ret_sequence)
{
        nsec deadline = 0;

        for (;;) {
                uint32_t before = control->sequence, after;
                size_t n = before & 1 ? 0 : copy_rows(control, ret);

                atomic_thread_fence(memory_order_acquire);
                after = control->sequence;
                if (!(before & 1) && before == after) {
                        *ret_sequence = before;
                        return n;
                }
                if (!deadline)
                        deadline = clock_now() + CHANGE_MAX;
                if (clock_now() > deadline) {
                        *ret_sequence = after | 1;
                        return 0;
                }
                (void)sched_yield();
        }
}

/* ---- the desired state ---------------------------------------------------------------------------------- */

/* Not FUTEX_PRIVATE: two processes share the memory. */
static void futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *timeout)
{
        (void)syscall(SYS_futex, word, what, value, timeout, NULL, 0);
}

void control_block_notify(struct control_block *control)
{
        atomic_fetch_add(&control->desired, 1);
        futex(&control->desired, FUTEX_WAKE, INT_MAX, NULL);
}

bool control_block_wait(struct control_block *control, uint32_t seen, nsec timeout)
{
        struct timespec span = { timeout / NSEC_PER_SEC, timeout % NSEC_PER_SEC };

        if (control->desired == seen && timeout > 0)
                futex(&control->desired, FUTEX_WAIT, seen, &span);
        return control->desired != seen;
}
