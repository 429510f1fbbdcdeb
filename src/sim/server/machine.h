/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine: all of the server's state, and which file changes it.
 *
 *      server/server.c     sockets and time; gives whole messages to the machine
 *      server/machine.c    files, the machine as a whole, its faults
 *      server/requests.c   messages: open, ioctl by kind, mmap
 *      server/answer.c     answers: at once, late, or when a fence is reached
 *      server/files.c      the directory of a machine
 *      objects/alloc.c     what an allocation of each class makes; free, dup, share
 *      objects/memory.c    memory objects, their bytes, the heap's own calls
 *      objects/fabric.c    addresses of an NVLink fabric
 *      objects/exports.c   memory that a descriptor carries to other processes
 *      objects/uvm.c       VA spaces, external and managed ranges
 *      objects/spaces.c    address spaces of the driver's, by address
 *      objects/tables.c    what the driver takes without being asked: page tables, address spaces
 *      methods/            what objects answer to controls
 *      engine/gpu.c        devices: groups, channels, launches, fences
 *      engine/meetings.c   work of several devices that waits for each other
 *      engine/ring.c       positions of channels' rings
 *      engine/copies.c     copies that rings in memory ask for
 *      engine/breakage.c   faults of a device
 *      engine/records.c    context-switch records
 * over the pure parts: objects/handles.h, objects/heap.h, engine/runlist.h.
 *
 * One thread. The time is a member: the server sets it before each message. The contents of a message
 * are not trusted: sizes are checked with rm_get and rm_put, handles by lookup.
 */
#pragma once

#include "base/clock.h"
#include "base/map.h"
#include "rm/call.h"
#include "sim/client/doorbell.h"
#include "sim/server/faults.h"
#include "sim/objects/heap.h"
#include "sim/engine/runlist.h"
#include "sim/list.h"
#include "sim/objects/handles.h"
#include "sim/client/wire.h"

#include <sys/socket.h>
#include <sys/types.h>

enum {
        GPUS_MAX = 32,
        ENGINES = 2, /* run lists of a device: graphics and compute; all copy engines together */
        INSTANCES_MAX = 7,
        MEETING_MAX = GPUS_MAX, /* ranks */
};

/* Results that only the simulator gives. Source: nvstatuscodes.h. */
enum {
        SIM_STATUS_GPU_IS_LOST = 0x0f,
        SIM_STATUS_DUPLICATE = 0x19,
        SIM_STATUS_INVALID_DEVICE = 0x26,
        SIM_STATUS_INVALID_EVENT = 0x28,
        SIM_STATUS_INVALID_OBJECT = 0x31,
        SIM_STATUS_INVALID_PARENT = 0x36,
        SIM_STATUS_INVALID_ADDRESS = 0x1e,
        SIM_STATUS_INVALID_STATE = 0x40,
};

/* ---- things -------------------------------------------------------------------------------- */

/* One physical allocation. Handles, UVM mappings and exports hold references. */
struct memory {
        unsigned int refs;
        unsigned int n_handles; /* user objects among them; more than one: shared */
        struct gpu *gpu;        /* whose heap it is taken from; NULL: host memory, or none */
        bytes size, taken, offset;
        int fd;         /* its bytes, made when first wanted; -1 */
        pid_t pages_of; /* the bytes are this process's, at pages_at; 0: they are fd's */
        uint64_t pages_at;
        uint32_t attr, attr2;
        uint32_t client;          /* that allocated it; 0: nobody by request */
        bool is_page;             /* the page of live figures, class 0xde; takes nothing */
        struct memory *next_page; /* of the same device */
        struct memory *below;     /* fabric memory: what it is made over, which it holds; NULL: none */
        struct fabric *fabric;    /* of fabric memory; else NULL */
};

/* A struct file of the driver: one connection. */
struct file {
        struct machine *machine;
        uint64_t cookie; /* of the client's end; 0: not yet opened */
        enum rm_node node;
        uint32_t minor;
        int fd;            /* our end; -1: hung up, or none */
        unsigned int refs; /* the connection, and device files that are registered to it */
        struct file *ctl;  /* REGISTER_FD */
        struct client *clients;
        struct space *space;    /* UVM */
        struct memory *mapping; /* what MAP_MEMORY prepared for the next mmap */
        bytes mapping_offset, mapping_length;
        struct exports *exports;          /* memory that this descriptor carries to others */
        uint32_t event_client, event_key; /* ALLOC_OS_EVENT; key 0 is one, too */
        bool is_listening, has_event;
        uint32_t event_info; /* the latest event's: an Xid */
};

struct gpu {
        struct machine *machine;
        unsigned int index;
        uint32_t id; /* gpuId: from the PCI address */
        unsigned char uuid[16];
        struct heap heap;
        struct runlist engines[ENGINES];
        uint32_t n_channels; /* ever made; the next one's cid */
        uint32_t n_channels_now;
        uint32_t n_waiters;        /* on all its channels */
        struct buffer *buffers;    /* of context-switch records */
        struct switches *switches; /* that have not been delivered, the oldest first */
        struct switches **switches_end;
        uint64_t n_switches, n_switches_lost; /* there; since the latest of them */
        nsec deliver_at;                      /* the next delivery, if there are any */
        unsigned int n_registered;            /* VA spaces of UVM */
        bytes tables, tables_taken;           /* page tables of UVM; what it has taken for them, in pieces of 2 MiB */
        struct memory *pages;
        bytes shown;     /* the free memory that the pages show */
        bytes addresses; /* of the fabric, in use */
        bool is_lost;
};

struct group {
        struct run_group run;
        struct gpu *gpu;
        unsigned int refs;
        uint32_t engine; /* engineType, as allocated */
        bool has_object; /* and so it is settled where it runs */
        pid_t pid;       /* of its client */
        uid_t uid;
        uint32_t context;    /* what records call it: the cid of its first channel */
        uint64_t slice_usec; /* as set, for GET_TIMESLICE */
        bytes taken;         /* for context buffers, which have no handle */
        uint32_t space;      /* handle of its address space; 0: its channels name one */
        bool is_retained;    /* by a UVM space, with what its channels have (measured: tests/gpu/ownmem.sh) */
};

/* A copy as methods say it, engine/copies.c. */
struct copy {
        uint64_t from, to, bytes, semaphore; /* addresses in the channel's space */
        uint32_t payload;
        bool is_copy, is_release;
};

struct channel {
        struct run_queue run;
        struct group *group;
        unsigned int refs;
        uint32_t cid;
        bytes taken; /* as of a group */
        uint64_t reached;
        int error;            /* sticky; 0: none */
        struct memory *userd; /* holds the positions of its ring; NULL: none */
        uint64_t userd_at;
        uint32_t n_entries, put, get; /* of the ring */
        uint64_t ring;                /* its address in the space, if it lies in memory that engines look at */
        uint32_t client, space;       /* handles */
        struct copy copy;             /* what methods have said so far */
        struct waiter *waiters;
};

/* A launch under way. */
struct work {
        struct run_work run;
        uint64_t value;
        struct memory *semaphore;
        struct meeting *meeting; /* NULL: it waits for no other device */
        uint64_t semaphore_offset;
        uint32_t after_client, after_channel;
        uint64_t after_value;
        struct copy copy;
};

/* A request that waits for a fence. */
struct waiter {
        struct waiter *next;
        uint64_t value;
        nsec until;
        int reply;
};

/* An answer that is held back. */
struct late_answer {
        struct late_answer *next;
        nsec due;
        int reply;
        size_t size;
        unsigned char data[];
};

/* Disables or enables channels, later: --realistic-time. */
struct channel_switch {
        struct channel_switch *next;
        nsec due;
        bool is_disabled, is_gentle;
        uint32_t n;
        uint32_t clients[64], channels[64];
};

struct machine_options {
        unsigned int n_gpus;
        bytes memory;          /* of each device */
        bytes reserved;        /* of that, what the driver keeps and no heap has */
        char release[32];      /* "580.159.04"; of an unknown one the ABI is MACHINE_RELEASE's */
        const char *directory; /* NULL: no log, no files */
        bytes instances
                [INSTANCES_MAX];  /* MIG instances of device 0, by their memory; number i has GPU instance id i + 1 */
        unsigned int n_instances; /* 0: MIG mode is off */
        bool has_nvlink;          /* the devices reach each other, and a fabric is up */
};

#define MACHINE_RELEASE "580.159.04"

struct machine {
        struct machine_options options;
        struct rm_layout layout;
        struct gpu gpus[GPUS_MAX];
        struct handles handles;
        struct map files, listens; /* cookie -> struct file *; listens.c */
        struct faults faults;
        nsec now;            /* monotonic */
        nsec realtime_since; /* what to add to it for the time of day */
        uint64_t n_range_groups;
        struct dma_map *dma_maps; /* the latest first; spaces.c */
        struct late_answer *late_answers;
        struct channel_switch *channel_switches; /* the soonest first */
        struct meeting *meetings;                /* the oldest first */
        nsec met_at;                             /* up to when they have passed time */
};

/* ---- one request --------------------------------------------------------------------------- */

struct part {
        unsigned char *data;
        size_t size;
        bool is_returned; /* goes into the answer */
};

/* The buffers are the server's; handlers write the answer into them. */
struct request {
        struct file *file;
        struct file *named; /* the file that the request names by number; NULL: none, or no node */
        uint64_t cookie;    /* of an open: its own */
        struct ucred sender;
        struct sim_request header;
        struct part block, segments[SIM_SEGMENTS_MAX];
        struct rm_call call;   /* of an ioctl */
        struct client *client; /* of a call that names one, validated */
        int reply;             /* for the answer; -1: one-way */

        int32_t result;
        int fd; /* to send beside the answer, borrowed; -1: none */
        uint64_t argument[2];
        bool is_kept; /* reply has been taken; no answer now */
        nsec cost;    /* time that the call takes: its answer is that late, others are not held up */
};

/* ---- files.c: the directory of a machine, wire.h ------------------------------------------- */

/* Makes the directory one machine's, for as long as the descriptor or a duplicate is open. -EBUSY: it is another's that
 * runs; -errno. */
int machine_lock(const char *directory);

/* By the process that serves. What a machine that has ended left there is replaced. 0; -errno. */
int machine_files_make(const struct machine_options *options);
void machine_files_remove(const char *directory);

/* "GPU-7375626c-..." */
enum {
        UUID_TEXT = 41,
};
void gpu_uuid_format(unsigned int index, char text[static UUID_TEXT]);

/* ---- server.c ------------------------------------------------------------------------------ */

/* Serves until SIGTERM or an error. faults: texts, the last NULL. ready: a byte is written when the
 * nodes can be opened. 0; -errno. */
int server_run(const struct machine_options *options, const char *const *faults, int ready);

/* ---- machine.c ----------------------------------------------------------------------------- */

int machine_init(struct machine *machine, const struct machine_options *options, nsec now);
void machine_done(struct machine *machine);

/* A connection. The file takes fd over; machine_hang_up gives all back, and closes it. */
int machine_file_new(struct machine *machine, enum rm_node node, uint32_t minor, int fd, struct file **ret);
void machine_hang_up(struct file *file);

/* One message of `size` bytes, in `data` (which is overwritten). named: SO_COOKIE of the descriptor beside it, 0: none.
 * reply: taken. Sends the answer, now or later; what is malformed is answered -EINVAL. */
void machine_message(struct file *file, unsigned char *data, size_t size, struct ucred sender, uint64_t named,
                     int reply);

/* Lets time pass until machine->now. Returns when it is to be called next, or RUN_NEVER. */
nsec machine_advance(struct machine *machine);

/* "lost-gpu=0"; 0, or -EINVAL. */
int machine_fault(struct machine *machine, const char *text);

/* A line of the kernel's log. */
void machine_log(struct machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));

void file_unref(struct file *file);
void file_event(struct file *file, uint32_t info); /* something to read: poll wakes up */
uint32_t listens_begin(struct machine *machine, struct request *request);
uint32_t listens_end(struct machine *machine, struct request *request);
void listens_drop(struct machine *machine, const struct file *file, uint32_t client); /* NULL: all of the client's */

/* ---- answer.c ------------------------------------------------------------------------------ */

void answer_send(struct request *request); /* unless request->reply was kept */
nsec answer_late(struct machine *machine); /* sends what is due; when the next is, or RUN_NEVER */

/* Sends an answer without a block; closes reply. */
void reply_send(int reply, int32_t result, uint64_t argument0, uint64_t argument1, int fd);

/* ---- alloc.c: each returns a status -------------------------------------------------------- */

uint32_t alloc_object(struct machine *machine, struct request *request);
uint32_t alloc_old_memory(struct machine *machine, struct request *request); /* request 0x27 */
uint32_t alloc_old_dma(struct request *request);                             /* request 0x54 */
uint32_t alloc_free(struct machine *machine, struct request *request);
uint32_t alloc_dup(struct machine *machine, struct request *request);
uint32_t alloc_share(struct machine *machine, struct request *request);

/* Whether the object may be duped by a client of that process and user. */
bool alloc_may_dup(const struct object *object, pid_t pid, uid_t uid);
uint32_t share_put(struct object *object, const unsigned char *policy, size_t size);
void object_gone(void *context, struct object *object);

/* HANDLES_* and errnos as statuses. */
uint32_t alloc_status(int r);

/* ---- memory.c ------------------------------------------------------------------------------ */

/* HEAP_OK; HEAP_E_FULL; -ENOMEM. gpu NULL: host memory. */
int mem_new(struct gpu *gpu, bytes size, uint32_t attr, uint32_t attr2, struct memory **ret);
struct memory *mem_ref(struct memory *memory);
void mem_unref(struct memory *memory);
int mem_fd(struct memory *memory);             /* borrowed; or -errno */
bool mem_adopt(struct memory *memory, int fd); /* true: it has the descriptor of freed memory now */

/* Of the memory classes; and VID_HEAP_CONTROL. */
uint32_t mem_alloc(struct object *object, struct part *params);
uint32_t mem_heap(struct machine *machine, struct request *request);
uint32_t mem_map(struct request *request);
uint32_t mem_page_alloc(struct object *object);
void mem_pages_update(struct gpu *gpu); /* if what is free has changed */

/* ---- fabric.c ------------------------------------------------------------------------------ */

uint32_t fabric_alloc(const struct machine *machine, struct object *object, const struct part *params);
void fabric_free(struct fabric *fabric);

/* ---- exports.c ----------------------------------------------------------------------------- */

void exports_free(struct exports *exports);

/* ---- controls.c ---------------------------------------------------------------------------- */

uint32_t control_call(struct machine *machine, struct request *request);

/* ---- methods/schedule.c -------------------------------------------------------------------- */

nsec channel_switches_advance(struct machine *machine); /* what is due takes effect; when the next does, or RUN_NEVER */
void channel_switches_done(struct machine *machine);

/* ---- tables.c: what the driver takes for page tables, and for objects without being asked -------- */

uint32_t taken_alloc(struct object *object, const struct part *params); /* page tables, spaces, device objects */
bytes own_of(uint64_t said_kib, bytes measured);                        /* engine/gpu.c */
uint32_t taken_map_dma(struct request *request);
int mmu_take(struct gpu *gpu, uint64_t base, uint64_t length, uint32_t pages, bytes *ret); /* HEAP_* */
void mmu_give(struct gpu *gpu, bytes size);
void group_give(struct group *group, bytes size); /* a channel of it ends: kept, if UVM keeps the group */
int gpu_register(struct gpu *gpu);                /* a space begins to use it. HEAP_* */
void gpu_unregister(struct gpu *gpu);

/* ---- spaces.c: address spaces that the driver manages, by ranges of class 0x70 -------------------- */

void range_note(struct object *object, const struct part *params);
uint32_t space_map(struct request *request, const struct object *range);
void space_unmap(struct request *request);
void space_forget(struct machine *machine, const struct object *object); /* which is gone */

/* Bytes at an address of the channel's space, into or from the buffer. False: nothing is there, or not all of it. */
struct memory *space_memory(const struct machine *machine, const struct channel *channel, uint64_t at); /* NULL: none */
bool space_move(struct machine *machine, const struct channel *channel, bool is_write, uint64_t at, void *buffer,
                size_t size);

/* ---- uvm.c --------------------------------------------------------------------------------- */

int uvm_ioctl(struct machine *machine, struct request *request); /* the system call's result */
int uvm_mmap(struct machine *machine, struct request *request);
int uvm_munmap(struct machine *machine, struct request *request);
struct space *space_free(struct space *space);

/* ---- gpu.c --------------------------------------------------------------------------------- */

void gpu_uuid(unsigned int index, unsigned char uuid[static 16]);
void gpu_init(struct gpu *gpu, struct machine *machine, unsigned int index);
struct gpu *gpu_by_uuid(struct machine *machine, const unsigned char *uuid); /* NULL: none */
void gpu_message(struct machine *machine, struct request *request);          /* SIM_OP_GPU */

uint32_t group_alloc(struct request *request, struct object *object, struct part *params);
uint32_t channel_alloc(struct request *request, struct object *object, struct part *params);
uint32_t group_note_object(struct group *group, uint32_t class_number); /* one is made in a channel of it; a status */
void group_unref(struct group *group);
void channel_unref(struct channel *channel);
nsec gpu_advance(struct gpu *gpu);
void waiters_wake(struct channel *channel, nsec now); /* those whose value is reached, or whose time is over */

/* ---- meetings.c ---------------------------------------------------------------------------- */

/* The work, not yet submitted, needs `duration` together with n - 1 others of that name. 0; -EINVAL; -ENOMEM. */
int meeting_join(struct machine *machine, struct channel *channel, struct work *work, uint64_t name, uint32_t n,
                 nsec duration);
void meeting_leave(struct machine *machine, struct work *work);
nsec meetings_advance(struct machine *machine); /* when it is to be called next, or RUN_NEVER */
void meetings_done(struct machine *machine);

/* ---- ring.c -------------------------------------------------------------------------------- */

void ring_find(struct channel *channel, const struct request *request, const struct part *params);
void ring_put(struct channel *channel);   /* a launch */
void ring_taken(struct channel *channel); /* the device begins with one */

/* ---- copies.c ------------------------------------------------------------------------------ */

nsec copies_advance(struct gpu *gpu);                   /* looks at rings; when it is to be called next, or RUN_NEVER */
void semaphore_write(const struct work *work, nsec at); /* what a message asked for */
void copy_done(struct channel *channel, const struct copy *copy); /* its time is over: now the bytes */

/* ---- breakage.c ---------------------------------------------------------------------------- */

void gpu_switch_cost(struct gpu *gpu, nsec cost);
void gpu_ramp(struct gpu *gpu, nsec ramp);
void gpu_lose(struct gpu *gpu);
void gpu_xid(struct gpu *gpu, unsigned int number);

/* ---- records.c ----------------------------------------------------------------------------- */

uint32_t buffer_alloc(struct request *request, struct object *object, struct part *params);
void buffer_free(struct buffer *buffer);
void record_switch(struct gpu *gpu, const struct group *group, bool is_on, nsec at);
nsec records_advance(struct gpu *gpu); /* delivers what is due; when the next is, or RUN_NEVER */
void records_done(struct gpu *gpu);
