/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct trace trace;

/* The one event of a line, or how it is refused. */
static int read_line(const char *text, struct trace_event *ret)
{
        trace_start(&trace, text, strlen(text));
        return trace_next(&trace, ret);
}

static void each_kind_is_read(void **state)
{
        struct trace_event e;

        (void)state;
        assert_int_equal(read_line("process 12 11 /usr/bin/a program\n", &e), 1);
        assert_true(e.kind == TRACE_PROCESS && e.process == 12 && e.parent == 11);
        assert_string_equal(e.text, "/usr/bin/a program");
        assert_int_equal(read_line("open -1 /dev/nvidia0 13\n", &e), 1);
        assert_true(e.kind == TRACE_OPEN && e.fd == -1 && e.error == 13 && !strcmp(e.text, "/dev/nvidia0"));
        assert_int_equal(read_line("dup 3 9\n", &e), 1);
        assert_true(e.kind == TRACE_DUP && e.fd == 3 && e.new_fd == 9);
        assert_int_equal(read_line("mmap 0 3800000 3 11 17 200800000 7f00200800000\n", &e), 1);
        assert_true(e.kind == TRACE_MMAP && e.length == 0x3800000 && e.prot == 3 && e.flags == 0x11);
        assert_true(e.fd == 17 && e.offset == 0x200800000 && e.ret == 0x7f00200800000);
        assert_int_equal(read_line("mmap 0 1000 3 11 17 0 -12\n", &e), 1);
        assert_int_equal(e.ret, -12);
        assert_int_equal(read_line("mark\n", &e), 1);
        assert_string_equal(e.text, "");
}

static void bytes_are_unpacked(void **state)
{
        struct trace_event e;

        (void)state;
        assert_int_equal(read_line("ioctl 8 c020462a 32 -1 22 5 in=0100z14.ff pin= pout=ab\n", &e), 1);
        assert_true(e.fd == 8 && e.request == 0xc020462a && e.size == 32 && e.rc == -1 && e.error == 22);
        assert_int_equal(e.usec, 5);
        assert_int_equal(e.in.size, 17);
        assert_int_equal(e.in.data[0], 1);
        assert_int_equal(e.in.data[15], 0);
        assert_int_equal(e.in.data[16], 0xff);
        assert_ptr_equal(e.out.data, e.in.data); /* nothing changed */
        assert_int_equal(e.out.size, 17);
        assert_true(e.pin.data && e.pin.size == 0);
        assert_true(e.pout.size == 1 && e.pout.data[0] == 0xab);
        assert_int_equal(read_line("ioctl 8 4b 8 0 0 0\n", &e), 1);
        assert_true(!e.in.data && !e.out.data && !e.pin.data && !e.pout.data);
}

static void what_the_recorder_does_not_write_is_refused(void **state)
{
        static const char *const lines[] = {
                "\n",
                "nonsense 1\n",
                "close\n",
                "close 1 2\n",
                "close  1\n",
                "close 1 \n",
                "close x\n",
                "close 1",
                "close 2147483648\n",
                "close --1\n",
                "dup 1\n",
                "open 1 /dev/nvidia0\n",
                "munmap 0\n",
                "mmap 10000000000000000 1 1 1 1 1 1\n",
                "mmap 0 1 1 1 1 1 g\n",
                "mmap 0 1 1 1 1 1 8000000000000000\n",
                "ioctl 8 1c020462a 32 0 0 5\n",
                "ioctl 8 c020462A 32 0 0 5\n",
                "ioctl 8 1 2 0 0 5 in=0\n",
                "ioctl 8 1 2 0 0 5 in=z3.\n",
                "ioctl 8 1 2 0 0 5 in=z12\n",
                "ioctl 8 1 2 0 0 5 in=zz4.\n",
                "ioctl 8 1 2 0 0 5 in=z65537.\n",
                "ioctl 8 1 2 0 0 5 in=z65536.00\n",
                "ioctl 8 1 2 0 0 5 out=00 in=00\n",
                "ioctl 8 1 2 0 0 5 in=00 in=00\n",
                "ioctl 8 1 2 0 0 5 xin=00\n",
        };
        struct trace_event e = { .fd = 4711 };

        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                if (read_line(lines[i], &e) != -EINVAL)
                        fail_msg("%s is taken", lines[i]);
                assert_int_equal(e.fd, 4711);
                assert_int_equal(trace.line, 1);
        }
}

static void a_text_that_does_not_fit_is_refused(void **state)
{
        static char line[TRACE_TEXT_MAX + 16] = "mark ";
        struct trace_event e;

        (void)state;
        memset(line + 5, 'x', TRACE_TEXT_MAX - 1);
        line[5 + TRACE_TEXT_MAX - 1] = '\n';
        assert_int_equal(read_line(line, &e), 1);
        assert_int_equal(strlen(e.text), TRACE_TEXT_MAX - 1);
        line[5 + TRACE_TEXT_MAX - 1] = 'x';
        line[5 + TRACE_TEXT_MAX] = '\n';
        assert_int_equal(read_line(line, &e), -EINVAL);
}

static void lines_are_counted(void **state)
{
        static const char text[] = "close 1\nclose 2\nclose z\n";
        struct trace_event e;

        (void)state;
        trace_start(&trace, text, sizeof(text) - 1);
        assert_int_equal(trace_next(&trace, &e), 1);
        assert_int_equal(trace_next(&trace, &e), 1);
        assert_int_equal(e.fd, 2);
        assert_int_equal(trace_next(&trace, &e), -EINVAL);
        assert_int_equal(trace.line, 3);
        trace_start(&trace, text, 0);
        assert_int_equal(trace_next(&trace, &e), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind_is_read),
                cmocka_unit_test(bytes_are_unpacked),
                cmocka_unit_test(what_the_recorder_does_not_write_is_refused),
                cmocka_unit_test(a_text_that_does_not_fit_is_refused),
                cmocka_unit_test(lines_are_counted),
        };

        return cmocka_run_group_tests_name("trace/reader", tests, NULL, NULL);
}
