/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a descriptor keeps: CUDA's shareable handles. An export is charged to the exporting tenant until the
 * descriptor's last close; an import within the tenant is a dup. From a descriptor of a tenant of the same job it is
 * borrowed (job/loans.c). Another tenant's is refused unless the gate takes imports.
 *
 * Controls 0x3d05/0x3d06 carry one object, 0x3d0b/0x3d0c several (docs/rm-abi.md 1.5).
 */
#include "gate/act.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>

enum {
        EXPORT_ONE = 0x3d05,
        IMPORT_ONE = 0x3d06,
        EXPORT_MANY = 0x3d0b,
        OBJECTS_MAX = 512,
};

/* Where the objects stand in the parameters of each form. */
struct form {
        uint32_t count_at; /* UINT32_MAX: one */
        uint32_t index_at; /* u16: which of the descriptor's the first one is */
        uint32_t objects_at, objects_max, parent_at;
};

static struct form form_of(uint32_t cmd)
{
        switch (cmd) {
        case EXPORT_ONE:
                return (struct form){ UINT32_MAX, UINT32_MAX, 12, 1, UINT32_MAX };
        case IMPORT_ONE:
                return (struct form){ UINT32_MAX, UINT32_MAX, 16, 1, 12 };
        case EXPORT_MANY:
                return (struct form){ 2124, 2126, 76, OBJECTS_MAX, UINT32_MAX };
        default: /* 0x3d0c */
                return (struct form){ 648, 650, 8, 128, 4 };
        }
}

static uint32_t params_field(const struct request *request, uint32_t at)
{
        return rm_get32(request->params, request->params_size, at);
}

static uint32_t object_count(const struct request *request, const struct form *form)
{
        return form->count_at == UINT32_MAX ? 1 : params_field(request, form->count_at) & 0xffffu;
}

static uint32_t first_index(const struct request *request, const struct form *form)
{
        return form->index_at == UINT32_MAX ? 0 : params_field(request, form->index_at - 2) >> 16;
}

/* The descriptor that the parameters name. It is looked up once: the driver is given the very file that the ledger
 * knows, whatever the tenant puts under the number meanwhile. fd: -errno if it is none of the control node's. */
static struct tenant_fd named_get(struct request *request)
{
        const struct gate_driver *driver = &request->gate->options.driver;
        struct tenant_fd ours = tenant_fd_get(request, (int)params_field(request, gate_params_fd(&request->call)));
        uint32_t minor;

        if (ours.fd >= 0 && driver->node(driver->context, ours.fd, &minor) != RM_NODE_CTL) {
                tenant_fd_put(&ours);
                ours.fd = -EINVAL;
        }
        return ours;
}

/* Room in the ledger for every object, before the driver is asked (L4). */
static int entries_take(struct gate *gate, struct ledger_entry *entries[static OBJECTS_MAX], uint32_t n)
{
        LOCKED(&gate->ledger_lock);

        for (uint32_t i = 0; i < n; i++)
                if (ledger_entry_new(gate->ledger, &entries[i]) < 0) {
                        while (i--)
                                (void)ledger_entry_free(gate->ledger, entries[i]);
                        return -ENOMEM;
                }
        return 0;
}

static void entries_drop(struct gate *gate, struct ledger_entry *entries[static OBJECTS_MAX], uint32_t n)
{
        LOCKED(&gate->ledger_lock);

        for (uint32_t i = 0; i < n; i++)
                (void)ledger_entry_free(gate->ledger, entries[i]);
}

static struct ledger_object imported(const struct request *request, const struct form *form, uint32_t i)
{
        return (struct ledger_object){ request->call.client, params_field(request, form->parent_at),
                                       params_field(request, form->objects_at + 4 * i), RM_CLASS_VIDEO_MEMORY, -1 };
}

static int commit_exports(struct request *request, const struct form *form, struct ledger_entry **entries, uint32_t n,
                          uint64_t file)
{
        struct gate *gate = request->gate;
        LOCKED(&gate->ledger_lock);

        for (uint32_t i = 0; i < n; i++)
                (void)ledger_export(gate->ledger, entries[i], file, first_index(request, form) + i,
                                    request->call.client, params_field(request, form->objects_at + 4 * i));
        return 0;
}

static int commit_imports(struct request *request, const struct form *form, struct ledger_entry **entries, uint32_t n,
                          uint64_t file)
{
        struct gate *gate = request->gate;
        LOCKED(&gate->ledger_lock);

        for (uint32_t i = 0; i < n; i++) {
                struct ledger_object to = imported(request, form, i);

                (void)ledger_import(gate->ledger, entries[i], &to, file, first_index(request, form) + i);
        }
        return 0;
}

/* Object i did not fit: what came with it goes back to the driver, and its charges with it. */
static void undo_imports(struct request *request, const struct form *form, struct ledger_entry **entries, uint32_t n,
                         uint32_t i)
{
        struct gate *gate = request->gate;

        for (uint32_t k = 0; k < n; k++) {
                struct ledger_object to = imported(request, form, k);

                if (k != i)
                        perform_free(request, to.client, to.handle);
                if (k >= i)
                        continue;
                LOCKED(&gate->ledger_lock);
                ledger_free(gate->ledger, to.client, to.handle);
        }
        entries_drop(gate, entries + i, n - i);
}

/* From a descriptor that another tenant exported to: all of it is charged, or none is imported. */
static int commit_foreign(struct request *request, const struct form *form, struct ledger_entry **entries, uint32_t n,
                          uint64_t file)
{
        struct gate *gate = request->gate;

        (void)file;
        for (uint32_t i = 0; i < n; i++) {
                struct ledger_object to = imported(request, form, i);
                struct charge charge = { 0 };

                if (charge_foreign(request, &to, &charge) != RM_STATUS_OK) {
                        undo_imports(request, form, entries, n, i);
                        return -ENOMEM;
                }
                LOCKED(&gate->ledger_lock);
                ledger_put(gate->ledger, entries[i], &to, TAKE(charge));
        }
        return 0;
}

/* ---- from a descriptor that a tenant of the same job exported to ---------------------------------------------- */

static void give_back(struct gate *gate, const struct gate_loan *loans, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                gate->options.give_back(gate->options.node_context, loans[i].number);
}

/* All that the call imports, or nothing. */
static bool borrow(struct request *request, const struct form *form, uint32_t n, struct gate_loan *ret)
{
        struct gate *gate = request->gate;
        struct gate_loan_ask ask = { .file = request->named->fd, .holder = request->fd };

        for (uint32_t i = 0; i < n; i++) {
                ask.index = first_index(request, form) + i;
                if (gate->options.borrow(gate->options.node_context, &ask, &ret[i]) < 0) {
                        give_back(gate, ret, i);
                        return false;
                }
        }
        return n;
}

static bool commit_borrowed(struct request *request, const struct form *form, struct ledger_entry **entries, uint32_t n,
                            const struct gate_loan *loans)
{
        struct gate *gate = request->gate;
        bool is_good = true;

        for (uint32_t i = 0; i < n && is_good; i++) {
                struct ledger_object to = imported(request, form, i);

                is_good = loan_is_good(request, &loans[i], &to);
        }
        for (uint32_t i = 0; i < n; i++) {
                struct ledger_object to = imported(request, form, i);

                if (!is_good) {
                        perform_free(request, to.client, to.handle);
                        continue;
                }
                LOCKED(&gate->ledger_lock);
                loan_put(gate->ledger, entries[i], &to, loans[i]);
        }
        if (!is_good)
                entries_drop(gate, entries, n);
        return is_good;
}

static int exchange_borrowed(struct request *request, const struct form *form, uint32_t n,
                             const struct gate_loan *loans)
{
        struct gate *gate = request->gate;
        struct ledger_entry *entries[OBJECTS_MAX];
        int r;

        if (entries_take(gate, entries, n) < 0) {
                give_back(gate, loans, n);
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
        request_lock(request, request->call.client, request->call.client);
        r = perform(request);
        if (!request_is_done(request, r))
                entries_drop(gate, entries, n);
        else if (commit_borrowed(request, form, entries, n, loans))
                return reply(request, r);
        give_back(gate, loans, n);
        return request_is_done(request, r) ? answer(request, RM_STATUS_INSUFFICIENT_PERMISSIONS) : reply(request, r);
}

/* False: nobody of the job exported it. */
static bool serve_borrow(struct request *request, int *ret)
{
        struct form form = form_of(request->call.class_or_cmd);
        struct gate_loan loans[OBJECTS_MAX];
        uint32_t n = object_count(request, &form);

        if (!request->gate->options.borrow || n > form.objects_max || !borrow(request, &form, n, loans))
                return false;
        *ret = exchange_borrowed(request, &form, n, loans);
        return true;
}

static int exchange(struct request *request, uint64_t file,
                    int (*commit)(struct request *request, const struct form *form, struct ledger_entry **entries,
                                  uint32_t n, uint64_t file))
{
        struct gate *gate = request->gate;
        uint32_t client = request->call.client;
        struct form form = form_of(request->call.class_or_cmd);
        struct ledger_entry *entries[OBJECTS_MAX];
        uint32_t n = object_count(request, &form);
        int r;

        if (n > form.objects_max) {
                gate_tell(gate, EVENT_DENIED, request->process->id, "%u objects in one call, %u at most", n,
                          form.objects_max);
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        }
        if (entries_take(gate, entries, n) < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        request_lock(request, client, file ? file : client);
        r = perform(request);
        if (!request_is_done(request, r))
                entries_drop(gate, entries, n);
        else if (commit(request, &form, entries, n, file) < 0)
                return answer(request, RM_STATUS_NO_MEMORY);
        return reply(request, r);
}

int serve_export(struct request *request)
{
        _cleanup_(tenant_fd_put) struct tenant_fd named = named_get(request);
        uint64_t file;

        if (named.fd < 0)
                return named.fd;
        request->named = &named;
        file = open_files_keep(&request->gate->exports, named.fd);
        if (!file) {
                gate_tell(request->gate, EVENT_GATE_FULL, request->process->id, "no descriptor for one more export");
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
        {
                LOCKED(&request->gate->ledger_lock);
                ledger_stamp_exports(request->gate->ledger, file);
        }
        return exchange(request, file, commit_exports);
}

/* Whether all that the call imports was exported by the tenant: a descriptor may have been to others meanwhile. */
static bool has_exports(struct request *request, uint64_t file)
{
        struct form form = form_of(request->call.class_or_cmd);
        uint32_t n = object_count(request, &form), i = 0;
        LOCKED(&request->gate->ledger_lock);

        while (i < n && n <= form.objects_max &&
               ledger_has_export(request->gate->ledger, file, first_index(request, &form) + i))
                i++;
        return i == n || n > form.objects_max;
}

int serve_import(struct request *request)
{
        _cleanup_(tenant_fd_put) struct tenant_fd named = named_get(request);
        uint64_t file;
        int r;

        if (named.fd < 0)
                return named.fd;
        request->named = &named;
        file = open_files_find(&request->gate->exports, named.fd);
        if (!file && serve_borrow(request, &r))
                return r;
        if (!file && request->gate->options.imports)
                return exchange(request, 0, commit_foreign);
        if (!file) {
                gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id,
                          "import from a descriptor that no process of the tenant exported to");
                return answer(request, RM_STATUS_INSUFFICIENT_PERMISSIONS);
        }
        if (!has_exports(request, file)) {
                gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id,
                          "import of what somebody else exported to a descriptor of the tenant's");
                return answer(request, RM_STATUS_INSUFFICIENT_PERMISSIONS);
        }
        return exchange(request, file, commit_imports);
}
