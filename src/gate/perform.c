/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call itself: our copies in place of the tenant's pointers, our duplicates in place of its descriptor numbers,
 * and everything back to what the tenant wrote before the reply.
 */
#include "gate/perform.h"
#include "gate/move/move.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>

/* ---- what the steps of a handler have in common ------------------------------------------------------ */

struct tenant_fd tenant_fd_get(const struct request *request, int theirs)
{
        const struct gate_host *host = request->gate->host;
        int fd = host->fd_get(request->process, request->thread, theirs);

        if (fd >= 0 && !host->is_there(request)) { /* it may be another program's */
                host->fd_put(request->gate, fd);
                fd = -ESRCH;
        }
        return (struct tenant_fd){ request->gate, fd >= 0 || fd == -EBADF ? fd : -EPERM };
}

void tenant_fd_put(struct tenant_fd *fd)
{
        if (fd->fd >= 0)
                fd->gate->host->fd_put(fd->gate, fd->fd);
        fd->fd = -1;
}

/* The memory may not come for as long as the tenant likes: meanwhile the call is not under way (T1 in move/move.h). */
int tenant_read(struct request *request, void *to, uint64_t from, size_t size)
{
        struct iovec ours = { to, size }, theirs = { (void *)(uintptr_t)from, size };
        const struct gate_host *host = request->gate->host;
        int r, r2;

        if (!size)
                return 0;
        move_leave(request);
        r = host->read(request->thread, &ours, &theirs, 1);
        r2 = move_enter(request);
        request->is_refused_wait = r2 < 0 && r2 != GATE_WAITS;
        if (r < 0 || r2 < 0)
                return r < 0 ? r : r2;
        return host->is_there(request) ? r : -ESRCH;
}

/* The answer of a call of a killed thread must not go into the memory of whoever has its number by now. The number can
 * only change hands between the question and the copy, which follow each other. */
static int pieces_write(const struct request *request, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        const struct gate_host *host = request->gate->host;

        return host->is_there(request) ? host->write(request->thread, ours, theirs, n) : -ESRCH;
}

void reply_besides(struct request *request, uint64_t to, void *from, size_t size)
{
        if (size)
                request->besides[request->n_besides++] =
                        (struct reply_piece){ { from, size }, { (void *)(uintptr_t)to, size } };
}

int write_besides(struct request *request)
{
        int r = 0;

        for (size_t i = 0; i < request->n_besides && r >= 0; i++)
                r = pieces_write(request, &request->besides[i].ours, &request->besides[i].theirs, 1);
        request->n_besides = 0;
        return r < 0 ? r : 0;
}

bool request_is_done(const struct request *request, int r)
{
        return r >= 0 && request_status(request) == RM_STATUS_OK;
}

void request_lock(struct request *request, uint64_t key1, uint64_t key2)
{
        request->locks = client_locks_take(request->gate, key1, key2);
}

void request_unlock(struct request *request)
{
        client_locks_drop(&request->locks);
}

/* ---- the call ---------------------------------------------------------------------------------------- */

uint32_t request_status(const struct request *request)
{
        if (request->call.status_at == UINT32_MAX)
                return RM_STATUS_OK;
        return rm_get32(request->block, request->call.block_size, request->call.status_at);
}

/* A pointer that the driver follows from inside the parameters, as we hold it during the call. */
struct nested {
        uint32_t at;
        bool out;
        uint64_t theirs;
        uint8_t *ours;
        uint32_t size;
};

enum {
        EVENT_RECORD_AT = 0, /* of the block of RM_EVENT_DATA: the pointer to the record */
        EVENT_RECORD_SIZE = 16,
};

static uint32_t nested_size(const struct request *request, const struct rm_pointer *pointer)
{
        uint64_t n = rm_pointer_bytes(pointer, request->params, request->params_size);

        return n > GATE_NESTED_MAX ? UINT32_MAX : (uint32_t)n;
}

static int refuse_nested(const struct request *request)
{
        gate_tell(request->gate, EVENT_DENIED, request->process->id, "control 0x%x points at more than %u bytes",
                  request->call.class_or_cmd, (unsigned int)GATE_NESTED_MAX);
        return -EINVAL;
}

static int nested_begin(struct request *request, struct nested nested[static GATE_POINTERS_MAX], size_t *ret_n)
{
        const struct rm_pointer *pointers;
        size_t n = 0, used = 0;
        int r;

        if (request->call.kind == RM_CONTROL)
                n = rm_pointers(&request->gate->options.layout, request->call.class_or_cmd, &pointers);
        *ret_n = 0;
        if (n > GATE_POINTERS_MAX) {
                gate_tell(request->gate, EVENT_DENIED, request->process->id, "control 0x%x has %zu embedded pointers",
                          request->call.class_or_cmd, n);
                return -EINVAL;
        }
        for (size_t i = 0; i < n; i++) {
                struct nested *to = &nested[*ret_n];
                uint64_t theirs = rm_get64(request->params, request->params_size, pointers[i].at);
                uint32_t size = nested_size(request, &pointers[i]);

                if (!theirs)
                        continue;
                if (size > GATE_NESTED_MAX - used)
                        return refuse_nested(request);
                *to = (struct nested){ pointers[i].at, pointers[i].out, theirs, request->worker->nested + used, size };
                memset(to->ours, 0, size);
                if (pointers[i].in) {
                        r = tenant_read(request, to->ours, theirs, size);
                        if (r < 0)
                                return r;
                }
                rm_put64(request->params, request->params_size, to->at, (uintptr_t)to->ours);
                used += (size + 15u) & ~15u;
                (*ret_n)++;
        }
        return 0;
}

static void nested_end(struct request *request, const struct nested *nested, size_t n, bool succeeded)
{
        for (size_t i = 0; i < n; i++) {
                rm_put64(request->params, request->params_size, nested[i].at, nested[i].theirs);
                if (succeeded && nested[i].out)
                        reply_besides(request, nested[i].theirs, nested[i].ours, nested[i].size);
        }
}

/* Where a descriptor number stands that the driver looks up in its caller's table: ours. */
static uint8_t *number_field(struct request *request, uint32_t *ret_size, uint32_t *ret_at)
{
        uint32_t in_params = UINT32_MAX;

        *ret_size = *ret_at = 0;

        /* UVM is given descriptor numbers that it never looks up, but for this one (uvm.c, 525 to 595). */
        if (request->node == RM_NODE_UVM && request->call.kind != RM_UVM_MM_INITIALIZE)
                return NULL;
        if (request->call.fd_at != UINT32_MAX) {
                *ret_size = request->call.block_size;
                *ret_at = request->call.fd_at;
                return request->block;
        }
        if (request->call.kind == RM_CONTROL || request->call.kind == RM_ALLOC || request->call.kind == RM_ALLOC_SHORT)
                in_params = gate_params_fd(&request->call);
        *ret_size = request->params_size;
        *ret_at = in_params;
        return in_params == UINT32_MAX ? NULL : request->params;
}

static int call_driver(struct request *request)
{
        const struct gate_driver *driver = &request->gate->options.driver;
        const struct rm_call *call = &request->call;
        uint64_t their_rights = 0;
        int r;

        if (call->rights_at != UINT32_MAX)
                their_rights = rm_get64(request->block, call->block_size, call->rights_at);
        if (their_rights)
                rm_put64(request->block, call->block_size, call->rights_at, (uintptr_t)request->rights);
        if (call->params_at != UINT32_MAX && call->params)
                rm_put64(request->block, call->block_size, call->params_at,
                         request->params_size ? (uintptr_t)request->params : 0);
        request->gate->n_performed++;
        r = driver->ioctl(driver->context, request->fd, call->request, request->block);
        if (call->params_at != UINT32_MAX && call->params)
                rm_put64(request->block, call->block_size, call->params_at, call->params);
        if (their_rights)
                rm_put64(request->block, call->block_size, call->rights_at, their_rights);
        return r;
}

/* An event record comes back through a pointer that is not parameters. */
static int perform_event_data(struct request *request)
{
        const struct gate_driver *driver = &request->gate->options.driver;
        uint32_t size = request->call.block_size;
        uint8_t *record = request->worker->nested;
        uint64_t theirs = rm_get64(request->block, size, EVENT_RECORD_AT);
        int r;

        memset(record, 0, EVENT_RECORD_SIZE);
        rm_put64(request->block, size, EVENT_RECORD_AT, (uintptr_t)record);
        r = driver->ioctl(driver->context, request->fd, request->call.request, request->block);
        rm_put64(request->block, size, EVENT_RECORD_AT, theirs);
        if (request_is_done(request, r))
                reply_besides(request, theirs, record, EVENT_RECORD_SIZE);
        return r;
}

int perform(struct request *request)
{
        struct nested nested[GATE_POINTERS_MAX];
        _cleanup_(tenant_fd_put) struct tenant_fd ours = { .fd = -1 };
        uint32_t size, at, theirs = 0;
        uint8_t *field;
        size_t n = 0;
        int fd = -1, r;

        request->n_besides = 0;
        if (request->call.kind == RM_EVENT_DATA)
                return perform_event_data(request);
        field = number_field(request, &size, &at);
        if (field)
                theirs = rm_get32(field, size, at);
        if (field && (int32_t)theirs >= 0) {
                if (!request->named)
                        ours = tenant_fd_get(request, (int)theirs);
                fd = request->named ? request->named->fd : ours.fd;
                if (fd < 0)
                        return fd;
                rm_put32(field, size, at, (uint32_t)fd);
        }
        r = nested_begin(request, nested, &n);
        if (r == 0)
                r = call_driver(request);
        nested_end(request, nested, n, r >= 0);
        if (fd >= 0)
                rm_put32(field, size, at, theirs);
        return r;
}

/* The driver copies an allocation's parameters back only when it succeeded (docs/rm-abi.md 1.3). */
static bool returns_params(const struct request *request)
{
        enum rm_kind kind = request->call.kind;

        return kind == RM_CONTROL ||
               ((kind == RM_ALLOC || kind == RM_ALLOC_SHORT) && request_status(request) == RM_STATUS_OK);
}

/* What differs, from the first byte to the last, as a piece of an iovec. False: nothing does. */
static bool find_change(const uint8_t *was, uint8_t *is, size_t size, uint64_t address, struct iovec *ret_ours,
                        struct iovec *ret_theirs)
{
        size_t first = 0, last = size;

        if (!memcmp(was, is, size))
                return false; /* the usual case, and blocks may be large */
        while (was[first] == is[first])
                first++;
        while (was[last - 1] == is[last - 1])
                last--;
        *ret_ours = (struct iovec){ is + first, last - first };
        *ret_theirs = (struct iovec){ (void *)(uintptr_t)(address + first), last - first };
        return true;
}

/* The driver writes whole blocks back; what it did not change needs no writing. */
static int write_back(struct request *request)
{
        struct iovec ours[2], theirs[2];
        size_t n = 0;

        n += find_change(request->was_block, request->block, request->call.block_size, request->address, &ours[n],
                         &theirs[n]);
        if (request->params_size && returns_params(request))
                n += find_change(request->was_params, request->params, request->params_size, request->call.params,
                                 &ours[n], &theirs[n]);
        return n ? pieces_write(request, ours, theirs, n) : 0;
}

static bool makes_or_ends(enum rm_kind kind)
{
        switch (kind) {
        case RM_ALLOC_MEMORY:
        case RM_FREE:
        case RM_ALLOC_SHORT:
        case RM_ALLOC:
        case RM_DUP:
        case RM_VID_HEAP:
        case RM_MAP_MEMORY:
        case RM_UNMAP_MEMORY:
        case RM_MAP_DMA:
        case RM_UNMAP_DMA:
        case RM_REGISTER_FD:
        case RM_ATTACH_GPUS: /* a file that has devices takes no more (nv.c, 525 to 595) */
        case RM_ALLOC_EVENT:
        case RM_FREE_EVENT:
        case RM_UVM_INITIALIZE:
        case RM_UVM_CREATE_RANGE_GROUP:
        case RM_UVM_DESTROY_RANGE_GROUP:
        case RM_UVM_REGISTER_GPU_VASPACE:
        case RM_UVM_UNREGISTER_GPU_VASPACE:
        case RM_UVM_REGISTER_CHANNEL:
        case RM_UVM_UNREGISTER_CHANNEL:
        case RM_UVM_ENABLE_PEER_ACCESS:
        case RM_UVM_DISABLE_PEER_ACCESS:
        case RM_UVM_REGISTER_GPU:
        case RM_UVM_UNREGISTER_GPU:
        case RM_UVM_MAP_DYNAMIC_PARALLELISM:
        case RM_UVM_CREATE_EXTERNAL:
        case RM_UVM_MAP_EXTERNAL:
        case RM_UVM_MAP_EXTERNAL_SPARSE:
        case RM_UVM_UNMAP_EXTERNAL:
        case RM_UVM_SEMAPHORE_POOL:
        case RM_UVM_MM_INITIALIZE:
        case RM_UVM_DEVICE_P2P:
        case RM_UVM_FREE:
                return true;
        default:
                return false;
        }
}

int reply(struct request *request, int value)
{
        request_unlock(request);
        move_leave(request);
        if (value < 0)
                return value;
        if (makes_or_ends(request->call.kind) && request_status(request) == RM_STATUS_OK)
                request->worker->left = (struct restart_block){
                        .at = request->address,
                        .size = request->call.block_size < RESTART_BLOCK ? request->call.block_size : RESTART_BLOCK,
                        .ours = request->block,
                };
        return write_besides(request) < 0 || write_back(request) < 0 ? -EFAULT : value;
}

int answer(struct request *request, uint32_t status)
{
        request->n_besides = 0;
        memcpy(request->block, request->was_block, request->call.block_size);
        rm_put32(request->block, request->call.block_size, request->call.status_at, status);
        request->params_size = 0;
        return reply(request, 0);
}

void perform_free(struct request *request, uint32_t client, uint32_t handle)
{
        (void)gate_driver_free(&request->gate->options.driver, request->fd, client, handle);
}
