/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of a start-up table, and the stage (process, device, context) on which it is played. steps.c
 * and steps_memory.c have the steps that make something, ends.c those that undo it; start.c has the
 * tables.
 */
#pragma once

#include "sim/cuda/driver/start.h"

#define FROM_RELEASE 0x80000000u
#define RELEASE(field) (FROM_RELEASE | (uint32_t)offsetof(struct rm_layout, field))

/* Values of words that are not numbers. */
#define TAG 0xff00000000000000ull
#define HANDLE(n) (0x0100000000000000ull | (n))
#define CLIENT 0x0200000000000000ull
#define GPU_ID 0x0300000000000000ull
#define INSTANCE 0x0400000000000000ull
#define ROOT 0u

/* Addresses: a stretch, and an offset in it. */
#define STRETCH 0xf000000000000000ull
#define LOW(offset) (0x1000000000000000ull | (offset))
#define FAR(offset) (0x2000000000000000ull | (offset))
#define NEAR(offset) (0x3000000000000000ull | (offset))
#define OWN 0x4000000000000000ull

enum {
        VIEW_NODE = 1, /* through the device node, write only */
        VIEW_TOLD,     /* the same, and the driver learns the address */
        VIEW_DATA,     /* through the control node, read only */

        RING_BASE = 0x600000,       /* in LOW: the queues of the channels */
        RING_STRIDE = 0x3000,       /* per channel: entries, then at 0x2000 what it has got and put */
        RESOURCES_BASE = 0x4000000, /* in LOW: what UVM maps for a compute channel */
        RESOURCES_SIZE = 0x52f000,
        RING_OBJECT = 0x17,
        SHARE_OBJECT = 0x16,
        BINAPI_GR_INFO = 0x3a, /* entries of 0x20801201 */
        PARALLELISM_RANGE = 1,
        SEMAPHORE_RANGE,
        PAGES_HUGE = 0x1800000, /* in attr */
        N_WORDS = 11,
        PARAMS_MAX = 16384,
        NEAR_SIZE = 0x2000000,
        FAR_SIZE = 0x2200000,
        SEMAPHORES_SIZE = 0x200000,
};

struct word {
        uint64_t at, value;
};

struct step;

/* Where a step acts. context is NULL while a device starts. */
struct stage {
        struct nv *nv;
        struct start_device *device;
        struct start_context *context;
};

struct step {
        uint32_t (*play)(const struct stage *stage, const struct step *step);
        uint32_t n, parent, number, size;
        uint32_t attr, attr2;
        uint64_t address;
        struct word words[N_WORDS + 1]; /* value 0 ends them */
};

/* What steps share. */
uint32_t stage_handle(const struct stage *stage, uint32_t n);
struct piece *stage_piece(const struct stage *stage, uint32_t n);
uint64_t stage_address(const struct stage *stage, uint64_t address, uint64_t size); /* of a piece; 0: no room */
void stage_note_made(const struct stage *stage, uint32_t n, uint32_t parent);
uint32_t stage_event_ioctl(const struct stage *stage, int fd, uint32_t nr);

uint32_t play_control(const struct stage *stage, const struct step *step);
uint32_t play_learn(const struct stage *stage, const struct step *step);
uint32_t play_once(const struct stage *stage, const struct step *step);
uint32_t play_object(const struct stage *stage, const struct step *step);
uint32_t play_forget(const struct stage *stage, const struct step *step);
uint32_t play_node(const struct stage *stage, const struct step *step);
uint32_t play_numa(const struct stage *stage, const struct step *step);
uint32_t play_watch(const struct stage *stage, const struct step *step);
uint32_t play_view(const struct stage *stage, const struct step *step);
uint32_t play_video(const struct stage *stage, const struct step *step);
uint32_t play_ring(const struct stage *stage, const struct step *step);
uint32_t play_host(const struct stage *stage, const struct step *step);
uint32_t play_pinned(const struct stage *stage, const struct step *step);
uint32_t play_channel(const struct stage *stage, const struct step *step);
uint32_t play_event(const struct stage *stage, const struct step *step);
uint32_t play_register_gpu(const struct stage *stage, const struct step *step);
uint32_t play_register_vaspace(const struct stage *stage, const struct step *step);
uint32_t play_register_channel(const struct stage *stage, const struct step *step);
uint32_t play_groups(const struct stage *stage, const struct step *step);
uint32_t play_semaphores(const struct stage *stage, const struct step *step);
uint32_t play_parallelism(const struct stage *stage, const struct step *step);
uint32_t play_gone(const struct stage *stage, const struct step *step);
uint32_t play_freed(const struct stage *stage, const struct step *step);
uint32_t play_closed(const struct stage *stage, const struct step *step);
uint32_t play_unregister(const struct stage *stage, const struct step *step);
uint32_t play_ended(const struct stage *stage, const struct step *step);
uint32_t play_groups_gone(const struct stage *stage, const struct step *step);
uint32_t play_range_gone(const struct stage *stage, const struct step *step);
uint32_t play_leftovers(const struct stage *stage, const struct step *step);
uint32_t play_unregister_vaspace(const struct stage *stage, const struct step *step);
