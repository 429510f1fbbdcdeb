/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context-switch records: what the device reports of the contexts that it ran, in event buffers (docs/rm-abi.md 6).
 *
 * A buffer has two memories of its client, which the client maps read-only: a header with the
 * positions, and a ring of records of 32 bytes.
 *
 * The device keeps switches until the driver fetches them: every 33 ms (550 and later) or every second (before), or
 * on FLUSH. Records that the device had no room for leave a gap in the sequence numbers; releases before 535 number
 * only what they deliver, so there the gap does not show. Before 550 the position moves before the record is written.
 */
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        RECORD_SIZE = 32,
        HEADER_SIZE = 32,
        TYPE_V2 = 2,
        TYPE_V1 = 134,
        TAG_ON = 6,  /* a context was restored */
        TAG_OFF = 7, /* a context was saved */
        KEEP_NEWEST = 2,
        ENABLE = 0x90cd0101,
        UPDATE_GET = 0x90cd0102,
        FLUSH = 0x90cd0104,
        BRANCH_COUNTED = 535,
        BRANCH_ORDERED = 550,
};

#define DELIVERY (33 * NSEC_PER_MSEC)
#define DELIVERY_OLD NSEC_PER_SEC

/* A switch that the device has recorded. */
struct switches {
        struct switches *next;
        uint64_t n_dropped; /* before this one */
        nsec at;
        uint32_t context;
        pid_t pid;
        uid_t uid;
        bool is_on;
};

struct buffer {
        struct buffer *next; /* bound to the same device */
        struct gpu *gpu;     /* NULL: not bound */
        struct memory *header, *records;
        uint32_t n_records, get, put;
        uint64_t n_written, n_dropped;
        uint16_t sequence;
        uid_t uid;
        bool is_admin, is_v2, is_on, keeps_newest;
};

static struct memory *buffer_memory(struct client *client, uint32_t handle, bytes size)
{
        struct object *object = handles_get(client, handle);

        return object && object->memory && object->memory->size >= size ? object->memory : NULL;
}

/* recordSize@16 recordCount@20 hSubDevice@52 hBufferHeader@60 hRecordBuffer@64 */
uint32_t buffer_alloc(struct request *request, struct object *object, struct part *params)
{
        uint32_t size = rm_get32(params->data, params->size, 16);
        uint32_t n = rm_get32(params->data, params->size, 20);
        struct memory *header = buffer_memory(request->client, rm_get32(params->data, params->size, 60), HEADER_SIZE);
        struct memory *records =
                buffer_memory(request->client, rm_get32(params->data, params->size, 64), (bytes)n * RECORD_SIZE);

        if (size != RECORD_SIZE || n < 2 || !header || !records)
                return RM_STATUS_INVALID_ARGUMENT;
        object->buffer = calloc(1, sizeof(*object->buffer));
        if (!object->buffer)
                return RM_STATUS_NO_MEMORY;
        *object->buffer = (struct buffer){
                .header = mem_ref(header), .records = mem_ref(records), .n_records = n, .uid = request->sender.uid
        };
        return RM_STATUS_OK;
}

static void buffer_unbind(struct buffer *buffer)
{
        if (!buffer->gpu)
                return;
        LIST_REMOVE(&buffer->gpu->buffers, buffer);
        buffer->gpu = NULL;
}

void buffer_free(struct buffer *buffer)
{
        if (!buffer)
                return;
        buffer_unbind(buffer);
        mem_unref(buffer->header);
        mem_unref(buffer->records);
        free(buffer);
}

/* On a subdevice; hEventBuffer@0 recordSize@4 LOD@8 filter@12 bAllUsers@16, v2: reason@20. Root sees
 * the records of all users unredacted. */
static uint32_t buffer_bind(struct method_call *call, bool is_v2)
{
        struct object *subdevice = handles_get(call->request->client, call->request->call.object);
        struct object *object = handles_get(call->request->client, params_get(call, 0));
        struct buffer *buffer = object ? object->buffer : NULL;

        if (!buffer || !subdevice->gpu)
                return RM_STATUS_INVALID_ARGUMENT;
        buffer_unbind(buffer);
        buffer->gpu = subdevice->gpu;
        buffer->next = buffer->gpu->buffers;
        buffer->gpu->buffers = buffer;
        buffer->is_v2 = is_v2;
        buffer->is_admin = call->request->sender.uid == 0;
        if (is_v2)
                params_put(call, 20, 0);
        return RM_STATUS_OK;
}

uint32_t method_bind_records_v1(struct method_call *call)
{
        return buffer_bind(call, false);
}

uint32_t method_bind_records(struct method_call *call)
{
        return buffer_bind(call, true);
}

static void header_write(const struct buffer *buffer)
{
        unsigned char header[HEADER_SIZE] = { 0 };
        int fd = mem_fd(buffer->header);

        rm_put32(header, sizeof(header), 0, buffer->get);
        rm_put32(header, sizeof(header), 4, buffer->put);
        rm_put64(header, sizeof(header), 8, buffer->n_written);
        rm_put64(header, sizeof(header), 16, buffer->n_dropped);
        if (fd >= 0)
                (void)!pwrite(fd, header, sizeof(header), 0);
}

static void records_deliver(struct gpu *gpu);

uint32_t method_records(struct method_call *call)
{
        struct buffer *buffer = call->object->buffer;

        if (!buffer)
                return RM_STATUS_NOT_SUPPORTED;
        switch (call->request->call.class_or_cmd) {
        case ENABLE:
                if (buffer->gpu)
                        records_deliver(buffer->gpu); /* not for this one: it was not enabled */
                buffer->is_on = call->params->size && call->params->data[0];
                buffer->keeps_newest = params_get(call, 4) == KEEP_NEWEST;
                break;
        case UPDATE_GET:
                if (params_get(call, 0) >= buffer->n_records)
                        return RM_STATUS_INVALID_ARGUMENT;
                buffer->get = params_get(call, 0);
                buffer->n_dropped = 0;
                break;
        case FLUSH:
                if (buffer->gpu)
                        records_deliver(buffer->gpu);
                break;
        default:
                return RM_STATUS_NOT_SUPPORTED;
        }
        header_write(buffer);
        return RM_STATUS_OK;
}

static void record_write(struct buffer *buffer, const unsigned char *record)
{
        uint32_t at = buffer->put, next = (at + 1) % buffer->n_records;
        bool is_late = buffer->gpu->machine->layout.version.branch < BRANCH_ORDERED;
        int fd = mem_fd(buffer->records);

        if (fd < 0 || (next == buffer->get && !buffer->keeps_newest)) {
                buffer->n_dropped++;
                header_write(buffer);
                return;
        }
        buffer->put = next;
        buffer->n_written++;
        if (is_late)
                header_write(buffer);
        (void)!pwrite(fd, record, RECORD_SIZE, (off_t)at * RECORD_SIZE);
        if (!is_late)
                header_write(buffer);
}

static void record_make(struct buffer *buffer, const struct switches *what, unsigned char *record)
{
        bool is_visible = buffer->is_admin || buffer->uid == what->uid;

        if (buffer->gpu->machine->layout.version.branch >= BRANCH_COUNTED)
                buffer->sequence = (uint16_t)(buffer->sequence + what->n_dropped);
        memset(record, 0, RECORD_SIZE);
        rm_put32(record, RECORD_SIZE, 0, buffer->is_v2 ? TYPE_V2 : TYPE_V1);
        record[8] = what->is_on ? TAG_ON : TAG_OFF;
        record[10] = (unsigned char)buffer->sequence;
        record[11] = (unsigned char)(buffer->sequence >> 8);
        rm_put32(record, RECORD_SIZE, 12, what->context);
        rm_put32(record, RECORD_SIZE, 16, is_visible ? (uint32_t)what->pid : 0);
        rm_put64(record, RECORD_SIZE, 24, (uint64_t)(what->at + buffer->gpu->machine->realtime_since));
        buffer->sequence++;
}

static void records_deliver(struct gpu *gpu)
{
        unsigned char record[RECORD_SIZE];

        for (struct switches *what = gpu->switches, *next; what; what = next) {
                next = what->next;
                for (struct buffer *buffer = gpu->buffers; buffer; buffer = buffer->next) {
                        if (!buffer->is_on)
                                continue;
                        record_make(buffer, what, record);
                        record_write(buffer, record);
                }
                free(what);
        }
        gpu->switches = NULL;
        gpu->switches_end = NULL;
        gpu->n_switches = 0;
}

nsec records_advance(struct gpu *gpu)
{
        if (!gpu->switches)
                return RUN_NEVER;
        if (gpu->machine->now < gpu->deliver_at)
                return gpu->deliver_at;
        records_deliver(gpu);
        return RUN_NEVER;
}

void records_done(struct gpu *gpu)
{
        for (struct switches *what = gpu->switches, *next; what; what = next) {
                next = what->next;
                free(what);
        }
        gpu->switches = NULL;
}

/* The driver fetches at fixed times, independent of the first switch. */
static void expect_delivery(struct gpu *gpu)
{
        nsec every = gpu->machine->layout.version.branch < BRANCH_ORDERED ? DELIVERY_OLD : DELIVERY;

        gpu->deliver_at = (gpu->machine->now / every + 1) * every;
}

/* Copy engines have no records. */
void record_switch(struct gpu *gpu, const struct group *group, bool is_on, nsec at)
{
        uint64_t room = gpu->machine->faults.records_ring;
        struct switches *what;

        if (group->run.list != &gpu->engines[0] || !gpu->buffers)
                return;
        what = !room || gpu->n_switches < room ? malloc(sizeof(*what)) : NULL;
        if (!what) {
                gpu->n_switches_lost++;
                return;
        }
        *what = (struct switches){ .n_dropped = gpu->n_switches_lost,
                                   .at = at,
                                   .context = group->context,
                                   .pid = group->pid,
                                   .uid = group->uid,
                                   .is_on = is_on };
        gpu->n_switches_lost = 0;
        if (!gpu->switches) {
                gpu->switches_end = &gpu->switches;
                expect_delivery(gpu);
        }
        *gpu->switches_end = what;
        gpu->switches_end = &what->next;
        gpu->n_switches++;
}
