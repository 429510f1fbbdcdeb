/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

#include "base/clock.h"

enum {
        HEADER = 0x5c0000a0,
        RECORDS = 0x5c0000a1,
        BUFFER = 0x5c0000a2,
        N_RECORDS = 8,
        SIZE = 32,
};

struct reader {
        struct rig *rig;
        unsigned char *header, *records;
};

static uint32_t host_buffer(const struct rig *rig, uint32_t handle, bytes size)
{
        unsigned char params[128] = { 0 };

        rm_put32(params, sizeof(params), 24, 1u << 29);
        rm_put32(params, sizeof(params), 28, 1u << 22);
        rm_put64(params, sizeof(params), 64, size);
        return rig_alloc(rig, rig->client, handle, 0x90ce, params);
}

static uint32_t event_buffer(const struct rig *rig, uint32_t size, uint32_t n)
{
        unsigned char params[72] = { 0 };

        rm_put32(params, sizeof(params), 16, size);
        rm_put32(params, sizeof(params), 20, n);
        rm_put32(params, sizeof(params), 52, SUBDEVICE);
        rm_put32(params, sizeof(params), 60, HEADER);
        rm_put32(params, sizeof(params), 64, RECORDS);
        return rig_alloc(rig, rig->client, BUFFER, 0x90cd, params);
}

static uint32_t enable(const struct rig *rig, bool is_on, uint32_t keeps)
{
        unsigned char params[8] = { is_on };

        rm_put32(params, sizeof(params), 4, keeps);
        return rig_control(rig, BUFFER, 0x90cd0101, params, sizeof(params));
}

static struct reader reader_open(struct rig *rig, uint32_t keeps)
{
        unsigned char bind[24] = { 0 };
        struct reader reader = { .rig = rig };

        assert_int_equal(host_buffer(rig, HEADER, 4096), RM_STATUS_OK);
        assert_int_equal(host_buffer(rig, RECORDS, N_RECORDS * SIZE), RM_STATUS_OK);
        assert_int_equal(event_buffer(rig, SIZE, N_RECORDS), RM_STATUS_OK);
        rm_put32(bind, sizeof(bind), 0, BUFFER);
        rm_put32(bind, sizeof(bind), 4, 24);
        bind[16] = 1;
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x20801238, bind, sizeof(bind)), RM_STATUS_OK);
        assert_int_equal(enable(rig, true, keeps), RM_STATUS_OK);
        reader.header = rig_map(rig, HEADER, 4096);
        reader.records = rig_map(rig, RECORDS, 4096);
        return reader;
}

static void reader_close(struct reader *reader)
{
        (void)munmap(reader->header, 4096);
        (void)munmap(reader->records, 4096);
        (void)rig_free(reader->rig, BUFFER);
        (void)rig_free(reader->rig, RECORDS);
        (void)rig_free(reader->rig, HEADER);
}

static uint32_t put_of(const struct reader *reader)
{
        assert_int_equal(rig_control(reader->rig, BUFFER, 0x90cd0104, NULL, 0), RM_STATUS_OK);
        return rm_get32(reader->header, SIZE, 4);
}

static void run_once(const struct rig *rig, uint32_t channel)
{
        static uint64_t value;
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH, .client = rig->client, .object = channel, .duration = 1000000 };

        gpu.value = ++value;
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, channel, value, SIM_FOREVER, NULL), 0);
}

static void switches_are_recorded_with_process_and_time(void **state)
{
        struct rig *rig = *state, other = *rig;
        struct reader reader = reader_open(rig, 2);
        uint32_t cid, second;
        const unsigned char *r = reader.records;
        nsec began = clock_realtime();

        cid = rig_channel(rig, GROUP, CHANNEL);
        rig_begin(&other, 0);
        second = rig_channel(&other, GROUP, CHANNEL);
        run_once(rig, CHANNEL);
        run_once(&other, CHANNEL);
        assert_int_equal(put_of(&reader), 3); /* on; off, on */
        assert_int_equal(rm_get64(reader.header, SIZE, 8), 3);
        assert_int_equal(r[8], 6);
        assert_int_equal(r[SIZE + 8], 7);
        assert_int_equal(r[2 * SIZE + 8], 6);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(rm_get32(r, 96, i * SIZE) & 0xffff, 2);
                assert_int_equal(r[i * SIZE + 10], i); /* the sequence */
                assert_int_equal(rm_get32(r, 96, i * SIZE + 12), i < 2 ? cid : second);
                assert_int_equal(rm_get32(r, 96, i * SIZE + 16), (uint32_t)getpid());
                assert_in_range(rm_get64(r, 96, i * SIZE + 24), (uint64_t)began, (uint64_t)clock_realtime());
        }
        assert_int_equal(rm_get64(r, 96, 2 * SIZE + 24) - rm_get64(r, 96, SIZE + 24), 85000);
        rig_end(&other);
        reader_close(&reader);
}

static void a_full_buffer_keeps_the_oldest_and_counts_what_it_drops(void **state)
{
        struct rig *rig = *state;
        struct reader reader = reader_open(rig, 1);
        unsigned char get[8] = { 0 };

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        for (int i = 0; i < 5; i++) {
                run_once(rig, CHANNEL);
                run_once(rig, CHANNEL + 1);
        }
        assert_int_equal(put_of(&reader), N_RECORDS - 1);
        assert_int_equal(reader.records[10], 0);
        assert_int_equal(rm_get64(reader.header, SIZE, 16), 19 - (N_RECORDS - 1));
        rm_put32(get, sizeof(get), 0, N_RECORDS - 1);
        assert_int_equal(rig_control(rig, BUFFER, 0x90cd0102, get, sizeof(get)), RM_STATUS_OK);
        assert_int_equal(rm_get64(reader.header, SIZE, 16), 0);
        run_once(rig, CHANNEL);
        assert_int_equal(put_of(&reader), 1);
        rm_put32(get, sizeof(get), 0, N_RECORDS);
        assert_int_equal(rig_control(rig, BUFFER, 0x90cd0102, get, sizeof(get)), RM_STATUS_INVALID_ARGUMENT);
        reader_close(&reader);
}

static void or_keeps_the_newest(void **state)
{
        struct rig *rig = *state;
        struct reader reader = reader_open(rig, 2);

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        for (int i = 0; i < 5; i++) {
                run_once(rig, CHANNEL);
                run_once(rig, CHANNEL + 1);
        }
        assert_int_equal(put_of(&reader), 19 % N_RECORDS);
        assert_int_equal(rm_get64(reader.header, SIZE, 8), 19);
        assert_int_equal(rm_get64(reader.header, SIZE, 16), 0);
        reader_close(&reader);
}

static void a_buffer_is_made_of_ones_own_memory(void **state)
{
        struct rig *rig = *state;
        unsigned char bind[24] = { 0 }, memory[128] = { 0 };

        rm_put64(memory, sizeof(memory), 64, 4096);
        assert_int_equal(rig_alloc(rig, rig->client, HEADER, 0x90ce, memory),
                         RM_STATUS_INVALID_ARGUMENT); /* writable */
        assert_int_equal(event_buffer(rig, SIZE, N_RECORDS), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(host_buffer(rig, HEADER, 4096), RM_STATUS_OK);
        assert_int_equal(host_buffer(rig, RECORDS, 4096), RM_STATUS_OK);
        assert_int_equal(event_buffer(rig, SIZE, 129), RM_STATUS_INVALID_ARGUMENT); /* more than fits */
        assert_int_equal(event_buffer(rig, 24, N_RECORDS), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x20801238, bind, sizeof(bind)), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(event_buffer(rig, SIZE, 128), RM_STATUS_OK);
        assert_int_equal(rig_control(rig, HEADER, 0x90cd0104, NULL, 0), RM_STATUS_NOT_SUPPORTED);
}

static void a_buffer_that_is_freed_hears_no_more(void **state)
{
        struct rig *rig = *state;
        struct reader reader = reader_open(rig, 2);

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(rig_free(rig, BUFFER), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, RECORDS), RM_STATUS_OK);
        run_once(rig, CHANNEL);
        assert_int_equal(rm_get32(reader.header, SIZE, 4), 0);
        reader_close(&reader);
}

static void records_come_late_without_a_flush(void **state)
{
        struct rig *rig = *state;
        struct reader reader = reader_open(rig, 2);

        (void)rig_channel(rig, GROUP, CHANNEL);
        run_once(rig, CHANNEL);
        while (!rm_get32(reader.header, SIZE, 4)) /* after 33 ms; how late a busy machine is says nothing */
                (void)usleep(1000);
        assert_int_equal(rm_get32(reader.header, SIZE, 4), 1);
        reader_close(&reader);
}

static void what_the_device_had_no_room_for_leaves_a_gap(void **state)
{
        struct rig *rig = *state;
        bool has_gap = false;

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        rig_order(rig, "records-ring=1");
        rig_order(rig, "switch-cost=0");
        while (!has_gap) { /* not yet: the device delivered in between */
                struct reader reader = reader_open(rig, 2);

                run_once(rig, CHANNEL);
                run_once(rig, CHANNEL + 1);
                run_once(rig, CHANNEL);
                (void)put_of(&reader);
                run_once(rig, CHANNEL + 1);
                (void)put_of(&reader);
                has_gap = reader.records[SIZE + 10] > reader.records[10] + 1;
                reader_close(&reader);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(switches_are_recorded_with_process_and_time),
                RIG_TEST(a_full_buffer_keeps_the_oldest_and_counts_what_it_drops),
                RIG_TEST(or_keeps_the_newest),
                RIG_TEST(a_buffer_is_made_of_ones_own_memory),
                RIG_TEST(a_buffer_that_is_freed_hears_no_more),
                RIG_TEST(records_come_late_without_a_flush),
                RIG_TEST(what_the_device_had_no_room_for_leaves_a_gap),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
