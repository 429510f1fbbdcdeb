/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "books.h"

#include "base/cleanup.h"
#include "lease/sound.h"
#include "rm/numbers.h"

#include <stdlib.h>
#include <sys/mman.h>

void books_init(struct books *books)
{
        memset(books, 0, sizeof(*books));
        assert_int_equal(rm_layout_for((struct rm_version){ 580, 159, 4 }, &books->layout), RM_OK);
        assert_int_equal(ledger_new(&books->ledger), 0);
        books->lease.n_devices = BOOKS_DEVICES;
        for (unsigned int i = 0; i < BOOKS_DEVICES; i++) {
                books->lease.devices[i].is_granted = true;
                books->lease.devices[i].quota.size = 1024 * GIB;
                books->lease.devices[i].fabric.size = 1024 * GIB;
        }
        books->lease.host.size = 1024 * GIB;
}

void books_done(struct books *books)
{
        books->ledger = ledger_unref(books->ledger);
}

bytes books_held(const struct books *books)
{
        bytes sum = 0;

        for (unsigned int i = 0; i < BOOKS_DEVICES; i++)
                sum += books->lease.devices[i].quota.used;
        return sum;
}

static struct ledger_entry *room(struct books *books)
{
        struct ledger_entry *entry;

        assert_int_equal(ledger_entry_new(books->ledger, &entry), 0);
        return entry;
}

/* One recorded call, as the handlers of src/gate see it. */
struct served {
        struct books *books;
        unsigned int process;
        const struct trace_event *event;
        uint64_t file;
        books_file_at file_at;
        void *context;
        const struct rm_call *call;
        const struct gate_verdict *verdict;
};

static uint32_t out32(const struct served *s, size_t at)
{
        return rm_get32(s->event->out.data, s->event->out.size, at);
}

static void put_client(const struct served *s, struct told *told)
{
        told->is_client = true;
        told->client = out32(s, s->call->object_at);
        ledger_client_put(s->books->ledger, room(s->books), told->client, s->process);
}

/* The devices are numbered as the driver does: deviceId, the first parameter. */
static int device_named(const struct served *s)
{
        uint32_t instance = rm_get32(s->event->pin.data, s->event->pin.size, 0);

        if (s->call->class_or_cmd != RM_CLASS_DEVICE)
                return -1;
        assert_true(instance < BOOKS_DEVICES);
        return (int)instance;
}

static void put_object(const struct served *s, struct charge charge)
{
        const struct rm_call *call = s->call;
        struct ledger_object object = { call->client, call->parent, out32(s, call->object_at), call->class_or_cmd,
                                        device_named(s) };

        ledger_put(s->books->ledger, room(s->books), &object, charge);
}

/* G2: what was reserved before the call holds what the driver then gave. */
static void put_memory(const struct served *s)
{
        const struct rm_call *call = s->call;
        bool is_video = s->verdict->action == GATE_CHARGE, is_block = call->kind == RM_VID_HEAP;
        struct charge charge = { 0 };
        struct ledger_object parent;
        struct quota *quota;

        assert_int_equal(ledger_get(s->books->ledger, call->client, call->parent, &parent), LEDGER_OK);
        assert_in_range(parent.device, 0, BOOKS_DEVICES - 1);
        quota = is_video ? &s->books->lease.devices[parent.device].quota : &s->books->lease.host;
        assert_int_equal(quota_take(quota, s->verdict->size, &charge), QUOTA_OK);
        if (is_video) {
                struct trace_bytes reply = is_block ? s->event->out : s->event->pout;
                bytes got = rm_get64(reply.data, reply.size, is_block ? 88 : 64);

                assert_true(got > 0 && got <= charge.size);
                if (!is_block) {
                        assert_true(gate_memory_size(reply.data, reply.size) <= charge.size);
                        assert_int_equal(rm_get64(reply.data, reply.size, 88), got - 1);
                }
                s->books->n_charges++;
        }
        put_object(s, TAKE(charge));
}

/* Made over memory, or of the flexible kind. */
static void put_fabric(const struct served *s)
{
        uint32_t memory = rm_get32(s->event->pin.data, s->event->pin.size, GATE_FABRIC_MEMORY_AT);
        struct ledger_object object = { s->call->client, s->call->parent, out32(s, s->call->object_at),
                                        s->call->class_or_cmd, -1 };
        struct charge charge = { 0 };
        struct ledger_object parent;

        assert_int_equal(ledger_get(s->books->ledger, s->call->client, s->call->parent, &parent), LEDGER_OK);
        assert_in_range(parent.device, 0, BOOKS_DEVICES - 1);
        assert_int_equal(quota_take(&s->books->lease.devices[parent.device].fabric, s->verdict->size, &charge),
                         QUOTA_OK);
        if (memory)
                assert_int_equal(ledger_put_over(s->books->ledger, room(s->books), &object, TAKE(charge),
                                                 s->call->client, memory),
                                 LEDGER_OK);
        else
                ledger_put(s->books->ledger, room(s->books), &object, TAKE(charge));
}

/* Pages of the caller's own (class 0x71), pinned by a call that the gate lets go on: no video memory. */
static bool is_continued(const struct books *books, uint32_t handle)
{
        for (size_t i = 0; i < books->n_continued; i++)
                if (books->continued[i] == handle)
                        return true;
        return false;
}

static void dup_object(const struct served *s)
{
        const struct rm_call *call = s->call;
        struct ledger_object to = { call->client, call->parent, out32(s, call->object_at), 0, -1 };

        if (is_continued(s->books, call->source_object))
                ledger_put(s->books->ledger, room(s->books), &to, (struct charge){ 0 });
        else
                assert_int_equal(
                        ledger_dup(s->books->ledger, room(s->books), &to, call->source_client, call->source_object),
                        LEDGER_OK);
}

static uint64_t file_named(const struct served *s)
{
        return s->file_at(s->context, (int)rm_get32(s->event->pin.data, s->event->pin.size, gate_params_fd(s->call)));
}

static void export_objects(const struct served *s)
{
        struct trace_bytes p = s->event->pin;
        bool is_one = s->call->class_or_cmd == 0x3d05;
        uint32_t n = is_one ? 1 : rm_get32(p.data, p.size, 2124);

        assert_true(is_one || s->call->class_or_cmd == 0x3d0b);
        for (uint32_t i = 0; i < (n & 0xffff); i++) {
                uint32_t handle = rm_get32(p.data, p.size, is_one ? 12 : 76 + 4 * i);
                int r = ledger_export(s->books->ledger, room(s->books), file_named(s), (n >> 16) + i, s->call->client,
                                      handle);

                assert_true(r == LEDGER_OK || !handle); /* 0: nothing is exported at that index */
        }
}

static void import_objects(const struct served *s)
{
        struct trace_bytes p = s->event->pout;
        uint32_t n = rm_get32(p.data, p.size, 648);

        assert_int_equal(s->call->class_or_cmd, 0x3d0c);
        for (uint32_t i = 0; i < (n & 0xffff); i++) {
                struct ledger_object to = { s->call->client, rm_get32(p.data, p.size, 4),
                                            rm_get32(p.data, p.size, 8 + 4 * i), RM_CLASS_VIDEO_MEMORY, -1 };

                assert_int_equal(ledger_import(s->books->ledger, room(s->books), &to, file_named(s), (n >> 16) + i),
                                 LEDGER_OK);
        }
}

static void let_go_on(const struct served *s)
{
        assert_int_equal(s->call->class_or_cmd, RM_CLASS_OS_DESCRIPTOR);
        assert_true(s->books->n_continued < ARRAY_SIZE(s->books->continued));
        s->books->continued[s->books->n_continued++] = out32(s, s->call->object_at);
}

static void hold(const struct served *s)
{
        uint64_t device = rm_get64(s->event->in.data, s->event->in.size, 24);

        int r = ledger_map(s->books->ledger, room(s->books), s->file, s->call->base, s->call->length, device,
                           s->call->source_client, s->call->source_object);

        if (r != LEDGER_OK && !is_continued(s->books, s->call->source_object))
                fail_msg("object 0x%x is mapped and is not in the books", s->call->source_object);
}

static void release(const struct served *s)
{
        struct ledger *ledger = s->books->ledger;

        if (s->call->kind == RM_UVM_FREE) {
                ledger_unmap(ledger, s->file, s->call->base, s->call->length, 0);
                ledger_range_gone(ledger, s->file, s->call->base);
        } else {
                ledger_unmap(ledger, s->file, s->call->base, s->call->length,
                             rm_get64(s->event->in.data, s->event->in.size, 16));
        }
}

/* The driver has said yes. What the gate would not have asked it is the caller's question. */
static void keep(const struct served *s, struct told *told)
{
        switch (s->verdict->action) {
        case GATE_CONTINUE:
                let_go_on(s);
                break;
        case GATE_CLIENT:
                put_client(s, told);
                break;
        case GATE_OBJECT:
        case GATE_HOLLOW: /* recorded as root, whom the driver gives the whole */
                put_object(s, (struct charge){ 0 });
                break;
        case GATE_CHARGE:
        case GATE_HOST:
                put_memory(s);
                break;
        case GATE_FABRIC:
                put_fabric(s);
                break;
        case GATE_FREE:
                ledger_free(s->books->ledger, s->call->client, s->call->object);
                break;
        case GATE_DUP:
                dup_object(s);
                break;
        case GATE_EXPORT:
                export_objects(s);
                break;
        case GATE_IMPORT:
                import_objects(s);
                break;
        case GATE_HOLD:
                hold(s);
                break;
        case GATE_RELEASE:
                release(s);
                break;
        case GATE_RANGE:
        case GATE_POOL:
                ledger_range_put(s->books->ledger, room(s->books), s->file, s->call->base, s->call->length,
                                 s->verdict->action == GATE_POOL, (struct charge){ 0 });
                break;
        default:
                break;
        }
}

/* The parameters that the gate would copy are in the trace. The recorder does not know the size of every
 * class, and libcuda does not tell it (README.md): those are left out, and decide nothing. */
static bool params_of(const struct books *books, const struct rm_call *call, const struct trace_event *event)
{
        bool is_memory = call->class_or_cmd == RM_CLASS_VIDEO_MEMORY || call->class_or_cmd == RM_CLASS_HOST_MEMORY;

        if (call->kind == RM_XFER)
                return true; /* another block */
        if (call->kind == RM_ALLOC && !is_memory && !event->pin.data)
                return true;
        return rm_params_size(&books->layout, call) == event->pin.size;
}

struct told books_ioctl(struct books *books, unsigned int process, const struct trace_event *event, uint64_t file,
                        enum rm_node node, books_file_at file_at, void *context)
{
        struct told told = { .is_found = false };
        struct served served = { books, process, event, file, file_at, context, &told.call, &told.verdict };
        enum rm_kind kind;
        uint32_t size;

        if (rm_request_find(&books->layout, node, event->request, &kind, &size) != RM_OK)
                return told;
        books->n_calls++;
        told.is_found = true;
        assert_int_equal(event->in.size, size);
        assert_int_equal(rm_decode(&books->layout, kind, event->request, event->in.data, size, &told.call), RM_OK);
        told.is_recorded = params_of(books, &told.call, event);
        if (!told.is_recorded)
                return told;
        gate_decide(&books->layout, &told.call, event->in.data, event->pin.data, event->pin.size, &told.verdict);
        if (told.call.status_at != UINT32_MAX)
                told.status = rm_get32(event->out.data, event->out.size, told.call.status_at);
        if (event->rc >= 0 && told.status == RM_STATUS_OK)
                keep(&served, &told);
        for (unsigned int i = 0; i < BOOKS_DEVICES; i++) {
                const struct lease_device *device = &books->lease.devices[i];

                assert_true(ledger_held(books->ledger, &device->quota) == device->quota.used);
                assert_true(ledger_held(books->ledger, &device->fabric) == device->fabric.used);
        }
        if (books_held(books) > books->peak)
                books->peak = books_held(books);
        return told;
}

void books_mmap(struct books *books, unsigned int process, const struct trace_event *event, uint64_t file)
{
        bytes length = (event->length + 4095) & ~(uint64_t)4095;
        struct charge charge = { 0 };

        if (event->ret < 0 || !(event->flags & MAP_SHARED) || event->offset == 0 ||
            ledger_has_pool(books->ledger, file, event->address, length))
                return;
        assert_int_equal(event->offset, event->address); /* else UVM refuses it */
        assert_int_equal(quota_take(&books->lease.devices[0].quota, length, &charge), QUOTA_OK);
        ledger_managed_put(books->ledger, room(books), file, process, event->address, length, 0, TAKE(charge));
        if (books_held(books) > books->peak)
                books->peak = books_held(books);
}

void books_munmap(struct books *books, unsigned int process, const struct trace_event *event)
{
        ledger_managed_gone(books->ledger, process, event->address);
}

void books_close(struct books *books, uint64_t file)
{
        ledger_space_gone(books->ledger, file);
        ledger_export_gone(books->ledger, file);
}

void books_end(struct books *books, unsigned int process)
{
        ledger_owner_managed_gone(books->ledger, process);
}
