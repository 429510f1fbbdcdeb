/*
 * Context-switch records: what the card reports of who was on it, in event buffers (rm-abi 6).
 *
 * A buffer has two memories of its client's, which the client maps read-only: a header with the
 * positions, and a ring of records of 32 bytes. The real driver brings records every 33 ms (550 and
 * later) or on FLUSH; here they come at once, in the same order.
 */
#include "sim/machine.h"

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
};

struct buffer {
        struct buffer *next; /* bound to the same card */
        struct gpu *gpu;     /* NULL: not bound */
        struct memory *header, *records;
        uint32_t n_records, get, put;
        uint64_t n_written, n_dropped;
        uint16_t sequence;
        uid_t uid;
        bool is_admin, is_v2, is_on, keeps_newest;
};

static struct memory *memory_of(struct client *client, uint32_t handle, bytes size)
{
        struct object *object = handles_get(client, handle);

        return object && object->memory && object->memory->size >= size ? object->memory : NULL;
}

/* recordSize@16 recordCount@20 hSubDevice@52 hBufferHeader@60 hRecordBuffer@64 */
uint32_t buffer_alloc(struct ask *ask, struct object *object, struct part *params)
{
        uint32_t size = rm_get32(params->data, params->size, 16);
        uint32_t n = rm_get32(params->data, params->size, 20);
        struct memory *header = memory_of(ask->client, rm_get32(params->data, params->size, 60), HEADER_SIZE);
        struct memory *records =
                memory_of(ask->client, rm_get32(params->data, params->size, 64), (bytes)n * RECORD_SIZE);

        if (size != RECORD_SIZE || n < 2 || !header || !records)
                return RM_STATUS_INVALID_ARGUMENT;
        object->buffer = calloc(1, sizeof(*object->buffer));
        if (!object->buffer)
                return RM_STATUS_NO_MEMORY;
        *object->buffer = (struct buffer){
                .header = mem_ref(header), .records = mem_ref(records), .n_records = n, .uid = ask->who.uid
        };
        return RM_STATUS_OK;
}

static void unbind(struct buffer *buffer)
{
        struct buffer **at;

        if (!buffer->gpu)
                return;
        for (at = &buffer->gpu->buffers; *at != buffer; at = &(*at)->next)
                ;
        *at = buffer->next;
        buffer->gpu = NULL;
}

void buffer_free(struct buffer *buffer)
{
        if (!buffer)
                return;
        unbind(buffer);
        mem_unref(buffer->header);
        mem_unref(buffer->records);
        free(buffer);
}

/* On a subdevice; hEventBuffer@0 recordSize@4 LOD@8 filter@12 bAllUsers@16, v2: reason@20. Who is
 * root sees everybody's records as they are. */
uint32_t buffer_bind(struct ask *ask, struct part *params, bool is_v2)
{
        struct object *subdevice = handles_get(ask->client, ask->call.object);
        struct object *object = handles_get(ask->client, rm_get32(params->data, params->size, 0));
        struct buffer *buffer = object ? object->buffer : NULL;

        if (!buffer || !subdevice->gpu)
                return RM_STATUS_INVALID_ARGUMENT;
        unbind(buffer);
        buffer->gpu = subdevice->gpu;
        buffer->next = buffer->gpu->buffers;
        buffer->gpu->buffers = buffer;
        buffer->is_v2 = is_v2;
        buffer->is_admin = ask->who.uid == 0;
        if (is_v2)
                rm_put32(params->data, params->size, 20, 0);
        return RM_STATUS_OK;
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

uint32_t buffer_control(struct ask *ask, struct object *object, struct part *params)
{
        struct buffer *buffer = object->buffer;

        if (!buffer)
                return RM_STATUS_NOT_SUPPORTED;
        switch (ask->call.class_or_cmd) {
        case ENABLE:
                buffer->is_on = params->size && params->data[0];
                buffer->keeps_newest = rm_get32(params->data, params->size, 4) == KEEP_NEWEST;
                break;
        case UPDATE_GET:
                if (rm_get32(params->data, params->size, 0) >= buffer->n_records)
                        return RM_STATUS_INVALID_ARGUMENT;
                buffer->get = rm_get32(params->data, params->size, 0);
                buffer->n_dropped = 0;
                break;
        case FLUSH:
                break;
        default:
                return RM_STATUS_NOT_SUPPORTED;
        }
        header_write(buffer);
        return RM_STATUS_OK;
}

static void record_write(struct buffer *buffer, const unsigned char *record)
{
        uint32_t next = (buffer->put + 1) % buffer->n_records;
        int fd = mem_fd(buffer->records);

        if (next == buffer->get && !buffer->keeps_newest) {
                buffer->n_dropped++;
        } else if (fd >= 0) {
                (void)!pwrite(fd, record, RECORD_SIZE, (off_t)buffer->put * RECORD_SIZE);
                buffer->put = next;
                buffer->n_written++;
        }
        header_write(buffer);
}

static void record_make(struct buffer *buffer, const struct group *group, bool is_on, nsec at, unsigned char *record)
{
        bool is_visible = buffer->is_admin || buffer->uid == group->uid;

        memset(record, 0, RECORD_SIZE);
        rm_put32(record, RECORD_SIZE, 0, buffer->is_v2 ? TYPE_V2 : TYPE_V1);
        record[8] = is_on ? TAG_ON : TAG_OFF;
        record[10] = (unsigned char)buffer->sequence;
        record[11] = (unsigned char)(buffer->sequence >> 8);
        rm_put32(record, RECORD_SIZE, 12, group->context);
        rm_put32(record, RECORD_SIZE, 16, is_visible ? (uint32_t)group->pid : 0);
        rm_put64(record, RECORD_SIZE, 24, (uint64_t)(at + group->gpu->machine->realtime_since));
        buffer->sequence++;
}

/* Copy engines have no records. */
void record_switch(struct gpu *gpu, const struct group *group, bool is_on, nsec at)
{
        unsigned char record[RECORD_SIZE];

        if (group->run.list != &gpu->engines[0])
                return;
        for (struct buffer *buffer = gpu->buffers; buffer; buffer = buffer->next) {
                if (!buffer->is_on)
                        continue;
                record_make(buffer, group, is_on, at, record);
                record_write(buffer, record);
        }
}
