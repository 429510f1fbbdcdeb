/*
 * The page that a keeper and the daemon share; board.h says what is on it and who writes what.
 *
 * Rows of channels change under a sequence count: odd while they do. A reader copies and looks again;
 * words are copied as atomics, so a torn row may be read but is never returned. The writer does not
 * wait for readers. It may be stopped or killed in the middle, so a reader waits for it only so
 * long, and then says so: an odd sequence, and no rows.
 *
 * The memfd is sealed against shrinking: a page that is mapped stays (a fault would end the daemon).
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
static_assert(offsetof(struct board, tenant) == 20, "layout of the board");
static_assert(offsetof(struct board, sequence) == 92, "layout of the board");
static_assert(offsetof(struct board, host_quota) == 112, "layout of the board");
static_assert(offsetof(struct board, beat) == 144, "layout of the board");
static_assert(offsetof(struct board, devices) == 160, "layout of the board");
static_assert(offsetof(struct board_device, launched_at) == 32, "layout of the board");
static_assert(offsetof(struct board_device, slice_set) == 56, "layout of the board");
static_assert(offsetof(struct board_device, is_off) == 72, "layout of the board");
static_assert(offsetof(struct board_device, used) == 112, "layout of the board");
static_assert(sizeof(struct board_device) == 120, "layout of the board");
static_assert(sizeof(struct board_channel) == 24, "layout of the board");
static_assert(offsetof(struct board, channels) == 160 + 120 * LEASE_DEVICES_MAX, "layout of the board");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics of two processes have no lock");

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
        WORDS = sizeof(struct board_channel) / sizeof(uint32_t),
};

/* Longer than a change takes by far, also when the keeper has lost its CPU; the caller is a thread that
 * switches turns. */
#define CHANGE_MAX (2 * NSEC_PER_MSEC)

static const char magic[8] = "sublet\0\1";

static int page_map(int fd, struct board **ret)
{
        void *page = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (page == MAP_FAILED)
                return -errno;
        *ret = page;
        return 0;
}

int board_new(const char *tenant, uid_t owner, unsigned int n_devices, struct board **ret, int *ret_fd)
{
        _cleanup_(closep) int fd = memfd_create("sublet-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct board *board = NULL;
        int r;

        if (n_devices > LEASE_DEVICES_MAX || strlen(tenant) >= sizeof(board->tenant))
                return -EINVAL;
        if (fd < 0 || ftruncate(fd, sizeof(*board)) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return -errno;
        r = page_map(fd, &board);
        if (r < 0)
                return r;
        memcpy(board->magic, magic, sizeof(magic));
        board->version = BOARD_VERSION;
        board->size = sizeof(*board);
        board->keeper = getpid();
        (void)snprintf(board->tenant, sizeof(board->tenant), "%s", tenant);
        board->owner = owner;
        board->n_devices = n_devices;
        *ret = board;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static bool is_board(const struct board *board)
{
        return !memcmp(board->magic, magic, sizeof(magic)) && board->version == BOARD_VERSION &&
               board->size == sizeof(*board) && board->n_devices <= LEASE_DEVICES_MAX &&
               memchr(board->tenant, '\0', sizeof(board->tenant));
}

int board_map(int fd, struct board **ret)
{
        struct board *board = NULL;
        struct stat st;
        int seals, r;

        if (fstat(fd, &st) < 0)
                return -errno;
        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & SEALS) != SEALS || st.st_size != sizeof(*board))
                return -EPROTO;
        r = page_map(fd, &board);
        if (r < 0)
                return r;
        if (!is_board(board)) {
                board_unmap(board);
                return -EPROTO;
        }
        *ret = board;
        return 0;
}

void board_unmap(struct board *board)
{
        if (board)
                (void)munmap(board, sizeof(*board));
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void row_write(struct board_channel *row, const struct board_channel *channel)
{
        uint32_t words[WORDS], *to = (uint32_t *)row;

        memcpy(words, channel, sizeof(words));
        for (size_t i = 0; i < WORDS; i++)
                __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
}

static void row_read(const struct board_channel *row, struct board_channel *ret)
{
        const uint32_t *from = (const uint32_t *)row;
        uint32_t words[WORDS];

        for (size_t i = 0; i < WORDS; i++)
                words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        memcpy(ret, words, sizeof(words));
}

/* Words of rows are written between the two; the fences keep them there. */
static void change_begin(struct board *board)
{
        atomic_fetch_add(&board->sequence, 1);
        atomic_thread_fence(memory_order_release);
}

static void change_end(struct board *board)
{
        atomic_fetch_add(&board->sequence, 1);
}

/* Its own rows the keeper reads without more. The row of a channel; n_channels: there is none. */
static uint32_t row_of(const struct board *board, uint32_t client, uint32_t handle)
{
        uint32_t i = 0;

        while (i < board->n_channels && (board->channels[i].handle != handle || board->channels[i].client != client))
                i++;
        return i;
}

static uint32_t row_free(const struct board *board)
{
        uint32_t i = 0;

        while (i < board->n_channels && board->channels[i].handle)
                i++;
        return i;
}

int board_channel_put(struct board *board, const struct board_channel *channel)
{
        uint32_t i = row_of(board, channel->client, channel->handle);

        if (i == board->n_channels)
                i = row_free(board);
        if (i == BOARD_CHANNELS)
                return -ENOSPC;
        change_begin(board);
        row_write(&board->channels[i], channel);
        if (i == board->n_channels)
                board->n_channels = i + 1;
        change_end(board);
        return 0;
}

void board_channel_drop(struct board *board, uint32_t client, uint32_t handle)
{
        uint32_t i = row_of(board, client, handle), n = board->n_channels;

        if (i == n)
                return;
        change_begin(board);
        row_write(&board->channels[i], &(struct board_channel){ 0 });
        while (n && !board->channels[n - 1].handle)
                n--;
        board->n_channels = n;
        change_end(board);
}

static size_t copy_rows(const struct board *board, struct board_channel *ret)
{
        uint32_t n = board->n_channels;
        size_t copied = 0;

        for (uint32_t i = 0; i < n && i < BOARD_CHANNELS; i++) {
                row_read(&board->channels[i], &ret[copied]);
                copied += ret[copied].handle != 0;
        }
        return copied;
}

size_t board_channels(const struct board *board, struct board_channel *ret, uint32_t *ret_sequence)
{
        nsec deadline = 0;

        for (;;) {
                uint32_t before = board->sequence, after;
                size_t n = before & 1 ? 0 : copy_rows(board, ret);

                atomic_thread_fence(memory_order_acquire);
                after = board->sequence;
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

/* ---- the wish ---------------------------------------------------------------------------------- */

/* Not FUTEX_PRIVATE: the page is two processes'. */
static void futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *timeout)
{
        (void)syscall(SYS_futex, word, what, value, timeout, NULL, 0);
}

void board_wish_tell(struct board *board)
{
        atomic_fetch_add(&board->wish, 1);
        futex(&board->wish, FUTEX_WAKE, INT_MAX, NULL);
}

bool board_wish_wait(struct board *board, uint32_t seen, nsec timeout)
{
        struct timespec span = { timeout / NSEC_PER_SEC, timeout % NSEC_PER_SEC };

        if (board->wish == seen && timeout > 0)
                futex(&board->wish, FUTEX_WAIT, seen, &span);
        return board->wish != seen;
}
