/* SPDX-License-Identifier: Apache-2.0 */
/* Replies that show the tenant's part only: the driver's call, then its reply rewritten (policy/views.h). */
#include "gate/act.h"
#include "gate/perform.h"
#include "gate/policy/views.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>

enum {
        GET_ACTIVE_DEVICES = 0x288,
        OLD_FB_GET_INFO = 0x20801301,
        FB_REGIONS = 0x20801320,
        PROTECTED_MEMORY = 0xcb330106, /* of an object above all devices: names a subdevice at 0 */
        PIDS_MAX = 950,
};

static struct view view_of(const struct request *request, int device)
{
        struct quota *quota = &request->gate->lease->devices[device].quota;

        return (struct view){ quota->size, quota_free(quota) };
}

struct holder {
        struct gate *gate;
        int device;
};

static bytes held_by(void *context, uint32_t pid)
{
        const struct holder *holder = context;
        LOCKED(&holder->gate->ledger_lock);

        return ledger_held_by(holder->gate->ledger, &holder->gate->lease->devices[holder->device].quota, pid);
}

/* The tenant's processes that hold memory of the device, each once. Beyond PIDS_MAX, all that the control has room
 * for, they are left out. */
static size_t list_owners(struct gate *gate, int device, uint32_t pids[static PIDS_MAX])
{
        const struct quota *quota = &gate->lease->devices[device].quota;
        LOCKED(&gate->ledger_lock);
        uint32_t client, owner;
        size_t n = 0;

        for (size_t i = 0; n < PIDS_MAX && ledger_client_next(gate->ledger, 0, &i, &client, &owner);) {
                size_t k = 0;

                while (k < n && pids[k] != owner)
                        k++;
                if (k == n && owner && ledger_held_by(gate->ledger, quota, owner))
                        pids[n++] = owner;
        }
        return n;
}

/* False: of a device that is not known, so there is nothing that the tenant may see. */
static bool rewrite_control(struct request *request)
{
        const struct lease *lease = request->gate->lease;
        uint32_t size = request->params_size, n = rm_get32(request->params, size, 0); /* of a list, or a handle */
        int device = object_device(request->gate, request->call.client, request->call.object);
        uint32_t pids[PIDS_MAX];
        struct holder holder = { request->gate, device };
        struct view view;

        switch (request->call.class_or_cmd) {
        case RM_GET_ATTACHED_IDS:
        case RM_GET_PROBED_IDS:
                /* 32 ids, and in the probed list 32 that were excluded */
                view_gpu_ids(request->params, size / 4 < 32 ? size / 4 : 32, lease);
                return true;
        case GET_ACTIVE_DEVICES:
                view_active_devices(request->params, size, lease);
                return true;
        }
        if (request->call.class_or_cmd == PROTECTED_MEMORY)
                device = object_device(request->gate, request->call.client, n);
        if (device < 0)
                return false;
        switch (request->call.class_or_cmd) {
        case PROTECTED_MEMORY:
                view = view_of(request, device);
                view_protected(request->params, size, &view);
                break;
        case RM_FB_GET_INFO_V2:
                view = view_of(request, device);
                if (size > 4)
                        view_fb_info(request->params + 4, n < (size - 4) / 8 ? n : (size - 4) / 8, &view);
                break;
        case FB_REGIONS:
                view = view_of(request, device);
                view_regions(request->params, size, &view);
                break;
        case RM_GET_PIDS:
                view_pids(request->params, size, pids, list_owners(request->gate, device, pids));
                break;
        case RM_GET_PID_INFO:
                view_pid_info(request->params, size, held_by, &holder);
                break;
        }
        return true;
}

static bool rewrite_block(struct request *request)
{
        struct view view;
        int device;

        if (request->call.kind == RM_CARD_INFO) {
                view_devices(request->block, request->call.block_size / 72, request->gate->lease);
                return true;
        }
        device = object_device(request->gate, request->call.client, request->call.parent);
        if (device < 0)
                return false;
        view = view_of(request, device);
        view_heap_info(request->block, request->call.block_size, &view);
        return true;
}

/* FB_GET_INFO in its old form, whose list lies in the tenant: asked in the new form, whose list is a part of the
 * parameters, so that only what was rewritten ever gets there. params: n@0, pointer@8; the new form: n@0, list@4. */
static int serve_old_fb_info(struct request *request)
{
        enum { NUMBER_AT = 8, SIZE_AT = 24, LIST_AT = 4, THEIR_LIST_AT = 8 };
        uint32_t size = request->params_size, room = request->gate->options.layout.fb_info_size;
        uint32_t n = rm_get32(request->params, size, 0), old = request->call.class_or_cmd, used = LIST_AT + n * 8;
        uint64_t theirs = rm_get64(request->params, size, THEIR_LIST_AT);
        int device = object_device(request->gate, request->call.client, request->call.object), r;
        uint8_t was[16];

        if (device < 0 || size != sizeof(was) || !n || n > (room - LIST_AT) / 8)
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        memcpy(was, request->params, sizeof(was));
        memset(request->params, 0, room);
        rm_put32(request->params, room, 0, n);
        r = tenant_read(request, request->params + LIST_AT, theirs, n * 8);
        if (r < 0)
                return r;
        request->params_size = request->call.params_size = room;
        request->call.class_or_cmd = RM_FB_GET_INFO_V2;
        rm_put32(request->block, request->call.block_size, NUMBER_AT, RM_FB_GET_INFO_V2);
        rm_put32(request->block, request->call.block_size, SIZE_AT, room);
        r = perform(request);
        if (request_is_done(request, r)) {
                if (!request->gate->options.keep_totals)
                        rewrite_control(request);
                memcpy(request->worker->nested, request->params + LIST_AT, used - LIST_AT);
                reply_besides(request, theirs, request->worker->nested, used - LIST_AT);
        }
        memcpy(request->params, was, sizeof(was));
        request->params_size = request->call.params_size = size;
        request->call.class_or_cmd = old;
        rm_put32(request->block, request->call.block_size, NUMBER_AT, old);
        rm_put32(request->block, request->call.block_size, SIZE_AT, size);
        return reply(request, r);
}

int serve_view(struct request *request)
{
        int r;

        if (request->call.kind == RM_CONTROL && request->call.class_or_cmd == OLD_FB_GET_INFO)
                return serve_old_fb_info(request);
        r = perform(request);
        bool is_known;

        if (r < 0)
                return r;
        if (request->gate->options.keep_totals || request_status(request) != RM_STATUS_OK)
                return reply(request, r);
        is_known = request->call.kind == RM_CONTROL ? rewrite_control(request) : rewrite_block(request);
        return is_known ? reply(request, r) : answer(request, RM_STATUS_OBJECT_NOT_FOUND);
}
