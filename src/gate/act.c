/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver call on its way to a handler: our copy of it, the decision, the action. Every step that fails answers an
 * error: nothing passes because it was not understood. libsublet.so does the same from inside.
 */
#include "gate/act.h"
#include "gate/move/move.h"
#include "gate/perform.h"

#include "lease/capabilities.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>

enum {
        ATTRIBUTES_AT = 24, /* of UVM_MAP_EXTERNAL: 256 of 36 bytes */
        ATTRIBUTE_SIZE = 36,
        ATTRIBUTES_READ = 4, /* at first; almost every call uses one */
};

/* Counted by what the rules go by: control, class or function, else the request itself. */
static void count_refused(const struct request *request, unsigned int needs)
{
        const struct rm_call *call = &request->call;

        gate_refused(request->gate, call->kind, call->class_or_cmd ? call->class_or_cmd : call->request & 0xff, needs);
}

static void report_denied(const struct request *request)
{
        enum event_kind event = EVENT_DENIED;
        const struct rm_call *call = &request->call;

        if (request->verdict.is_unknown)
                event = call->kind == RM_CONTROL                               ? EVENT_UNKNOWN_CONTROL :
                        call->kind == RM_ALLOC || call->kind == RM_ALLOC_SHORT ? EVENT_UNKNOWN_CLASS :
                                                                                 EVENT_UNKNOWN_REQUEST;
        if (request->verdict.is_unknown)
                count_refused(request, 0);
        gate_tell(request->gate, event, request->process->id, "%s 0x%x: %s", rm_kind_name(call->kind),
                  call->class_or_cmd, request->verdict.because);
}

/* What the driver says of a number that it does not know, as for a row that is missing: a program that looks for an
 * engine finds none, and goes on without. Said once for each capability. */
static int serve_incapable(struct request *request)
{
        const struct rm_call *call = &request->call;
        unsigned int needs = request->verdict.capability, has = request->gate->lease->capabilities;
        char lacks[CAPABILITIES_TEXT_MAX], all[CAPABILITIES_TEXT_MAX];
        uint32_t status = call->kind == RM_CONTROL ? RM_STATUS_NOT_SUPPORTED : RM_STATUS_INVALID_CLASS;

        request->gate->n_denied++;
        request->outcome = GATE_LACKS;
        count_refused(request, needs);
        if (!(atomic_fetch_or(&request->gate->capabilities_told, needs) & needs))
                gate_tell(request->gate, EVENT_CAPABILITY_MISSING, request->process->id,
                          "%s 0x%x needs %s: give it with --capabilities %s", rm_kind_name(call->kind),
                          call->class_or_cmd, capabilities_format(needs, lacks), capabilities_format(has | needs, all));
        return call->status_at == UINT32_MAX ? -EPERM : answer(request, status);
}

static int serve_denied(struct request *request)
{
        request->gate->n_denied++;
        request->outcome = request->verdict.is_unknown ? GATE_UNRULED : GATE_REFUSED;
        if (!request->verdict.is_quiet)
                report_denied(request);
        if (request->verdict.error)
                return request->verdict.error;
        return answer(request, request->verdict.status);
}

/* Every client that a call names must be the tenant's: RM checks only some of them, and with one process performing
 * for many clients its own checks mean little (gate.h). */
static int check_clients(struct request *request)
{
        const struct rm_call *call = &request->call;
        struct gate *gate = request->gate;
        const uint32_t *offsets;
        size_t n = gate_client_fields(call, &offsets);
        uint32_t foreign = 0;

        if (request->verdict.action == GATE_CLIENT)
                return 0;
        if (n > GATE_CLIENT_FIELDS_MAX) {
                gate_tell(gate, EVENT_DENIED, request->process->id, "%s names %zu clients", rm_kind_name(call->kind),
                          n);
                return -EACCES;
        }
        {
                LOCKED(&gate->ledger_lock);
                if (call->client && !ledger_has_client(gate->ledger, call->client))
                        foreign = call->client;
                for (size_t i = 0; i < n && !foreign; i++) {
                        uint32_t client = rm_get32(request->params, request->params_size, offsets[i]);

                        if (client && !ledger_has_client(gate->ledger, client))
                                foreign = client;
                }
        }
        if (!foreign)
                return 0;
        gate_tell(gate, EVENT_FOREIGN_OBJECT, request->process->id, "%s names client 0x%x", rm_kind_name(call->kind),
                  foreign);
        return -EACCES;
}

/* Calls that are known to take many milliseconds (measured: tests/trace, H200, 580.159.04). What takes one or two the
 * watcher notices; to give the reader's part away costs more than it gains there. */
static bool is_long(const struct request *request)
{
        enum { LARGE = 8 * MIB };

        return request->call.kind == RM_UVM_REGISTER_GPU ||
               (request->verdict.action == GATE_HOST && request->verdict.size >= LARGE);
}

static int serve_plain(struct request *request)
{
        return reply(request, perform(request));
}

static int serve_accepted(struct request *request)
{
        request->outcome = GATE_ANSWERED;
        return answer(request, request->verdict.status);
}

static int serve_continued(struct request *request)
{
        (void)request;
        return GATE_GO_ON;
}

/* What a program does before its debugger begins: a client of the same tenant gets the right to debug, and no other.
 * params: target@0, rights@4, u16 type@8, u8 action@10 (rs_access.h and ctrl0000client.h, 580.142). */
static bool lets_own_debug(const struct request *request)
{
        enum { LET_DEBUG = 4, TYPE_CLIENT = 3, SIZE = 12 };
        const void *params = request->params;
        uint32_t target = rm_get32(params, SIZE, 0);

        if (request->call.kind != RM_CONTROL || request->call.class_or_cmd != RM_INHERITED_SHARE ||
            request->params_size != SIZE || rm_get32(params, SIZE, 4) != LET_DEBUG ||
            (rm_get32(params, SIZE, 8) & 0xffff) != TYPE_CLIENT)
                return false;
        LOCKED(&request->gate->ledger_lock);
        return target && ledger_has_client(request->gate->ledger, target);
}

/* With ipc_host other tenants may dup, and in a job; RM must know. A right to debug is added to what there is: in the
 * place of it, the tenant's clients could no longer dup from each other. */
static int serve_share(struct request *request)
{
        enum { COMPOSE = 4 };
        const struct gate_options *options = &request->gate->options;

        if (lets_own_debug(request)) {
                rm_put32(request->params, request->params_size, 8,
                         (rm_get32(request->params, request->params_size, 8) & 0xffff) | COMPOSE << 16);
                return serve_plain(request);
        }

        if (options->borrow && request->call.client)
                loans_maker(request);
        return options->ipc_host || options->borrow ? serve_plain(request) : answer(request, RM_STATUS_OK);
}

/* Memory that a debugger reads or writes, in pieces that we have room for. params: object@0, bytes@4, offset@8,
 * pointer@16 (ctrl83dedebug.h, 580.142). */
static int serve_debug_memory(struct request *request)
{
        enum { BYTES_AT = 4, OFFSET_AT = 8, POINTER_AT = 16, SIZE = 24 };
        void *params = request->params;
        uint32_t bytes_in_all = rm_get32(params, SIZE, BYTES_AT), piece;
        uint64_t offset = rm_get64(params, SIZE, OFFSET_AT), pointer = rm_get64(params, SIZE, POINTER_AT);
        int r = 0;

        if (request->params_size != SIZE)
                return answer(request, RM_STATUS_INVALID_PARAM_STRUCT);
        for (uint32_t done = 0; done < bytes_in_all || !bytes_in_all; done += piece) {
                piece = bytes_in_all - done < GATE_NESTED_MAX ? bytes_in_all - done : GATE_NESTED_MAX;
                rm_put32(params, SIZE, BYTES_AT, piece);
                rm_put64(params, SIZE, OFFSET_AT, offset + done);
                rm_put64(params, SIZE, POINTER_AT, pointer + done);
                r = perform(request);
                if (write_besides(request) < 0)
                        r = -EFAULT;
                if (!piece || !request_is_done(request, r))
                        break;
        }
        rm_put32(params, SIZE, BYTES_AT, bytes_in_all);
        rm_put64(params, SIZE, OFFSET_AT, offset);
        rm_put64(params, SIZE, POINTER_AT, pointer);
        return reply(request, r);
}

/* A context that a debugger has stopped, and not yet resumed, keeps the device from everybody: on an H200 with
 * 580.159.04 a tenant with a share of 70 beside it got nothing. So no tenant whose time is steered may. */
static int serve_debug(struct request *request)
{
        uint32_t number = request->call.class_or_cmd;

        if (request->gate->options.desired) {
                request->gate->n_denied++;
                request->outcome = GATE_REFUSED;
                gate_tell(request->gate, EVENT_DENIED, request->process->id,
                          "%s 0x%x: a debugger stops the device for everybody: debug with --no-daemon",
                          rm_kind_name(request->call.kind), number);
                return answer(request, RM_STATUS_NOT_SUPPORTED);
        }
        return number == RM_DEBUG_READ || number == RM_DEBUG_WRITE ? serve_debug_memory(request) : serve_plain(request);
}

static int (*const handlers[])(struct request *request) = {
        [GATE_DENY] = serve_denied,
        [GATE_ACCEPT] = serve_accepted,
        [GATE_CONTINUE] = serve_continued,
        [GATE_PERFORM] = serve_plain,
        [GATE_SHARE] = serve_share,
        [GATE_VIEW] = serve_view,
        [GATE_CLIENT] = serve_client,
        [GATE_OBJECT] = serve_object,
        [GATE_HOLLOW] = serve_hollow,
        [GATE_FREE] = serve_free,
        [GATE_ATTACH] = serve_attach,
        [GATE_LISTEN] = serve_listen,
        [GATE_IGNORE] = serve_ignore,
        [GATE_CHARGE] = serve_memory,
        [GATE_HOST] = serve_memory,
        [GATE_FABRIC] = serve_fabric, /* and keeps the memory below */
        [GATE_DUP] = serve_dup,
        [GATE_EXPORT] = serve_export,
        [GATE_IMPORT] = serve_import,
        [GATE_SPACE] = serve_space,
        [GATE_HOLD] = serve_hold,
        [GATE_RELEASE] = serve_release,
        [GATE_RANGE] = serve_range,
        [GATE_POOL] = serve_range,
        [GATE_SCHEDULE] = serve_schedule,
        [GATE_PLAIN] = serve_range,
        [GATE_NOTHING] = serve_nothing,
        [GATE_GROUP] = serve_group,
        [GATE_RETAIN] = serve_retain,
        [GATE_DEBUG] = serve_debug,
        [GATE_JOIN] = serve_join,
        [GATE_LET_GO] = serve_let_go,
        [GATE_MAP] = serve_map,
        [GATE_GROW] = serve_map_dma,
        [GATE_MOVE] = serve_move,
        [GATE_UNWRAP] = NULL, /* these four: another action by now */
        [GATE_LOOKUP] = NULL,
        [GATE_MODE] = NULL,
        [GATE_QUIET] = NULL,
};

static int serve_full(struct request *request)
{
        request->outcome = GATE_ANSWERED;
        return request->call.status_at == UINT32_MAX ? -ENOMEM : answer(request, RM_STATUS_NO_MEMORY);
}

static int act(struct request *request)
{
        if (is_long(request))
                request->gate->host->reader_release(request->worker);
        return handlers[request->verdict.action] ? handlers[request->verdict.action](request) : -EINVAL;
}

/* Whose memory it was is asked before anything is made of it (is_awaited). */
static int copy_in(struct request *request, void *to, uint64_t from, size_t size)
{
        struct iovec ours = { to, size }, theirs = { (void *)(uintptr_t)from, size };

        return size ? request->gate->host->read(request->thread, &ours, &theirs, 1) : 0;
}

/* UVM_MAP_EXTERNAL has room for 256 attributes and almost always uses one: the unused ones are not read from the
 * tenant, and zero in our copy. */
static int copy_map_external(struct request *request, uint32_t size)
{
        enum { HEAD = ATTRIBUTES_AT + ATTRIBUTES_READ * ATTRIBUTE_SIZE };
        uint32_t count_at = request->gate->options.layout.uvm_map_external_client_at - 12;
        struct iovec ours[2] = { { request->block, HEAD }, { request->block + count_at, size - count_at } };
        struct iovec theirs[2] = {
                { (void *)(uintptr_t)request->address, HEAD },
                { (void *)(uintptr_t)(request->address + count_at), size - count_at },
        };

        memset(request->block + HEAD, 0, count_at - HEAD);
        if (request->gate->host->read(request->thread, ours, theirs, 2) < 0)
                return -EFAULT;
        if (rm_get64(request->block, size, count_at) <= ATTRIBUTES_READ)
                return 0;
        return copy_in(request, request->block, request->address, size);
}

/* A control that is answered without a call needs no parameters. */
static bool needs_params(const struct request *request)
{
        struct gate_verdict verdict;

        if (!request->call.params || request->call.kind != RM_CONTROL)
                return request->call.params;
        return gate_rule(request->call.kind, request->call.class_or_cmd, &verdict) && verdict.action != GATE_ACCEPT &&
               verdict.action != GATE_DENY && verdict.action != GATE_QUIET;
}

static int copy_rights(struct request *request, uint32_t size)
{
        uint32_t at = request->call.rights_at;
        uint64_t from = at == UINT32_MAX ? 0 : rm_get64(request->block, size, at);

        return from ? copy_in(request, request->rights, from, sizeof(request->rights)) : 0;
}

/* A bound of ours, or of the driver's; nothing of it reaches the driver. */
static int refuse_form(const struct request *request, enum rm_kind kind, const char *because)
{
        gate_tell(request->gate, EVENT_DENIED, request->process->id, "%s 0x%x: %s", rm_kind_name(kind),
                  request->call.class_or_cmd, because);
        return -EINVAL;
}

/* G1: from here on only our copies count. */
static int copy_call(struct request *request, enum rm_kind kind, uint32_t number, uint32_t size)
{
        const struct rm_layout *layout = &request->gate->options.layout;
        int r;

        if (size > GATE_BLOCK_MAX)
                return refuse_form(request, kind, "its block is too large");
        r = kind == RM_UVM_MAP_EXTERNAL ? copy_map_external(request, size) :
                                          copy_in(request, request->block, request->address, size);
        if (r < 0)
                return r;
        if (rm_decode(layout, kind, number, request->block, size, &request->call) != RM_OK)
                return refuse_form(request, kind, "no driver takes such a block");
        request->params_size = needs_params(request) ? rm_params_size(layout, &request->call) : 0;
        if (kind == RM_XFER || kind == RM_EVENT_DATA)
                request->params_size = 0; /* `params` is another block, or where the reply goes */
        if (request->params_size > GATE_PARAMS_MAX)
                return refuse_form(request, kind, "its parameters are too large");
        r = copy_in(request, request->params, request->call.params, request->params_size);
        if (r == 0)
                r = copy_rights(request, size);
        memcpy(request->was_block, request->block, size);
        memcpy(request->was_params, request->params, request->params_size);
        return r;
}

static int serve_decoded(struct request *request, uint32_t number);

/* The driver runs the inner request on the inner block; one level only (docs/rm-abi.md 1.1). */
static int unwrap(struct request *request)
{
        uint32_t nr = request->call.class_or_cmd, size = request->call.params_size;

        if (nr == RM_NR_XFER || nr > 0xff || size > GATE_BLOCK_MAX)
                return -EINVAL;
        request->address = request->call.params;
        return serve_decoded(request, size << 16 | 'F' << 8 | nr);
}

static int serve_decoded(struct request *request, uint32_t number)
{
        const struct rm_layout *layout = &request->gate->options.layout;
        enum rm_kind kind;
        uint32_t size;
        int r;

        r = rm_request_find(layout, request->node, number, &kind, &size);
        if (r != RM_OK) {
                request->gate->n_denied++;
                request->outcome = GATE_UNRULED;
                request->call = (struct rm_call){ .kind = RM_N_KINDS, .request = number, .status_at = UINT32_MAX };
                gate_refused(request->gate, RM_N_KINDS, number, 0);
                gate_tell(request->gate, EVENT_UNKNOWN_REQUEST, request->process->id, "request 0x%x on %s", number,
                          request->node == RM_NODE_UVM ? "nvidia-uvm" : "nvidia");
                return request->node == RM_NODE_UVM ? -ENOTTY : -EINVAL;
        }
        r = copy_call(request, kind, number, size);
        if (r < 0) {
                request->outcome = GATE_REFUSED;
                request->call = (struct rm_call){ .kind = kind, .request = number, .status_at = UINT32_MAX };
                return r == -EPERM || r == -ESRCH ? -EPERM : r;
        }
        gate_decide(layout, &request->call, request->block, request->params, request->params_size, &request->verdict);
        if (request->verdict.action == GATE_UNWRAP)
                return unwrap(request);
        if (check_clients(request) < 0) {
                request->gate->n_denied++;
                request->outcome = GATE_REFUSED;
                return request->call.status_at == UINT32_MAX ? -EPERM : answer(request, RM_STATUS_INVALID_CLIENT);
        }
        if (request->verdict.capability && !(request->verdict.capability & request->gate->lease->capabilities))
                return serve_incapable(request);
        r = wait_if_suspended(request);
        if (r == 0)
                r = move_enter(request);
        if (r == GATE_WAITS)
                return r;
        if (r == -EINTR || !request->gate->host->is_awaited(request))
                return -EINTR; /* nobody waits for the answer */
        if (r == 0)
                r = act(request);
        else
                request->is_refused_wait = true;
        return request->is_refused_wait ? serve_full(request) : r;
}

/* r: the answer to the system call. One that is made again, or waits, is not told twice; what the kernel makes in the
 * tenant has no answer yet. */
static void tell_record(const struct request *request, int r)
{
        bool is_error = r < 0 && r != GATE_GO_ON;
        const struct gate_options *options = &request->gate->options;
        const struct rm_call *call = &request->call;
        struct gate_call told = { .kind = call->kind,
                                  .number = call->class_or_cmd ? call->class_or_cmd : call->request,
                                  .size = call->params_size ? call->params_size : call->block_size,
                                  .status = r < 0 ? 0 : request_status(request),
                                  .error = is_error ? -r : 0,
                                  .outcome = request->outcome,
                                  .needs = request->outcome == GATE_LACKS ? request->verdict.capability : 0 };
        LOCKED(&request->gate->event_lock);

        if (r != -EINTR && r != GATE_WAITS && request->gate->is_recorded)
                options->record(options->record_context, &told);
}

int serve_request(struct request *request, uint32_t number)
{
        int r;

        request->outcome = GATE_MADE;
        r = serve_decoded(request, number);
        request_unlock(request);
        move_leave(request);
        if (request->gate->is_recorded)
                tell_record(request, r);
        return r;
}
