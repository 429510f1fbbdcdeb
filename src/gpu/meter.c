/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event buffer, read in place. Two memories of the client are mapped read-only: a header with positions, and a ring
 * of records. The driver writes over the oldest records if need be ("keep newest"), so reading costs no call. What was
 * overwritten or dropped is counted by the sequence number in every record.
 *
 * M1  A record counts when it is complete. 525 and 535 move the position before they write the record, so there the
 *     newest one counts only after the position has rested for a whole call of meter_read, or another record follows
 *     (docs/rm-abi.md 6).
 * M2  The device has a clock of its own: nanoseconds since the epoch as of when the driver started it, drifting since.
 *     Its difference to clock_now() is measured repeatedly (the device's time is read between two readings of
 *     clock_now(); only a quick answer counts). The correction never moves records back in time.
 */
#include "gpu/meter.h"

#include "base/cleanup.h"
#include "gpu/client.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define CLOCK_EVERY NSEC_PER_SEC          /* between two readings of the device's clock */
#define CLOCK_QUICK (100 * NSEC_PER_USEC) /* a slower answer is too imprecise */
#define CLOCK_OLD (10 * NSEC_PER_SEC)     /* after that any answer is better than none */
#define EPOCH_FAR (86400 * NSEC_PER_SEC)  /* a clock that differs more from the time of day is not on the epoch */

enum {
        N_RECORDS = 32768, /* half a cycle of the sequence number: an old record is never taken for a new one */
        RECORD_SIZE = 32,
        HEADER_SIZE = 4096,
        CLASS_MEMORY = 0x90ce,
        CLASS_BUFFER = 0x90cd,
        BUFFER_SIZE = 72,
        BIND_V2 = 0x20801238, /* hEventBuffer@0 recordSize@4 LOD@8 filter@12 bAllUsers@16 reason@20 (out) */
        BIND_V1 = 0x20801231, /* the same without reason */
        BIND_V2_SIZE = 24,
        BIND_V1_SIZE = 20,
        SIMPLE = 1, /* level of detail: release builds have no other */
        ENABLE = 0x90cd0101,
        FLUSH = 0x90cd0104,
        KEEP_NEWEST = 2,
        GET_TIME = 0x20800403, /* u64 nanoseconds: the clock of the records; 5.8 us (H200, 580.159.04) */
        TAG_ON = 6,
        TAG_OFF = 7,
        BRANCH_ORDERED = 550, /* from here on the position moves after the record is written */
};

/* NV_EVENT_BUFFER_HEADER: get@0 put@4 count@8 dropped@16 */
struct header {
        uint32_t get;
        _Atomic uint32_t put;
        _Atomic uint64_t count, dropped;
};

struct meter {
        struct gpu_client *client;
        uint32_t header_memory, record_memory, buffer; /* handles; 0: none */
        const struct header *header;
        const uint8_t *records;
        uint32_t get;
        uint16_t sequence;       /* of the next record */
        uint64_t count, dropped; /* of the header, at the latest call */
        bool is_first, is_ordered;
        uint32_t rested_at; /* the position at the latest call, M1 */

        nsec offset; /* clock_now() is the device's time less this, M2 */
        nsec measured_at, latest;
        bool has_timer;
};

/* ---- the device's clock ---------------------------------------------------------------------- */

/* 0; 1: not quick; -errno. */
static int clock_ask(struct meter *meter, nsec *ret_offset)
{
        uint8_t params[8] = { 0 };
        nsec before = clock_now(), after;
        int r = client_error(client_control(meter->client, meter->client->subdevice, GET_TIME, params, sizeof(params)));

        after = clock_now();
        if (r < 0)
                return r;
        *ret_offset = (nsec)rm_get64(params, sizeof(params), 0) - (before + (after - before) / 2);
        return after - before > CLOCK_QUICK;
}

static nsec epoch_offset(void)
{
        return clock_realtime() - clock_now();
}

/* 0; -ENODEV: the device is lost (FLUSH does not always say so). */
static int clock_measure(struct meter *meter, nsec now)
{
        nsec offset = 0;
        int r = 1;

        if (!meter->has_timer) {
                meter->offset = epoch_offset();
                meter->measured_at = now;
                return 0;
        }
        for (int i = 0; i < 3 && r == 1; i++)
                r = clock_ask(meter, &offset);
        if (r < 0 || (r == 1 && now - meter->measured_at < CLOCK_OLD))
                return r == -ENODEV ? r : 0;
        meter->offset = offset;
        meter->measured_at = now;
        return 0;
}

static void clock_begin(struct meter *meter)
{
        nsec epoch = epoch_offset(), offset = 0;
        int r = clock_ask(meter, &offset);

        meter->has_timer = r >= 0 && offset - epoch < EPOCH_FAR && epoch - offset < EPOCH_FAR;
        meter->measured_at = clock_now() - CLOCK_OLD;
        (void)clock_measure(meter, clock_now());
}

/* ---- opening --------------------------------------------------------------------------------- */

/* NV_MEMORY_ALLOCATION_PARAMS: attr@24 attr2@28 size@64. Coherent, and read-only for users, which is mandatory. */
static int memory_make(struct meter *meter, size_t size, uint32_t *ret_object, const void **ret)
{
        struct gpu_client *client = meter->client;
        uint32_t params_size = client->backend->layout.memory_params_size;
        uint8_t params[256] = { 0 };
        int r;

        rm_put32(params, params_size, 24, 1u << 29);
        rm_put32(params, params_size, 28, 1u << 22);
        rm_put64(params, params_size, 64, size);
        r = client_alloc(client, client->client, CLASS_MEMORY, params, params_size, ret_object);
        return r < 0 ? r : client_map(client, *ret_object, size, ret);
}

/* recordSize@16 recordCount@20 hSubDevice@52 hBufferHeader@60 hRecordBuffer@64 */
static int buffer_make(struct meter *meter)
{
        uint8_t params[BUFFER_SIZE] = { 0 };

        rm_put32(params, sizeof(params), 16, RECORD_SIZE);
        rm_put32(params, sizeof(params), 20, N_RECORDS);
        rm_put32(params, sizeof(params), 52, meter->client->subdevice);
        rm_put32(params, sizeof(params), 60, meter->header_memory);
        rm_put32(params, sizeof(params), 64, meter->record_memory);
        return client_alloc(meter->client, meter->client->client, CLASS_BUFFER, params, sizeof(params), &meter->buffer);
}

/* The older control lacks the last field of the newer one. */
static int buffer_bind(struct meter *meter)
{
        struct gpu_client *client = meter->client;
        uint8_t params[BIND_V2_SIZE] = { 0 };
        int64_t status;

        rm_put32(params, sizeof(params), 0, meter->buffer);
        rm_put32(params, sizeof(params), 4, BIND_V2_SIZE);
        rm_put32(params, sizeof(params), 8, SIMPLE);
        params[16] = 1; /* all users */
        status = client_control(client, client->subdevice, BIND_V2, params, BIND_V2_SIZE);
        if (status == RM_STATUS_NOT_SUPPORTED || status == RM_STATUS_INVALID_PARAM_STRUCT) {
                rm_put32(params, sizeof(params), 20, 0);
                status = client_control(client, client->subdevice, BIND_V1, params, BIND_V1_SIZE);
        }
        return client_error(status);
}

static int buffer_enable(struct meter *meter)
{
        uint8_t params[8] = { 1 };

        rm_put32(params, sizeof(params), 4, KEEP_NEWEST);
        return client_error(client_control(meter->client, meter->buffer, ENABLE, params, sizeof(params)));
}

static int open_all(struct meter *meter)
{
        const void *header = NULL, *records = NULL;
        int r = memory_make(meter, HEADER_SIZE, &meter->header_memory, &header);

        meter->header = header;
        if (!r)
                r = memory_make(meter, (size_t)N_RECORDS * RECORD_SIZE, &meter->record_memory, &records);
        meter->records = records;
        if (!r)
                r = buffer_make(meter);
        if (!r)
                r = buffer_bind(meter);
        if (!r)
                r = buffer_enable(meter);
        return r;
}

int meter_open(struct gpu_client *client, struct meter **ret)
{
        struct meter *meter = calloc(1, sizeof(*meter));
        int r;

        if (!meter)
                return -ENOMEM;
        *meter = (struct meter){ .client = client, .is_first = true };
        meter->is_ordered = client->backend->layout.version.branch >= BRANCH_ORDERED;
        r = open_all(meter);
        if (r < 0) {
                (void)meter_close(meter);
                return r == -ENODEV || r == -ENOMEM ? r : -ENOTSUP;
        }
        meter->get = meter->rested_at = atomic_load(&meter->header->put) % N_RECORDS;
        meter->count = atomic_load(&meter->header->count);
        meter->dropped = atomic_load(&meter->header->dropped);
        clock_begin(meter);
        *ret = meter;
        return 0;
}

struct meter *meter_close(struct meter *meter)
{
        if (!meter)
                return NULL;
        client_free(meter->client, meter->buffer);
        client_free(meter->client, meter->record_memory);
        client_free(meter->client, meter->header_memory);
        if (meter->records)
                (void)munmap((void *)(uintptr_t)meter->records, (size_t)N_RECORDS * RECORD_SIZE);
        if (meter->header)
                (void)munmap((void *)(uintptr_t)meter->header, HEADER_SIZE);
        free(meter);
        return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* type@0 subtype@2 tag@8 vmid@9 seqno@10 context@12 pid@16 timestamp@24 */
static uint16_t sequence_of(const uint8_t *record)
{
        return (uint16_t)(rm_get32(record, RECORD_SIZE, 8) >> 16);
}

/* The driver has overwritten unread records: the rest begins at its position, less a few that may be next. */
static uint64_t catch_up(struct meter *meter, uint32_t put, uint64_t count)
{
        uint64_t behind = count - meter->count, kept = N_RECORDS - 64;

        meter->count = count;
        if (behind < N_RECORDS)
                return 0;
        meter->get = (put + N_RECORDS - (uint32_t)kept) % N_RECORDS;
        meter->sequence = sequence_of(meter->records + (size_t)meter->get * RECORD_SIZE);
        return behind - kept;
}

/* False: the record is not complete yet. *ret_gap: how many are missing before it. */
static bool follows(struct meter *meter, const uint8_t *record, uint16_t *ret_gap)
{
        *ret_gap = meter->is_first ? 0 : (uint16_t)(sequence_of(record) - meter->sequence);
        if (meter->is_ordered || *ret_gap < UINT16_MAX / 2)
                return true;
        return false; /* a record of the previous round: M1 */
}

/* False: not a switch. */
static bool convert(struct meter *meter, const uint8_t *record, struct meter_record *ret)
{
        uint32_t tag = rm_get32(record, RECORD_SIZE, 8) & 0xff;
        nsec at = (nsec)rm_get64(record, RECORD_SIZE, 24) - meter->offset;

        if (tag != TAG_ON && tag != TAG_OFF)
                return false;
        meter->latest = at > meter->latest ? at : meter->latest;
        *ret = (struct meter_record){ .at = meter->latest,
                                      .context = rm_get32(record, RECORD_SIZE, 12),
                                      .pid = rm_get32(record, RECORD_SIZE, 16),
                                      .is_on = tag == TAG_ON };
        return true;
}

static int take_records(struct meter *meter, uint32_t put, struct meter_record *records, size_t n_room, uint64_t *lost)
{
        uint32_t until = put;
        size_t n = 0;
        uint16_t gap;

        if (!meter->is_ordered && put != meter->rested_at && put != meter->get)
                until = (put + N_RECORDS - 1) % N_RECORDS; /* M1 */
        while (meter->get != until && n < n_room) {
                uint8_t record[RECORD_SIZE];

                memcpy(record, meter->records + (size_t)meter->get * RECORD_SIZE, RECORD_SIZE);
                if (!follows(meter, record, &gap))
                        break;
                *lost += gap;
                meter->sequence = (uint16_t)(sequence_of(record) + 1);
                meter->is_first = false;
                meter->get = (meter->get + 1) % N_RECORDS;
                n += convert(meter, record, &records[n]);
        }
        return (int)n;
}

int meter_read(struct meter *meter, bool flush, struct meter_record *records, size_t n_room, uint64_t *ret_lost)
{
        uint64_t lost, dropped;
        nsec now = clock_now();
        uint32_t put;
        int r = now - meter->measured_at >= CLOCK_EVERY ? clock_measure(meter, now) : 0;

        if (r < 0)
                return r;
        if (flush) {
                r = client_error(client_control(meter->client, meter->buffer, FLUSH, NULL, 0));
                if (r < 0)
                        return r;
        }
        put = atomic_load(&meter->header->put) % N_RECORDS;
        dropped = atomic_load(&meter->header->dropped);
        lost = catch_up(meter, put, atomic_load(&meter->header->count));
        if (dropped > meter->dropped)
                lost += dropped - meter->dropped;
        meter->dropped = dropped;
        r = take_records(meter, put, records, n_room, &lost);
        meter->rested_at = put;
        if (ret_lost)
                *ret_lost = lost;
        return r;
}
