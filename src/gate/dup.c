/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second handles: of the tenant's own objects, of another tenant's memory (--ipc=host), and of what an MPS server
 * lends.
 *
 * The driver (580 to 595) returns with its locks held when the parent does not exist: only live parents reach it.
 * Source of the defect: rs_server.c serverCopyResource, 580.142, 590.48.01, 595.45.04; read, not run.
 *
 * An MPS server's clients make their channels in its group, of which they dup a handle, and talk to it through two
 * pieces of its memory, 2 MiB each: that and nothing else passes. Memory is charged as it is with ipc_host; a group
 * holds none.
 * Measured: H200, 580.159.04, what libcuda and nvidia-cuda-mps-server say.
 *
 * Memory of a tenant of the same job comes in by a loan (job/loans.c), and is not charged here.
 *
 * Pages of the tenant's own (class 0x71), which it pins without us, are no objects of the ledger; a process with two
 * devices dups them for the other one. Of an object that we never saw the driver says whether it is host memory:
 * anything else goes back.
 */
#include "gate/act.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "rm/encode.h"
#include "rm/numbers.h"

enum {
        GET_SURFACE_INFO = 0x410110, /* of a memory object: {count@0, list@8}, the list of {index, data} */
        SURFACE_PHYS_SIZE = 7,       /* data: 4 KiB units */
        SURFACE_SPACE = 9,           /* data: which memory it is in */
        SPACE_HOST = 1,
        GET_FABRIC_INFO = 0xf80101,  /* of a fabric object, which has no surface: size@0 */
        GET_GROUP_INFO = 0xa06c0106, /* the group's number, 4 bytes */
        MAILBOX_MAX = 2 * MIB,
};

enum source {
        SOURCE_KNOWN,   /* an object of the ledger */
        SOURCE_UNSEEN,  /* the tenant's client has it, or not */
        SOURCE_FOREIGN, /* another tenant's */
};

/* The source must be the tenant's, unless ipc_host, the MPS server's loan or one of the job allows another's. */
static uint32_t check_dup(struct request *request, bool is_lent, enum source *ret)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object;

        *ret = ledger_has_client(gate->ledger, call->source_client) ? SOURCE_KNOWN : SOURCE_FOREIGN;
        if (call->parent != call->client && ledger_get(gate->ledger, call->client, call->parent, &object) != LEDGER_OK)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (*ret == SOURCE_FOREIGN)
                return gate->options.ipc_host || is_lent ? RM_STATUS_OK : RM_STATUS_INSUFFICIENT_PERMISSIONS;
        if (call->source_object != call->source_client &&
            ledger_get(gate->ledger, call->source_client, call->source_object, &object) != LEDGER_OK)
                *ret = SOURCE_UNSEEN;
        return RM_STATUS_OK;
}

static uint32_t ask_object(struct request *request, const struct ledger_object *object, uint32_t cmd, void *params,
                           uint32_t size)
{
        struct rm_control control = { object->client, object->handle, cmd, params, size };

        return gate_driver_control(&request->gate->options.driver, request->fd, &control);
}

/* 0: the driver does not tell. */
static uint32_t ask_surface(struct request *request, const struct ledger_object *object, uint32_t index)
{
        uint8_t params[16] = { 0 }, item[8] = { 0 };

        rm_put32(item, sizeof(item), 0, index);
        rm_put32(params, sizeof(params), 0, 1);
        rm_put64(params, sizeof(params), 8, (uintptr_t)item);
        if (ask_object(request, object, GET_SURFACE_INFO, params, sizeof(params)) != RM_STATUS_OK)
                return 0;
        return rm_get32(item, sizeof(item), 4);
}

/* Size of a memory object; 0: the driver does not tell. */
static bytes ask_size(struct request *request, const struct ledger_object *object)
{
        bytes size = (bytes)ask_surface(request, object, SURFACE_PHYS_SIZE) * 4 * KIB;
        uint8_t info[32] = { 0 };

        if (!size && ask_object(request, object, GET_FABRIC_INFO, info, sizeof(info)) == RM_STATUS_OK)
                size = rm_get64(info, sizeof(info), 0);
        return size;
}

/* Only a group has a number. */
static bool is_group(struct request *request, const struct ledger_object *object)
{
        uint32_t number = 0;

        return ask_object(request, object, GET_GROUP_INFO, &number, sizeof(number)) == RM_STATUS_OK;
}

uint32_t charge_foreign(struct request *request, struct ledger_object *object, struct charge *ret)
{
        int device = object_device(request->gate, object->client, object->parent);
        bytes size = ask_size(request, object);

        object->class_number = RM_CLASS_VIDEO_MEMORY;
        if (size && device >= 0 && take_memory(request, device, size, false, ret) == QUOTA_OK)
                return RM_STATUS_OK;
        perform_free(request, object->client, object->handle);
        if (size)
                return RM_STATUS_NO_MEMORY;
        gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id,
                  "another tenant's object, of which the driver does not tell the size");
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

/* Who has the source, if it is another's and comes in. */
struct owner {
        bool is_server;        /* MPS's */
        struct gate_loan loan; /* of a tenant of the job; number 0: none */
};

static struct owner owner_of(struct request *request)
{
        struct gate *gate = request->gate;
        const struct gate_options *options = &gate->options;
        const struct rm_call *call = &request->call;
        struct gate_loan_ask ask = { call->source_client, call->source_object, -1, 0, request->fd };
        struct owner owner = { 0 };

        {
                LOCKED(&gate->ledger_lock);
                if (ledger_has_client(gate->ledger, call->source_client))
                        return owner;
        }
        owner.is_server = options->lends && options->lends(options->node_context, call->source_client);
        if (!owner.is_server && options->borrow && call->source_object)
                (void)options->borrow(options->node_context, &ask, &owner.loan);
        return owner;
}

static uint32_t take_lent(struct request *request, struct ledger_object *object, struct charge *ret)
{
        bytes size = ask_size(request, object);

        if (size && size <= MAILBOX_MAX)
                return charge_foreign(request, object, ret);
        if (!size && is_group(request, object) && lent_reserve(request) == RM_STATUS_OK) {
                object->class_number = RM_CLASS_GROUP;
                return RM_STATUS_OK;
        }
        perform_free(request, object->client, object->handle);
        gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id, "an object of the MPS server's, not lent");
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

/* Pages of the tenant's own; what is no host memory goes back. */
static uint32_t take_unseen(struct request *request, struct ledger_object *object)
{
        if (ask_surface(request, object, SURFACE_SPACE) == SPACE_HOST)
                return RM_STATUS_OK;
        perform_free(request, object->client, object->handle);
        gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id, "dup of 0x%x, which we never saw made",
                  request->call.source_object);
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

static uint32_t prepare_dup(struct request *request, bool is_lent, enum source *ret_source, struct ledger_entry **ret)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint32_t status;

        {
                LOCKED(&gate->ledger_lock);
                status = check_dup(request, is_lent, ret_source);
        }
        if (status == RM_STATUS_OK && entry_take_of(gate, UINT32_MAX, ret) < 0)
                status = RM_STATUS_INSUFFICIENT_RESOURCES;
        if (status == RM_STATUS_INSUFFICIENT_PERMISSIONS) {
                gate_tell(gate, EVENT_FOREIGN_OBJECT, request->process->id, "dup of 0x%x in client 0x%x",
                          call->source_object, call->source_client);
                /* what the driver says of a client that has ended, which may be all it is: another's is not there */
                status = RM_STATUS_INVALID_OBJECT_HANDLE;
        }
        return status;
}

bool loan_is_good(struct request *request, const struct gate_loan *loan, const struct ledger_object *object)
{
        const struct gate_options *options = &request->gate->options;

        return ask_size(request, object) <= loan->size && options->stands(options->node_context, loan->number);
}

void loan_put(struct ledger *ledger, struct ledger_entry *entry, struct ledger_object *object, struct gate_loan loan)
{
        object->class_number = loan.class_number;
        ledger_borrow(ledger, entry, object, loan.number, loan.size);
        ledger_pages_set(ledger, object->client, object->handle, loan.pages);
}

/* Memory of a tenant of the job; what it does not lend, or not any more, goes back. */
static uint32_t take_borrowed(struct request *request, const struct ledger_object *object, const struct gate_loan *loan)
{
        if (loan_is_good(request, loan, object))
                return RM_STATUS_OK;
        perform_free(request, object->client, object->handle);
        gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id,
                  "dup of 0x%x in client 0x%x, which went meanwhile", request->call.source_object,
                  request->call.source_client);
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

/* The driver has made the handle. What is another's is borrowed, or charged at the size that the driver tells, or
 * handed back. */
static uint32_t commit_dup(struct request *request, struct owner *owner, enum source source, struct ledger_entry *entry)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint32_t handle = rm_get32(request->block, call->block_size, call->object_at), status = RM_STATUS_OK;
        struct ledger_object to = { call->client, call->parent, handle, 0, -1 };
        _cleanup_(charge_drop) struct charge charge = { 0 };

        if (source == SOURCE_UNSEEN)
                status = take_unseen(request, &to);
        else if (source == SOURCE_FOREIGN && owner->loan.number)
                status = take_borrowed(request, &to, &owner->loan);
        else if (source == SOURCE_FOREIGN)
                status = owner->is_server ? take_lent(request, &to, &charge) : charge_foreign(request, &to, &charge);

        LOCKED(&gate->ledger_lock);
        if (status != RM_STATUS_OK)
                ledger_entry_free(gate->ledger, entry);
        else if (source == SOURCE_FOREIGN && owner->loan.number)
                loan_put(gate->ledger, entry, &to, TAKE(owner->loan));
        else if (source != SOURCE_KNOWN)
                ledger_put(gate->ledger, entry, &to, TAKE(charge));
        else
                (void)ledger_dup(gate->ledger, entry, &to, call->source_client, call->source_object);
        return status;
}

/* The scheduler learns of the channels in it as of others. */
static void note_lent(struct request *request)
{
        uint32_t handle = rm_get32(request->block, request->call.block_size, request->call.object_at);
        struct ledger_object object;

        if (object_get(request->gate, request->call.client, handle, &object) && object.class_number == RM_CLASS_GROUP)
                lent_put(request, &object);
}

/* The call, with the locks of both clients. *ret_r: as of perform. A status; RM_STATUS_OK also if the driver
 * refused. */
static uint32_t make_dup(struct request *request, struct owner *owner, int *ret_r)
{
        const struct rm_call *call = &request->call;
        struct ledger_entry *entry;
        enum source source;
        uint32_t status;

        request_lock(request, call->client, call->source_client);
        status = prepare_dup(request, owner->is_server || owner->loan.number, &source, &entry);

        if (status != RM_STATUS_OK)
                return status;
        *ret_r = perform(request);
        if (request_is_done(request, *ret_r)) {
                status = commit_dup(request, owner, source, entry);
                if (status == RM_STATUS_OK && owner->is_server && source == SOURCE_FOREIGN)
                        note_lent(request);
                return status;
        }
        entry_drop(request->gate, entry);
        return RM_STATUS_OK;
}

int serve_dup(struct request *request)
{
        struct gate *gate = request->gate;
        struct owner owner = owner_of(request);
        int r = 0;
        uint32_t status = make_dup(request, &owner, &r);

        request_unlock(request);
        if (owner.loan.number) /* not used */
                gate->options.give_back(gate->options.node_context, owner.loan.number);
        return status == RM_STATUS_OK ? reply(request, r) : answer(request, status);
}
