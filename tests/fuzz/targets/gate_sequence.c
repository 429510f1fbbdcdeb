/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences of driver calls against gate, ledger and a model of the driver that knows the truth (driver_model.h).
 *
 *      release (1) then steps: what (1) and its operands, a byte each (enum step)
 *
 * After each step: what the model says that the tenant holds is at most what is charged, and that is at most the quota,
 * or no more than before where the quota was cut. At the end everything is freed by calls, and nothing stays charged.
 * Between two reads of the tenant's memory the tenant may change it. A wait takes no time, but the clock says it did.
 */
#include "gate/act.h"
#include "gate/books.h"
#include "gate/inside.h"
#include "gate/policy/own.h"
#include "gate/serve.h"

#include "base/cleanup.h"
#include "driver_model.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum step {
        STEP_CLIENT,  /* file */
        STEP_OBJECT,  /* client parent handle class */
        STEP_MEMORY,  /* client parent handle size unit */
        STEP_HOST,    /* client parent handle size */
        STEP_FREE,    /* client handle */
        STEP_DUP,     /* client parent handle, source client, its handle */
        STEP_SPACE,   /* file */
        STEP_RANGE,   /* file base length: or a pool */
        STEP_MAP,     /* file base length, client handle, device */
        STEP_UNMAP,   /* file base length device */
        STEP_UNRANGE, /* file base length */
        STEP_EXPORT,  /* client handle file */
        STEP_IMPORT,  /* client parent handle file */
        STEP_CLOSE,   /* file */
        STEP_QUOTA,   /* size */
        STEP_FAIL,    /* status */
        STEP_GRANULE, /* size */
        STEP_CHANGE,  /* after how many reads, at, what */
        STEP_RAW,     /* file number, bytes */
        STEP_SETTLE,
        STEP_MANAGED,  /* file base length, settle meanwhile, long ago, in another file, freed */
        STEP_UNMANAGE, /* file base, half */
        STEP_CHANNEL,  /* client parent handle, engine, group or channel or space */
        N_STEPS,
};

enum {
        FILES = 6, /* of the tenant: four of the control node, two of UVM */
        PARAMS = 4096,
        STEPS_MAX = 200,
};

#define QUOTA (256 * MIB)

static const struct rm_version releases[] = { { 580, 159, 4 }, { 525, 147, 5 }, { 550, 163, 1 }, { 595, 45, 4 } };
static const uint32_t classes[] = {
        RM_CLASS_DEVICE, RM_CLASS_SUBDEVICE, 0x90f1, 0x70, RM_CLASS_GROUP, 0x79, RM_CLASS_CONTEXT_SHARE, 0xc86f
};

/* The tenant's memory: every address that its calls name is in it, or is bad. */
static struct {
        uint8_t block[GATE_BLOCK_MAX], params[PARAMS];
} arena;

static struct rig {
        struct model model;
        struct lease lease;
        struct gate *gate;
        struct worker worker;
        struct process process;
        int files[FILES];
        bool is_ended; /* the gate has ended the tenant */
        const uint8_t *data;
        size_t size;
        struct {
                unsigned int reads; /* 0: never */
                size_t at;
                uint8_t what;
        } change;
} rig;

static void require(bool holds)
{
        if (!holds)
                abort();
}

static uint8_t next(void)
{
        if (!rig.size)
                return 0;
        rig.size--;
        return *rig.data++;
}

/* ---- time --------------------------------------------------------------------------------------------------- */

static nsec waited;

nsec __real_clock_now(void);
nsec __wrap_clock_now(void);
int __real_poll(struct pollfd *fds, nfds_t n, int msec);
int __wrap_poll(struct pollfd *fds, nfds_t n, int msec);

nsec __wrap_clock_now(void)
{
        return __real_clock_now() + waited;
}

/* Nobody else does anything meanwhile. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int msec)
{
        require(msec >= 0);
        waited += msec * NSEC_PER_MSEC;
        return n ? __real_poll(fds, n, 0) : 0;
}

/* ---- the tenant's side of a gate ------------------------------------------------------------------------- */

static bool is_in_arena(const struct iovec *piece)
{
        uintptr_t from = (uintptr_t)piece->iov_base, begin = (uintptr_t)&arena;

        return from >= begin && from - begin <= sizeof(arena) && piece->iov_len <= sizeof(arena) - (from - begin);
}

static int tenant_copy(const struct iovec *to, const struct iovec *from, const struct iovec *theirs, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!is_in_arena(&theirs[i]))
                        return -EFAULT;
                memcpy(to[i].iov_base, from[i].iov_base, theirs[i].iov_len);
        }
        return 0;
}

static int host_read(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        int r = tenant_copy(ours, theirs, theirs, n);

        (void)thread;
        if (rig.change.reads && !--rig.change.reads)
                ((uint8_t *)&arena)[rig.change.at % sizeof(arena)] ^= rig.change.what;
        return r;
}

static int host_write(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        (void)thread;
        return tenant_copy(theirs, ours, theirs, n);
}

static int host_fd_get(const struct process *process, pid_t thread, int theirs)
{
        (void)process;
        (void)thread;
        for (size_t i = 0; i < FILES; i++)
                if (rig.files[i] == theirs)
                        return fcntl(theirs, F_DUPFD_CLOEXEC, 0);
        return -EBADF;
}

static void host_fd_put(const struct gate *gate, int fd)
{
        (void)gate;
        (void)close(fd);
}

static bool host_is_awaited(const struct request *request)
{
        (void)request;
        return true;
}

static void host_reader_release(struct worker *worker)
{
        (void)worker;
}

/* The tenant hides its descriptors as well as it can. (And /proc has all programs of this machine.) */
static void host_find_open(struct sought *sought, size_t n, bool has_tasks)
{
        (void)sought;
        (void)n;
        (void)has_tasks;
}

static const struct gate_host host = { host_read,       host_write,      host_fd_get,         host_fd_put,
                                       host_is_awaited, host_is_awaited, host_reader_release, host_find_open };

/* ---- checks ------------------------------------------------------------------------------------------------ */

/* As the kernel has it: a mapping holds the file. */
static bool is_mapped(ino_t inode)
{
        for (size_t i = 0; i < MODEL_HOLDS; i++) {
                const struct model_hold *hold = &rig.model.holds[i];

                if (hold->is_there && hold->is_range && hold->memory && hold->file == inode)
                        return true;
        }
        return false;
}

/* What a space held whose last open file was the gate's own has gone with it. */
static void forget_spaces(void)
{
        for (size_t i = 0; i < rig.model.n_files; i++) {
                ino_t inode = rig.model.files[i].inode;
                bool is_open = rig.model.files[i].node != RM_NODE_UVM;

                for (size_t k = 0; k < FILES; k++)
                        is_open |= model_inode(rig.files[k]) == inode;
                for (size_t k = 0; k < rig.gate->files.n; k++)
                        is_open |= model_inode(rig.gate->files.items[k].fd) == inode;
                if (!is_open && !is_mapped(inode))
                        file_end(&rig.model, inode);
        }
}

static void check(bytes was, bytes was_host)
{
        const struct quota *video = &rig.lease.devices[0].quota, *memory = &rig.lease.host;

        forget_spaces();
        if (rig.is_ended)
                return;
        require(model_count(&rig.model, true) <= rig.lease.groups_max);
        require(model_count(&rig.model, false) <= rig.lease.channels_max);
        require(rig.model.video <= video->used && rig.model.host <= memory->used);
        require(video->used <= video->size || video->used <= was);
        require(memory->used <= memory->size || memory->used <= was_host);
}

/* ---- calls ------------------------------------------------------------------------------------------------- */

/* As serve.c does it. */
static void call(unsigned int file, uint32_t number)
{
        struct request request = { .gate = rig.gate,
                                   .worker = &rig.worker,
                                   .process = &rig.process,
                                   .thread = getpid(),
                                   .fd = rig.files[file],
                                   .theirs = rig.files[file],
                                   .address = (uintptr_t)arena.block,
                                   .block = rig.worker.block,
                                   .params = rig.worker.params,
                                   .was_block = rig.worker.was,
                                   .was_params = rig.worker.was + GATE_BLOCK_MAX };
        bytes was = rig.lease.devices[0].quota.used, was_host = rig.lease.host.used;

        request.node = model_node(&rig.model, request.fd, &request.minor);
        if (request.node == RM_NODE_UVM)
                request.space = files_find(&rig.gate->files, request.fd);
        (void)serve_request(&request, number);
        check(was, was_host);
}

static void rm_call(unsigned int file, uint32_t nr, uint32_t size)
{
        call(file, 3u << 30 | size << 16 | (uint32_t)'F' << 8 | nr);
}

static unsigned int ctl_file(void)
{
        return next() % 4u;
}

static unsigned int uvm_file(void)
{
        return 4 + next() % 2u;
}

/* One of those that were made, or none that was. */
static uint32_t client_of(void)
{
        return 0xc1d00001u + next() % 8u;
}

/* Few, so that they meet; 0: the driver picks; one that it has picked; a client's. */
static uint32_t handle_of(void)
{
        uint8_t pick = next();

        if (pick >= 0xf0)
                return 0xcaf00000u + (pick & 15u);
        return pick >= 0xe0 ? 0xc1d00001u + (pick & 7u) : pick % 16u;
}

static void put32(uint32_t at, uint32_t value)
{
        rm_put32(arena.block, sizeof(arena.block), at, value);
}

static void put64(uint32_t at, uint64_t value)
{
        rm_put64(arena.block, sizeof(arena.block), at, value);
}

static void alloc(unsigned int file, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class_number)
{
        const struct rm_layout *layout = &rig.model.layout;

        put32(0, client);
        put32(4, parent);
        put32(8, handle);
        put32(12, class_number);
        put64(16, (uintptr_t)arena.params);
        put32(layout->alloc_params_size_at, 0);
        rm_call(file, RM_NR_ALLOC, layout->alloc_size);
}

static void step_client(void)
{
        unsigned int file = ctl_file();

        alloc(file, 0, 0, 0, next() % 2u ? RM_CLASS_CLIENT : RM_CLASS_ROOT);
}

static void step_object(void)
{
        uint32_t client = client_of(), parent = handle_of(), handle = handle_of();
        uint32_t class_number = classes[next() % ARRAY_SIZE(classes)];

        if (class_number == RM_CLASS_DEVICE) {
                parent = client;
                rm_put32(arena.params, PARAMS, 0, MODEL_INSTANCE);
        }
        alloc(0, client, parent, handle, class_number);
}

static void step_memory(void)
{
        static const bytes units[] = { 1, 4 * KIB, 64 * KIB, MIB, 16 * MIB, GIB, 1ull << 56, 1ull << 61 };
        uint32_t client = client_of(), parent = handle_of(), handle = handle_of();
        bytes size = next();

        rm_put32(arena.params, PARAMS, 0, 1);
        rm_put32(arena.params, PARAMS, 24, (next() % 4u) << 23);
        rm_put64(arena.params, PARAMS, 64, size * units[next() % ARRAY_SIZE(units)]);
        alloc(0, client, parent, handle, RM_CLASS_VIDEO_MEMORY);
}

static void step_host(void)
{
        uint64_t size;

        put32(0, client_of());
        put32(4, handle_of());
        put32(8, handle_of());
        put32(12, RM_CLASS_HOST_MEMORY);
        put64(24, 0);
        size = next();
        put64(32, (size << next() % 64u) - 1);
        put32(48, UINT32_MAX);
        rm_call(0, RM_NR_ALLOC_MEMORY, 56);
}

static void free_object(uint32_t client, uint32_t handle)
{
        put32(0, client);
        put32(4, 0);
        put32(8, handle);
        rm_call(0, RM_NR_FREE, 16);
}

static void step_free(void)
{
        uint32_t client = client_of();

        free_object(client, handle_of());
}

static void step_dup(void)
{
        put32(0, client_of());
        put32(4, handle_of());
        put32(8, handle_of());
        put32(12, client_of());
        put32(16, handle_of());
        rm_call(0, RM_NR_DUP, 28);
}

/* Base and length of the step's range, in the block. */
static void put_range(void)
{
        static const uint64_t bases[] = { 2 * MIB, 1ull << 40, 1ull << 47, UINT64_MAX - 64 * MIB + 1 };
        uint64_t base = next(), length = next();

        put64(0, bases[base % 4u] + (base / 4u) * MIB);
        put64(8, length == 255 ? UINT64_MAX : length * MIB);
}

static void step_range(void)
{
        unsigned int file = uvm_file();
        bool is_pool = next() % 4u == 0;

        put_range();
        call(file, is_pool ? UVM_SEMAPHORE_POOL : UVM_CREATE_EXTERNAL);
}

static void step_map(void)
{
        uint32_t client_at = rig.model.layout.uvm_map_external_client_at;
        unsigned int file = uvm_file();

        put_range();
        put64(16, 0);
        put64(24, 1 + next() % 2u);
        put64(client_at - 12, 1);
        put32(client_at - 4, (uint32_t)rig.files[0]);
        put32(client_at, client_of());
        put32(client_at + 4, handle_of());
        call(file, UVM_MAP_EXTERNAL);
}

static void step_unmap(void)
{
        unsigned int file = uvm_file();

        put_range();
        put64(16, 1 + next() % 2u);
        call(file, UVM_UNMAP_EXTERNAL);
}

static void control(uint32_t client, uint32_t cmd, uint32_t size)
{
        put32(0, client);
        put32(4, client);
        put32(8, cmd);
        put64(16, (uintptr_t)arena.params);
        put32(24, size);
        rm_call(0, RM_NR_CONTROL, 32);
}

static void step_export(void)
{
        uint32_t client = client_of();

        rm_put32(arena.params, PARAMS, 12, handle_of());
        rm_put32(arena.params, PARAMS, 16, (uint32_t)rig.files[ctl_file()]);
        control(client, CONTROL_EXPORT, 24);
}

static void step_import(void)
{
        uint32_t client = client_of();

        rm_put32(arena.params, PARAMS, 12, handle_of());
        rm_put32(arena.params, PARAMS, 16, handle_of());
        rm_put32(arena.params, PARAMS, 0, (uint32_t)rig.files[ctl_file()]);
        control(client, CONTROL_IMPORT, 24);
}

static void step_raw(void)
{
        unsigned int file = next() % FILES;
        uint32_t number = next(), size = next();
        size_t n = next();

        for (size_t i = 0; i < n; i++)
                arena.block[i] = next();
        call(file, file < 4 ? 3u << 30 | size << 16 | (uint32_t)'F' << 8 | number : number);
}

/* A space lives on in the gate's own file until it was emptied; everything else ends with the descriptor. */
static void step_close(void)
{
        unsigned int file = next() % FILES;
        ino_t inode = model_inode(rig.files[file]);

        if (rig.model.n_files == MODEL_FILES)
                return;
        (void)close(rig.files[file]);
        if (file < 4)
                file_end(&rig.model, inode);
        rig.files[file] = model_open_node(&rig.model, file < 4 ? RM_NODE_CTL : RM_NODE_UVM, 0);
        require(rig.files[file] >= 0);
}

/* As settle_exports, but at once: the gate gives the driver a moment, which is no part of the truth here. */
static void settle_exports(void)
{
        uint64_t gone[MODEL_FILES];
        bool is_closing;
        size_t n = open_files_reap(&rig.gate->exports, clock_now(), 0, gone, ARRAY_SIZE(gone), &is_closing);

        for (size_t i = 0; i < n; i++)
                ledger_export_gone(rig.gate->ledger, gone[i]);
}

static void step_settle(void)
{
        bytes was = rig.lease.devices[0].quota.used, was_host = rig.lease.host.used;

        settle_exports();
        (void)gate_settle(rig.gate);
        check(was, was_host);
}

/* Not of a space that the gate has let go of: that has no device any more (gate/books/spaces.c, X3). */
static bool has_device(ino_t inode)
{
        for (size_t i = 0; i < rig.gate->files.n; i++)
                if (model_inode(rig.gate->files.items[i].fd) == inode)
                        return true;
        return false;
}

/* As serve_notification does it: the mapping is the kernel's, and what it came to is looked at in the next call. */
static void step_managed(void)
{
        unsigned int file = uvm_file();
        struct seccomp_notif notification = { .pid = (__u32)getpid() };
        bytes was = rig.lease.devices[0].quota.used, was_host = rig.lease.host.used;
        struct mapping_call made;
        uint64_t base, length;
        uint8_t how;

        put_range();
        base = rm_get64(arena.block, sizeof(arena.block), 0);
        length = rm_get64(arena.block, sizeof(arena.block), 8);
        how = next();
        if (!length || length > GIB || base + length - 1 < base)
                return;
        notification.data.args[0] = notification.data.args[5] = base;
        notification.data.args[1] = length;
        notification.data.args[2] = PROT_READ | PROT_WRITE;
        notification.data.args[3] = MAP_SHARED | MAP_FIXED;
        notification.data.args[4] = (__u64)rig.files[file];
        if (serve_mmap(&rig.worker, &notification, &rig.process) != GATE_GO_ON)
                return check(was, was_host);
        if (how & 1)
                (void)sweep_all_managed(rig.gate); /* it is on its way */
        if (how & 2)                               /* long ago: the space may be asked */
                files_mapped(&rig.gate->files, files_find(&rig.gate->files, rig.files[file]), getpid(), 0);
        if (how & 8) /* another thread frees what is there: a pool that the mapping was let through for */
                call(file, UVM_FREE);
        if (how & 4) /* the number leads elsewhere by now, perhaps to another space */
                file = uvm_file();
        if (has_device(model_inode(rig.files[file])))
                model_mmap(&rig.model, model_inode(rig.files[file]), base, length);
        if (mappings_of(&rig.gate->mappings, getpid(), &made)) {
                mapping_check(rig.gate, &made);
                mappings_end(&rig.gate->mappings, &made);
        }
        check(was, was_host);
}

static void step_unmanage(void)
{
        unsigned int file = uvm_file();

        put_range();
        model_munmap(&rig.model, model_inode(rig.files[file]), rm_get64(arena.block, sizeof(arena.block), 0),
                     next() % 2u);
}

static void step_channel(void)
{
        static const uint32_t kinds[] = { RM_CLASS_GROUP, 0xc86f, MODEL_SPACE };
        uint32_t client = client_of(), parent = handle_of(), handle = handle_of();

        memset(arena.params, 0, 128);
        rm_put32(arena.params, PARAMS, MODEL_ENGINE_AT, next());
        alloc(0, client, parent, handle, kinds[next() % ARRAY_SIZE(kinds)]);
}

static void step(void)
{
        switch ((enum step)(next() % N_STEPS)) {
        case STEP_CLIENT:
                return step_client();
        case STEP_OBJECT:
                return step_object();
        case STEP_MEMORY:
                return step_memory();
        case STEP_HOST:
                return step_host();
        case STEP_FREE:
                return step_free();
        case STEP_DUP:
                return step_dup();
        case STEP_SPACE:
                memset(arena.block, 0, 16);
                return call(uvm_file(), UVM_INITIALIZE);
        case STEP_RANGE:
                return step_range();
        case STEP_MAP:
                return step_map();
        case STEP_UNMAP:
                return step_unmap();
        case STEP_UNRANGE:
                put_range();
                return call(uvm_file(), UVM_FREE);
        case STEP_EXPORT:
                return step_export();
        case STEP_IMPORT:
                return step_import();
        case STEP_CLOSE:
                return step_close();
        case STEP_QUOTA:
                rig.lease.devices[0].quota.size = next() * 4 * MIB;
                return;
        case STEP_FAIL:
                rig.model.fail = next();
                return;
        case STEP_GRANULE:
                rig.model.granule = 4 * KIB << next() % 12u;
                return;
        case STEP_CHANGE:
                rig.change.reads = next() % 8u;
                rig.change.at = next();
                rig.change.at += next() % 2u ? offsetof(__typeof__(arena), params) : 0;
                rig.change.what = next();
                return;
        case STEP_RAW:
                return step_raw();
        case STEP_SETTLE:
                return step_settle();
        case STEP_MANAGED:
                return step_managed();
        case STEP_UNMANAGE:
                return step_unmanage();
        case STEP_CHANNEL:
                return step_channel();
        case N_STEPS:
                break;
        }
}

/* ---- begin and end ------------------------------------------------------------------------------------------- */

static void note_event(void *context, enum event_kind event, pid_t process, const char *detail)
{
        (void)context;
        (void)process;
        (void)detail;
        rig.is_ended |= event == EVENT_AUDIT_MISMATCH;
}

static void begin(uint8_t release)
{
        struct gate_options options = { .lease = &rig.lease, .event = note_event };

        memset(&arena, 0, sizeof(arena));
        rig.model = (struct model){ .granule = 64 * KIB };
        require(rm_layout_for(releases[release % ARRAY_SIZE(releases)], &rig.model.layout) == RM_OK);
        rig.lease = (struct lease){ .n_devices = 1, .groups_max = 8, .channels_max = 8 };
        rig.lease.devices[0] = (struct lease_device){
                .is_granted = true, .instance = MODEL_INSTANCE, .gpu_id = MODEL_GPU_ID, .minor = 1
        };
        rig.lease.devices[0].quota.size = QUOTA;
        rig.lease.host.size = QUOTA;
        rig.lease.devices[0].own.of[OWN_group].is_known = rig.lease.devices[0].own.of[OWN_channel].is_known = true;
        rig.lease.devices[0].own.of[OWN_address_space].is_known = true;
        rig.lease.devices[0].own.of[OWN_group].size = MODEL_OWN_GROUP;
        rig.lease.devices[0].own.of[OWN_channel].size = MODEL_OWN_OTHER;
        rig.lease.devices[0].own.of[OWN_address_space].size = MODEL_OWN_OTHER;
        rig.is_ended = false;
        rig.process.id = getpid();
        rig.change.reads = 0;
        options.layout = rig.model.layout;
        options.driver = (struct gate_driver){ &rig.model, model_node, model_ioctl, model_open, NULL };
        require(gate_new(&options, eventfd(0, EFD_CLOEXEC), &rig.gate) == 0);
        rig.gate->host = &host;
        rig.worker.gate = rig.gate;
        rig.worker.listener = &rig.gate->listeners[0];
        for (size_t i = 0; i < FILES; i++) {
                rig.files[i] = model_open_node(&rig.model, i < 4 ? RM_NODE_CTL : RM_NODE_UVM, 0);
                require(rig.files[i] >= 0);
        }
}

/* Ranges first; then the clients, with all they have. What an export keeps is still charged, and nothing else. */
static void end(void)
{
        bytes exported = 0;

        rig.model.fail = 0;
        rig.change.reads = 0;
        for (unsigned int file = 4; file < FILES; file++)
                for (size_t i = 0; i < MODEL_HOLDS; i++) {
                        const struct model_hold *hold = &rig.model.holds[i];

                        if (!hold->is_there || !hold->is_range || hold->file != model_inode(rig.files[file]))
                                continue;
                        if (hold->memory) {
                                model_munmap(&rig.model, hold->file, hold->base, false);
                                continue;
                        }
                        put64(0, hold->base);
                        put64(8, hold->length);
                        call(file, UVM_FREE);
                }
        for (size_t i = 0; i < rig.model.n_clients; i++)
                free_object(rig.model.clients[i].handle, rig.model.clients[i].handle);
        for (size_t i = 0; i < MODEL_HOLDS; i++)
                exported += rig.model.holds[i].is_there;
        if (ledger_totals(rig.gate->ledger).n_memories)
                step_settle(); /* of clients whose descriptor was closed the gate has to ask */
        exported += ledger_totals(rig.gate->ledger).n_exports; /* also of what the driver has no memory for */
        if (!exported)
                require(ledger_totals(rig.gate->ledger).n_memories == 0 || rig.gate->files.n);
        rig.gate = gate_free(rig.gate);
        for (size_t i = 0; i < FILES; i++)
                file_end(&rig.model, model_inode(rig.files[i]));
        for (size_t i = 0; i < MODEL_OBJECTS; i++)
                if (rig.model.objects[i].is_there)
                        object_drop(&rig.model, &rig.model.objects[i]);
        for (size_t i = 0; i < MODEL_HOLDS; i++)
                memory_drop(&rig.model, rig.model.holds[i].is_there ? rig.model.holds[i].memory : NULL);
        for (size_t i = 0; i < FILES; i++)
                closep(&rig.files[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (!rig.worker.block) {
                rig.worker.block = calloc(1, GATE_BLOCK_MAX);
                rig.worker.params = calloc(1, GATE_PARAMS_MAX);
                rig.worker.nested = calloc(1, GATE_NESTED_MAX);
                rig.worker.was = calloc(1, GATE_BLOCK_MAX + GATE_PARAMS_MAX);
                rig.process.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
                require(rig.process.pidfd >= 0);
                require(rig.worker.block && rig.worker.params && rig.worker.nested && rig.worker.was);
        }
        rig.data = data;
        rig.size = size;
        begin(next());
        for (int i = 0; i < STEPS_MAX && rig.size && !rig.is_ended; i++)
                step();
        end();
        return 0;
}
