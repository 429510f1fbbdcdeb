/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/load.h"

#include "base/cleanup.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* A file with this text; unlinked by the caller. */
static void write_file(char *path, const char *text)
{
        int fd = mkstemp(path);
        FILE *file = fdopen(fd, "w");

        assert_non_null(file);
        (void)fputs(text, file);
        assert_int_equal(fclose(file), 0);
}

static int read_text(const char *text, double scale, struct load *ret)
{
        char path[] = "/tmp/sublet-load-XXXXXX";
        int r;

        write_file(path, text);
        r = load_read(path, scale, ret, NULL);
        (void)unlink(path);
        return r;
}

static void a_trace_is_read(void **state)
{
        _cleanup_(load_done) struct load load = { 0 };

        (void)state;
        assert_int_equal(read_text("{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, "
                                   "\"hash_ids\": [0, 7, 9]}\n"
                                   "{\"timestamp\": 500, \"input_length\": 512, \"output_length\": 0, "
                                   "\"hash_ids\": [0]}\n",
                                   2, &load),
                         0);
        assert_int_equal(load.n_requests, 2);
        assert_int_equal(load.requests[0].input, 1100);
        assert_int_equal(load.n_keys, 3); /* the third block of the first is not full */
        assert_true(load.keys[load.requests[0].keys + 1] != load.keys[0]);
        assert_int_equal(load.keys[load.requests[1].keys], load.keys[0]);
        assert_int_equal(load.requests[1].at, 250 * NSEC_PER_MSEC);
        assert_int_equal(load.requests[1].output, 1);
}

static void a_broken_trace_is_refused(void **state)
{
        struct load load = { 0 };

        (void)state;
        assert_int_equal(read_text("", 1, &load), -EINVAL);
        assert_int_equal(read_text("hello\n", 1, &load), -EINVAL);
        assert_int_equal(read_text("{\"timestamp\": 0, \"input_length\": 2048, \"output_length\": 5, "
                                   "\"hash_ids\": [0]}\n",
                                   1, &load),
                         -EINVAL);
        assert_null(load.requests);
        assert_int_equal(load_read("/no/such/trace", 1, &load, NULL), -ENOENT);
}

static void a_coarse_clock_is_spread(void **state)
{
        _cleanup_(load_done) struct load load = { 0 };
        char text[2048] = "";
        size_t n = 0;

        (void)state;
        for (int i = 0; i < 12; i++)
                n += (size_t)snprintf(
                        text + n, sizeof(text) - n,
                        "{\"timestamp\": %d, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [0]}\n",
                        i / 6 * 3000);
        assert_int_equal(read_text(text, 1, &load), 0);
        for (int i = 1; i < 6; i++)
                assert_int_equal(load.requests[i].at - load.requests[i - 1].at, 500 * NSEC_PER_MSEC);
}

static void a_shared_load_has_its_rate_and_its_prefixes(void **state)
{
        struct load_shared kind = {
                .n = 20000, .qps = 40, .prefixes = 10, .prefix = 1024, .own = 700, .output = 3, .seed = 3
        };
        _cleanup_(load_done) struct load load = { 0 };
        uint64_t firsts[10] = { 0 };
        size_t n_firsts = 0;

        (void)state;
        assert_int_equal(load_shared(&kind, &load), 0);
        assert_in_range(load.requests[19999].at, 490 * NSEC_PER_SEC, 510 * NSEC_PER_SEC);
        for (size_t i = 0; i < 20000; i++) {
                uint64_t key = load.keys[load.requests[i].keys];
                size_t k = 0;

                while (k < n_firsts && firsts[k] != key)
                        k++;
                assert_in_range(k, 0, 9);
                firsts[k] = key;
                n_firsts += k == n_firsts;
        }
        assert_int_equal(n_firsts, 10);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_trace_is_read),
                cmocka_unit_test(a_broken_trace_is_refused),
                cmocka_unit_test(a_coarse_clock_is_spread),
                cmocka_unit_test(a_shared_load_has_its_rate_and_its_prefixes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
