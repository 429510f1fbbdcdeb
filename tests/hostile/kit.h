/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the attacks share. An attack is a program of its own that tries to hold more video memory than its quota, or to
 * do something else that a tenant must not be able to do. It never judges itself: it says what it believes it has,
 * waits, and the script that started it looks at the device from outside (tests/integration/run/attacks.bats on the
 * simulator, tests/gpu/hostile.sh on a device).
 *
 *      int main(void)
 *      {
 *              kit_start();                    a CUDA context; QUOTA_MIB is in the environment
 *              ...                             take what can be taken
 *              kit_hold(mib);                  "holding mib=N", then until a line comes on stdin
 *      }
 *
 * Without a gate the same program must come past the quota: that is its positive control.
 *
 * Exit status: 0 it ran to its end, whatever it got; 2 its set-up failed, which is printed; 3 it cannot be tried here.
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB (1ull << 20)

/* ---- CUDA ---------------------------------------------------------------------------------------- */

/* cuInit, device 0, its primary context, current in the calling thread. */
void kit_start(void);

/* Makes that context current in another thread of the same process. */
void kit_join(void);

uint64_t kit_quota_mib(void); /* QUOTA_MIB; 1024 without it */

/* "holding mib=N", and waits for a line, the end of stdin, or 60 s. Then the program goes on. */
void kit_hold(uint64_t mib);

/* In a forked child, however deep: waits until the attack itself has ended, then ends this process. */
_Noreturn void kit_wait_for_end(void);
void kit_wait_at_most(int msec); /* the same, but so long at most, and it goes on then */

/* Prints why, and ends the program: status 3. */
_Noreturn void kit_cannot(const char *why);

/* Allocates pieces until the first refusal or `most_mib`. What it got, in MiB. The memory is never freed. */
uint64_t kit_take_device(uint64_t piece_mib, uint64_t most_mib);
uint64_t kit_take_managed(uint64_t piece_mib, uint64_t most_mib);

/* A descriptor that alone keeps `mib` of video memory: made, exported and released. -1: refused. */
int kit_export(uint64_t mib);

/* Exports piece after piece; `hide` puts the descriptor where no table of descriptors shows it and returns whether it
 * could, the descriptor itself is closed. Settles between the pieces. What is hidden in the end, in MiB, at most four
 * quotas. */
uint64_t kit_hide_exports(bool (*hide)(int fd));

/* The descriptor of UVM that libcuda uses; ends the program if there is none. */
int kit_uvm(void);

/* Managed ranges by mmap of a descriptor of UVM, moved to the device by a driver call, without libcuda. Also in a
 * forked child. Where the first one goes is kit_map_at, which moves on. What was mapped, in MiB. */
extern uint64_t kit_map_at;
uint64_t kit_map_managed(int uvm, uint64_t piece_mib, uint64_t most_mib);

/* A device that is asked for nothing holds nothing: moves the pages of a range there. */
void kit_migrate(int uvm, uint64_t base, uint64_t length);

/* Long enough for the gate to have settled (once a second); SETTLE_MSEC where there is no gate. */
void kit_let_it_settle(void);

/* ---- the driver, without a library ------------------------------------------------------------------ */

/* A client of the driver with a device and a subdevice. Handles of memory are the caller's choice from KIT_MEMORY
 * on. */
enum {
        KIT_DEVICE = 0x5c000002,
        KIT_SUBDEVICE = 0x5c000003,
        KIT_MEMORY = 0x5c100000,

        KIT_CLASS_MEMORY = 0x40,
};

struct kit_rm {
        int ctl, node;
        uint32_t client;
};

/* What a call came to: rc and errno of the system call, the driver's status; -1 when it did not come that far. */
struct kit_outcome {
        long rc;
        int error;
        int64_t status;
};

bool kit_ok(struct kit_outcome outcome);

/* How the calls below are made: an attack may put a spelling of its own here. At first kit_plain, which is ioctl(2) of
 * libc. */
extern int (*kit_ioctl)(int fd, unsigned long request, void *block);
int kit_plain(int fd, unsigned long request, void *block);

/* Opens the nodes and makes client, device and subdevice. Ends the program with status 2 if it cannot. */
void kit_rm_open(struct kit_rm *rm);

/* The same, but for where it gets: false instead of an end. */
bool kit_rm_try_open(struct kit_rm *rm);
bool kit_rm_open_on(struct kit_rm *rm, int ctl); /* a control file that is already there; -1: fails */

struct kit_outcome kit_rm_alloc(const struct kit_rm *rm, uint32_t parent, uint32_t object, uint32_t class_number,
                                void *params, uint32_t params_size);
struct kit_outcome kit_rm_control(const struct kit_rm *rm, uint32_t object, uint32_t command, void *params,
                                  uint32_t params_size);
struct kit_outcome kit_rm_free(const struct kit_rm *rm, uint32_t parent, uint32_t object);

/* Parameters of class KIT_CLASS_MEMORY, video memory, as CUDA asks for it on release 580. */
void kit_rm_memory_params(const struct kit_rm *rm, unsigned char params[128], uint64_t bytes);
struct kit_outcome kit_rm_memory(const struct kit_rm *rm, uint32_t object, uint64_t bytes);

/* A reservation of addresses (class 0x50a0) in an address space; flags and attr as the driver has them. */
struct kit_outcome kit_rm_reserve(const struct kit_rm *rm, uint32_t object, uint32_t space, uint64_t bytes,
                                  uint32_t flags, uint32_t attr);

/* Maps memory in a reservation (request 0x57); *at in and out. */
struct kit_outcome kit_rm_map(const struct kit_rm *rm, uint32_t dma, uint32_t memory, uint64_t length, uint32_t flags,
                              uint64_t *at);

/* Prepares an mmap of host memory on a descriptor (request 0x4e). */
struct kit_outcome kit_rm_map_host(const struct kit_rm *rm, uint32_t memory, uint64_t length, int fd);

/* A call of UVM about a range: base, length, and for some the first device's uuid (which kit_start finds). */
struct kit_outcome kit_uvm_range(int uvm, unsigned long number, uint64_t base, uint64_t length);

/* Pieces of video memory until the first refusal or `most_mib`; handles from `first` on. What it got, in MiB. */
uint64_t kit_rm_take(const struct kit_rm *rm, uint32_t first, uint64_t piece_mib, uint64_t most_mib);

/* The same where calls also fail for other reasons: until `most_failed` in a row have. Each has a handle of its own. */
uint64_t kit_rm_try(const struct kit_rm *rm, uint32_t first, uint64_t piece_mib, uint64_t most_mib,
                    unsigned int most_failed);

void kit_put32(void *at, size_t offset, uint32_t value);
void kit_put64(void *at, size_t offset, uint64_t value);
uint32_t kit_get32(const void *at, size_t offset);
