/* Clients, objects and second handles: the tree of the ledger follows the driver's. */
#include "gate/request.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>

static struct lock *client_lock_of(struct gate *gate, uint64_t key)
{
        return &gate->client_locks[(key * 0x9e3779b97f4a7c15u >> 40) % GATE_CLIENT_LOCKS];
}

struct client_lock_pair client_locks_take(struct gate *gate, uint64_t key1, uint64_t key2)
{
        struct lock *a = client_lock_of(gate, key1), *b = client_lock_of(gate, key2);
        struct client_lock_pair locks = { a < b ? a : b, a == b ? NULL : a < b ? b : a };

        lock_take(locks.first);
        if (locks.second)
                lock_take_second(locks.second);
        return locks;
}

void client_locks_drop(struct client_lock_pair *locks)
{
        if (locks->second)
                lock_drop(locks->second);
        if (locks->first)
                lock_drop(locks->first);
        *locks = (struct client_lock_pair){ 0 };
}

static uint32_t new_handle(const struct request *request)
{
        return rm_get32(request->block, request->call.block_size, request->call.object_at);
}

/* A client. The driver would let its creator pick the handle; ours it picks itself. */
int serve_client(struct request *request)
{
        struct gate *gate = request->gate;
        struct ledger_entry *entry;
        int r;

        {
                LOCKED(&gate->ledger_lock);
                r = ledger_entry_new(gate->ledger, &entry);
        }
        if (r < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        rm_put32(request->block, request->call.block_size, 0, 0);
        r = perform(request);
        {
                LOCKED(&gate->ledger_lock);
                if (r >= 0 && request_status(request) == RM_STATUS_OK)
                        ledger_client_put(gate->ledger, entry, new_handle(request), (uint32_t)request->process->id);
                else
                        ledger_entry_free(gate->ledger, entry);
        }
        channel_control_gone(gate, RM_CLASS_CLIENT, 0, 0); /* of a client of that handle that was there */
        return r < 0 ? r : reply(request, r);
}

/* Which card of the lease a device object is; -1: none that was granted. */
static int device_of(const struct request *request)
{
        uint32_t instance = rm_get32(request->params, request->params_size, 0);
        const struct lease *lease = request->gate->lease;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].instance == instance && lease->devices[i].is_granted)
                        return (int)i;
        return -1;
}

/* Channels and groups are finite and shared by all; a hidden group of a channel of its own would
 * escape the scheduler. The answer, or RM_STATUS_OK. */
static uint32_t check_channel(const struct request *request)
{
        const struct rm_call *call = &request->call;
        struct ledger *ledger = request->gate->ledger;
        struct ledger_object parent;

        if (!RM_CLASS_IS_CHANNEL(call->class_or_cmd))
                return RM_STATUS_OK;
        if (ledger_get(ledger, call->client, call->parent, &parent) != LEDGER_OK ||
            parent.class_number != RM_CLASS_GROUP)
                return RM_STATUS_INVALID_ARGUMENT;
        return RM_STATUS_OK;
}

static uint32_t check_instance(const struct request *request)
{
        const struct rm_call *call = &request->call;
        struct ledger_object parent = { .device = -1 };

        (void)ledger_get(request->gate->ledger, call->client, call->parent, &parent);
        return gate_check_instance(request->gate->lease, call->class_or_cmd, request->params, request->params_size,
                                   &parent);
}

int serve_object(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object = { call->client, call->parent, 0, call->class_or_cmd, -1 };
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        struct ledger_entry *entry = NULL;
        uint32_t refused = RM_STATUS_OK, not_its_own = RM_STATUS_OK;
        bool is_made;
        int r;

        if (call->class_or_cmd == RM_CLASS_DEVICE) {
                object.device = device_of(request);
                if (object.device < 0)
                        return answer(request, RM_STATUS_INSUFFICIENT_PERMISSIONS);
        }
        locks = client_locks_take(gate, call->client, call->client);
        {
                LOCKED(&gate->ledger_lock);
                refused = check_channel(request);
                if (refused == RM_STATUS_OK)
                        refused = not_its_own = check_instance(request);
                if (refused == RM_STATUS_OK && ledger_entry_new(gate->ledger, &entry) < 0)
                        refused = RM_STATUS_INSUFFICIENT_RESOURCES;
        }
        if (refused == RM_STATUS_OK && (refused = channel_control_reserve(request)) != RM_STATUS_OK) {
                LOCKED(&gate->ledger_lock);
                ledger_entry_free(gate->ledger, entry);
        }
        if (not_its_own != RM_STATUS_OK)
                gate_tell(gate, EVENT_FOREIGN_OBJECT, request->process->id, "a MIG instance that is not the lease's");
        if (refused != RM_STATUS_OK)
                return answer(request, refused);
        r = perform(request);
        is_made = r >= 0 && request_status(request) == RM_STATUS_OK;
        {
                LOCKED(&gate->ledger_lock);
                if (is_made) {
                        object.handle = new_handle(request);
                        ledger_put(gate->ledger, entry, &object, (struct charge){ 0 });
                } else {
                        ledger_entry_free(gate->ledger, entry);
                }
        }
        channel_control_begun(request, is_made ? &object : NULL);
        client_locks_drop(&locks);
        if (is_made)
                channel_control_placed(request, &object);
        return r < 0 ? r : reply(request, r);
}

int serve_free(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        struct ledger_object object = { .class_number = RM_CLASS_CLIENT };
        int r;

        {
                LOCKED(&gate->ledger_lock);
                (void)ledger_get(gate->ledger, call->client, call->object, &object);
        }
        if (object.class_number == RM_CLASS_DEVICE || object.class_number == RM_CLASS_CLIENT)
                reader_release(request->worker); /* with all its channels, perhaps */
        locks = client_locks_take(gate, call->client, call->client);
        r = perform(request);
        if (r >= 0 && request_status(request) == RM_STATUS_OK) {
                {
                        LOCKED(&gate->ledger_lock);
                        ledger_free(gate->ledger, call->client, call->object);
                }
                channel_control_gone(gate, object.class_number, call->client, call->object);
        }
        return r < 0 ? r : reply(request, r);
}

/*
 * A second handle. The driver (580 to 595) returns with its locks held when the parent does not
 * exist: only live parents get there. The source must be the tenant's; with ipc_host another
 * tenant's memory may be named, and is charged here too, at the size the driver then tells.
 * Source of the defect: rs_server.c serverCopyResource, 580.142, 590.48.01, 595.45.04; read, not run.
 */
static uint32_t check_dup(struct request *request, bool is_lent, bool *ret_is_foreign)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object;

        *ret_is_foreign = !ledger_has_client(gate->ledger, call->source_client);
        if (call->parent != call->client && ledger_get(gate->ledger, call->client, call->parent, &object) != LEDGER_OK)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (*ret_is_foreign)
                return gate->options.ipc_host || is_lent ? RM_STATUS_OK : RM_STATUS_INSUFFICIENT_PERMISSIONS;
        if (call->source_object != call->source_client &&
            ledger_get(gate->ledger, call->source_client, call->source_object, &object) != LEDGER_OK)
                return RM_STATUS_OBJECT_NOT_FOUND;
        return RM_STATUS_OK;
}

/* Size of a memory object: control 0x410110 with one entry, index 7: size in 4 KiB units. */
static bytes ask_size(struct request *request, uint32_t client, uint32_t handle)
{
        const struct gate_driver *driver = &request->gate->options.driver;
        uint8_t block[32] = { 0 }, params[16] = { 0 }, entry[8] = { 0 };

        rm_put32(entry, sizeof(entry), 0, 7);
        rm_put32(params, sizeof(params), 0, 1);
        rm_put64(params, sizeof(params), 8, (uintptr_t)entry);
        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), 4, handle);
        rm_put32(block, sizeof(block), 8, 0x410110);
        rm_put64(block, sizeof(block), 16, (uintptr_t)params);
        rm_put32(block, sizeof(block), 24, sizeof(params));
        if (driver->ioctl(driver->context, request->fd, 3u << 30 | 32u << 16 | 'F' << 8 | RM_NR_CONTROL, block) < 0 ||
            rm_get32(block, sizeof(block), 28) != RM_STATUS_OK)
                return 0;
        return (bytes)rm_get32(entry, sizeof(entry), 4) * 4 * KIB;
}

uint32_t charge_foreign(struct request *request, struct ledger_object *object, struct charge *ret)
{
        struct gate *gate = request->gate;
        struct ledger_object parent;
        int device = -1;

        {
                LOCKED(&gate->ledger_lock);
                if (ledger_get(gate->ledger, object->client, object->parent, &parent) == LEDGER_OK)
                        device = parent.device;
        }
        object->class_number = RM_CLASS_VIDEO_MEMORY;
        if (device < 0 || take_memory(request, device, ask_size(request, object->client, object->handle), false, ret) !=
                                  QUOTA_OK) { /* the order is held: nobody waits */
                (void)perform_free(request, object->client, object->handle);
                return RM_STATUS_NO_MEMORY;
        }
        return RM_STATUS_OK;
}

/*
 * What an MPS server lends. Its clients make their channels in its group, of which they dup a handle, and talk to it
 * through two pieces of its memory, 2 MiB each: that and nothing else is let through. Memory is charged as it is
 * with ipc_host; a group holds none. Measured: H200, 580.159.04, what libcuda and nvidia-cuda-mps-server say.
 */
static bool is_lent(struct request *request)
{
        struct gate *gate = request->gate;
        bool is_ours;

        if (!gate->options.lends)
                return false;
        {
                LOCKED(&gate->ledger_lock);
                is_ours = ledger_has_client(gate->ledger, request->call.source_client);
        }
        return !is_ours && gate->options.lends(gate->options.node_context, request->call.source_client);
}

/* Only a group has a number (4 bytes). */
static bool is_group(struct request *request, const struct ledger_object *object)
{
        const struct gate_driver *driver = &request->gate->options.driver;
        uint8_t block[32] = { 0 }, number[4] = { 0 };

        rm_put32(block, sizeof(block), 0, object->client);
        rm_put32(block, sizeof(block), 4, object->handle);
        rm_put32(block, sizeof(block), 8, 0xa06c0106);
        rm_put64(block, sizeof(block), 16, (uintptr_t)number);
        rm_put32(block, sizeof(block), 24, sizeof(number));
        return driver->ioctl(driver->context, request->fd, 3u << 30 | 32u << 16 | 'F' << 8 | RM_NR_CONTROL, block) >=
                       0 &&
               rm_get32(block, sizeof(block), 28) == RM_STATUS_OK;
}

static uint32_t take_lent(struct request *request, struct ledger_object *object, struct charge *ret)
{
        enum { MAILBOX = 2 * MIB };
        bytes size = ask_size(request, object->client, object->handle);

        if (size && size <= MAILBOX)
                return charge_foreign(request, object, ret);
        if (!size && is_group(request, object)) {
                object->class_number = RM_CLASS_GROUP;
                return RM_STATUS_OK;
        }
        (void)perform_free(request, object->client, object->handle);
        gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id, "an object of the MPS server's, not lent");
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

int serve_dup(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        _cleanup_(charge_drop) struct charge charge = { 0 };
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        struct ledger_object to = { call->client, call->parent, 0, 0, -1 };
        bool is_from_server = is_lent(request), is_foreign;
        struct ledger_entry *entry = NULL;
        uint32_t refused;
        int r;

        locks = client_locks_take(gate, call->client, call->source_client);
        {
                LOCKED(&gate->ledger_lock);
                refused = check_dup(request, is_from_server, &is_foreign);
                if (refused == RM_STATUS_OK && ledger_entry_new(gate->ledger, &entry) < 0)
                        refused = RM_STATUS_INSUFFICIENT_RESOURCES;
        }
        if (refused == RM_STATUS_INSUFFICIENT_PERMISSIONS)
                gate_tell(gate, EVENT_FOREIGN_OBJECT, request->process->id, "dup of 0x%x in client 0x%x",
                          call->source_object, call->source_client);
        if (refused != RM_STATUS_OK)
                return answer(request, refused);
        r = perform(request);
        if (r >= 0 && request_status(request) == RM_STATUS_OK) {
                to.handle = new_handle(request);
                if (is_foreign)
                        refused = is_from_server ? take_lent(request, &to, &charge) :
                                                   charge_foreign(request, &to, &charge);
        } else {
                refused = RM_STATUS_INVALID_ARGUMENT;
        }
        {
                LOCKED(&gate->ledger_lock);
                if (refused != RM_STATUS_OK)
                        ledger_entry_free(gate->ledger, entry);
                else if (is_foreign)
                        ledger_put(gate->ledger, entry, &to, TAKE(charge));
                else
                        (void)ledger_dup(gate->ledger, entry, &to, call->source_client, call->source_object);
        }
        if (r >= 0 && request_status(request) == RM_STATUS_OK && refused != RM_STATUS_OK)
                return answer(request, refused);
        return r < 0 ? r : reply(request, r);
}
