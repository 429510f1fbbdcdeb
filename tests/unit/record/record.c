/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "lease/capabilities.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct rm_version release = { 580, 159, 4 };

static const struct gate_call made = { .kind = RM_ALLOC, .number = 0x80, .size = 56 };
static const struct gate_call failed = { .kind = RM_CONTROL, .number = 0x20801303, .size = 8, .status = 0x56 };
static const struct gate_call lacking = { .kind = RM_CONTROL,
                                          .number = 0x20801346,
                                          .size = 76,
                                          .status = 0x56,
                                          .outcome = GATE_LACKS,
                                          .needs = CAPABILITY_PROFILE };
static const struct gate_call unruled = {
        .kind = RM_N_KINDS, .number = 0xc0384659, .size = 56, .error = 22, .outcome = GATE_UNRULED
};

/* A writer on a file in memory; *ret_fd reads it, and is the caller's. */
static struct record_writer *writer_new(int *ret_fd)
{
        struct record_writer *writer;
        int fd = memfd_create("record", MFD_CLOEXEC);

        assert_true(fd >= 0);
        *ret_fd = dup(fd);
        assert_int_equal(record_writer_new(fd, release, CAPABILITIES_DEFAULT, &writer), 0);
        return writer;
}

static size_t text_of(int fd, char *ret, size_t size)
{
        ssize_t n = pread(fd, ret, size, 0);

        assert_true(n > 0 && (size_t)n < size);
        ret[n] = '\0';
        return (size_t)n;
}

static void what_is_written_is_read(void **state)
{
        const struct gate_call *calls[] = { &made, &failed, &lacking, &unruled };
        _cleanup_(record_done) struct record record;
        _cleanup_(closep) int fd = -1;
        struct record_writer *writer = writer_new(&fd);
        struct err err = { 0 };
        char text[4096];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                for (size_t n = 0; n <= i; n++)
                        record_put(writer, calls[i]);
        assert_int_equal(record_writer_end(writer), 0);
        assert_int_equal(record_parse(text, text_of(fd, text, sizeof(text)), &record, &err), 0);
        assert_true(record.is_whole);
        assert_string_equal(record.release, "580.159.04");
        assert_int_equal(record.capabilities, CAPABILITIES_DEFAULT);
        assert_int_equal(record.n_rows, ARRAY_SIZE(calls));
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                assert_memory_equal(&record.rows[i].call, calls[i], sizeof(*calls[i]));
                assert_int_equal(record.rows[i].n, i + 1);
        }
}

static void a_record_of_a_run_that_was_killed_has_all_but_the_counts(void **state)
{
        _cleanup_(record_done) struct record record;
        _cleanup_(closep) int fd = -1;
        struct record_writer *writer = writer_new(&fd);
        struct err err = { 0 };
        char text[4096];
        size_t size;

        (void)state;
        record_put(writer, &made);
        record_put(writer, &lacking);
        record_put(writer, &lacking);
        size = text_of(fd, text, sizeof(text));
        assert_int_equal(record_parse(text, size, &record, &err), 0);
        assert_false(record.is_whole);
        assert_int_equal(record.n_rows, 2);
        assert_int_equal(record.rows[1].n, 1);
        record_done(&record);
        assert_int_equal(record_parse(text, size - 3, &record, &err), 0); /* and half of a line at its end */
        assert_int_equal(record.n_rows, 1);
        assert_int_equal(record_writer_end(writer), 0);
}

static void a_file_is_bounded(void **state)
{
        _cleanup_(freep) char *text = malloc(RECORD_TEXT_MAX);
        _cleanup_(record_done) struct record record;
        _cleanup_(closep) int fd = -1;
        struct record_writer *writer = writer_new(&fd);
        struct gate_call call = { .kind = RM_VID_HEAP,
                                  .size = UINT32_MAX,
                                  .status = UINT32_MAX,
                                  .error = 4095,
                                  .outcome = GATE_LACKS,
                                  .needs = CAPABILITIES_KNOWN };
        struct err err = { 0 };

        (void)state;
        assert_non_null(text);
        for (uint32_t i = 0; i < RECORD_ROWS_MAX + 7; i++) {
                call.number = UINT32_MAX - i;
                record_put(writer, &call);
        }
        assert_int_equal(record_writer_end(writer), 0);
        assert_int_equal(record_parse(text, text_of(fd, text, RECORD_TEXT_MAX), &record, &err), 0);
        assert_int_equal(record.n_rows, RECORD_ROWS_MAX);
        assert_int_equal(record.n_others, 7);
}

static void what_is_no_record_is_refused(void **state)
{
        static const char *const wrong[] = {
                "",
                "sublet record 2\n",
                "sublet record 1\ncall\n",
                "sublet record 1\ncall 1 ALLOC 0x80 56 0x0 0 made\n",
                "sublet record 1\ncall 0 NONE 0x80 56 0x0 0 made\n",
                "sublet record 1\ncall 0 ALLOC -80 56 0x0 0 made\n",
                "sublet record 1\ncall 0 ALLOC 0x180000000 56 0x0 0 made\n",
                "sublet record 1\ncall 0 ALLOC 0x80 56 0x0 0 lacks\n",
                "sublet record 1\ncall 0 ALLOC 0x80 56 0x0 0 made video\n",
                "sublet record 1\ncall 0 ALLOC 0x80 56 0x0 0 eaten\n",
                "sublet record 1\ncount 0 1\n",
                "sublet record 1\nrelease abc\n",
                "sublet record 1\nend\nend\n",
                "sublet record 1\n\n",
                "sublet record 1\nend \n",
        };
        struct err err;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                _cleanup_(record_done) struct record record;

                err = (struct err){ 0 };
                assert_int_equal(record_parse(wrong[i], strlen(wrong[i]), &record, &err), -EINVAL);
                assert_true(err.text[0]);
        }
}

static void a_full_disk_is_an_error_of_the_record(void **state)
{
        struct record_writer *writer;
        int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(record_writer_new(fd, release, 0, &writer), 0);
        record_put(writer, &made);
        assert_int_equal(record_writer_end(writer), -ENOSPC);
}

static void a_number_says_what_it_belongs_to_also_without_a_name(void **state)
{
        char text[RECORD_MEANING_MAX];

        (void)state;
        assert_string_equal(record_meaning(RM_CONTROL, 0x20801399, text), "a control of a subdevice: video memory");
        assert_string_equal(record_meaning(RM_CONTROL, 0x00801c77, text), "a control of a device: decoders");
        assert_string_equal(record_meaning(RM_ALLOC, 0xcfb0, text), "a class: video decoder");
        assert_string_equal(record_name(RM_CONTROL, 0x20801399), "");
        assert_string_equal(record_what(RM_N_KINDS), "request");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_written_is_read),
                cmocka_unit_test(a_record_of_a_run_that_was_killed_has_all_but_the_counts),
                cmocka_unit_test(a_file_is_bounded),
                cmocka_unit_test(what_is_no_record_is_refused),
                cmocka_unit_test(a_full_disk_is_an_error_of_the_record),
                cmocka_unit_test(a_number_says_what_it_belongs_to_also_without_a_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
