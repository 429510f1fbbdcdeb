/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "base/text.h"
#include "cli/screen.h"

#include <locale.h>
#include <string.h>

static struct overview_device device = {
        .name = "NVIDIA H200",
        .policy = "turns",
        .mode = "time",
        .state = "ok",
        .memory = 140 * GIB,
        .leased = 70 * GIB,
        .held = 35 * GIB,
        .busy = 970,
};

static struct overview_row rows[40];

/* Tenants t00, t01, ... with a tenth of the device each. */
static struct overview overview_of(size_t n)
{
        for (size_t i = 0; i < n; i++) {
                rows[i] = (struct overview_row){
                        .granted = 100, .promised = 100, .share = 100, .cap = 1000, .held = GIB, .quota = 8 * GIB
                };
                (void)snprintf(rows[i].tenant, sizeof(rows[i].tenant), "t%02zu", i);
                for (int k = 0; k < OVERVIEW_MINUTE; k++)
                        rows[i].minute[k] = 100;
        }
        return (struct overview){ .devices = &device, .rows = rows, .n_devices = 1, .n_rows = n, .n_tenants = n };
}

static const char *draw(struct screen *screen, int n_rows, int n_columns)
{
        static char text[65536];
        struct frame frame = { 0 };
        struct said said;

        screen->version = "sim 580.159.04";
        screen->clock = "10:30:05";
        assert_int_equal(frame_reset(&frame, n_rows, n_columns), 0);
        screen_draw(screen, &frame);
        said = said_begin(stdout);
        frame_print(&frame, stdout);
        said_end(&said, stdout, text, sizeof(text));
        frame_done(&frame);
        return text;
}

static void it_fits_80_by_24(void **state)
{
        struct overview overview = overview_of(3);
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        rows[1].is_waiting = true;
        rows[1].granted = 50;
        rows[2].cap = 500;
        rows[2].n_refused = 12;
        assert_string_equal(draw(&screen, 8, 80),
                            "sublet top   sim 580.159.04   3 tenants                                 10:30:05\n"
                            "0  H200           █████████▊  97.0%  ██▌··│···· 35G of 140G, leased 70G turns\n"
                            "\n"
                            "TENANT       DEV GPU TIME        NOW  SHARE      MEMORY REFUSED WAIT LAST MINUTE\n"
                            "t00            0 █│··········  10.0%  10.0%       1G/8G       0      ▁▁▁▁▁▁▁▁▁▁▁\n"
                            "t01            0 ▋│··········   5.0%  10.0%       1G/8G       0 wait ▁▁▁▁▁▁▁▁▁▁▁\n"
                            "t00: normal, cap none, promised 10.0%, 0.0 s of GPU time, peak 0B, 0 processes,\n"
                            "q quit   ? help   s sort: gpu   / filter   e end   arrows choose   p processes\n");
}

static void a_part_of_the_multiprocessors_is_said_of_the_chosen(void **state)
{
        struct overview overview = overview_of(2);
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        (void)snprintf(rows[1].sms, sizeof(rows[1].sms), "25%%");
        assert_null(strstr(draw(&screen, 8, 80), "SMS"));
        screen.chosen = 1;
        assert_non_null(strstr(draw(&screen, 8, 80), "\nt01: normal, cap none, SMS 25%, promised 10.0%, "));
}

static void what_a_device_tells_fits_or_is_left_out(void **state)
{
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        device.temperature = 54;
        device.watts = 310;
        device.watts_limit = 700;
        device.clock = 1.98e9;
        device.n_others = 2;
        device.others = 3 * GIB;
        assert_non_null(strstr(draw(&screen, 24, 60), "\n   others: 2 hold 3G   54 C   310 of 700 W   1980 MHz\n"));
        assert_non_null(strstr(draw(&screen, 24, 44), "\n   others: 2 hold 3G   54 C   310 of 700 W\n"));
        assert_null(strstr(draw(&screen, 5, 60), "54 C")); /* no room for more than the bars */
        device.temperature = device.watts = device.watts_limit = device.clock = 0;
        device.n_others = 0;
}

static void a_sleeper_is_said_with_what_of_it_is_in_host_memory(void **state)
{
        struct overview overview = overview_of(3);
        struct screen screen = { .overview = &overview, .has_keys = true, .chosen = 1 };
        const char *text;

        (void)state;
        (void)strcpy(rows[0].asleep, "suspended");
        rows[0].swapped = 20 * GIB;
        (void)strcpy(rows[1].asleep, "out, waits");
        (void)strcpy(rows[1].waits_for, "others, until their turns are over");
        device.swap = 200 * GIB;
        device.swap_used = 20 * GIB;
        text = draw(&screen, 24, 90);
        assert_non_null(strstr(text, " suspended 20G      ▁"));
        assert_non_null(strstr(text, " out, waits         ▁"));
        assert_non_null(strstr(text, "\n   in host memory: 20G of 200G\n"));
        assert_non_null(
                strstr(text, "\nt01: normal, cap none, waits for others, until their turns are over, promised"));
        assert_non_null(strstr(draw(&screen, 24, 70), " suspended 20G\n")); /* of more use there than SHARE */
        device.swap = 0;
        assert_non_null(strstr(draw(&screen, 24, 80), "\n   in host memory: 20G\n"));
        device.swap_used = 0;
}

static void processes_are_below_their_tenant(void **state)
{
        struct overview overview = overview_of(3);
        struct screen screen = { .overview = &overview, .has_keys = true, .has_processes = true, .chosen = 1 };
        const char *text;

        (void)state;
        for (size_t i = 0; i < 3; i++) {
                rows[i].processes[0] = (struct overview_process){ 100 + (unsigned int)i, "python", GIB };
                rows[i].n_shown = 1;
        }
        text = draw(&screen, 24, 60);
        assert_non_null(strstr(text, "\n  101 python "));
        assert_null(strstr(text, "100 python"));
        screen.has_keys = false;
        text = draw(&screen, screen_height(&screen), 60);
        assert_non_null(strstr(text, "100 python"));
        assert_non_null(strstr(text, "102 python"));
}

static void engines_have_a_column_where_there_is_room(void **state)
{
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        assert_null(strstr(draw(&screen, 24, 120), "ENGINES")); /* nobody uses any */
        (void)snprintf(rows[0].engines, sizeof(rows[0].engines), "copy 12%%");
        rows[0].borrowed = GIB;
        assert_non_null(strstr(draw(&screen, 24, 120), " ENGINES "));
        assert_null(strstr(draw(&screen, 24, 80), " ENGINES "));
        assert_non_null(strstr(draw(&screen, 24, 80), "\nt00: normal, cap none, copy 12%, borrows 1G, promised"));
}

static void the_chosen_row_stays_in_sight(void **state)
{
        struct overview overview = overview_of(40);
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        for (int chosen = 0; chosen < 45; chosen++) {
                char name[8];

                screen.chosen = chosen;
                (void)snprintf(name, sizeof(name), "\nt%02d ", chosen < 40 ? chosen : 39);
                assert_non_null(strstr(draw(&screen, 24, 80), name));
        }
        screen.chosen = -7;
        assert_non_null(strstr(draw(&screen, 24, 80), "\nt00 "));
        assert_int_equal(screen.chosen, 0);
        overview.n_rows = 2; /* the others are gone */
        screen.chosen = 39;
        assert_non_null(strstr(draw(&screen, 24, 80), "\nt01 "));
        assert_int_equal(screen.chosen, 1);
}

/* No size, however odd, draws outside (the sanitizers watch). */
static void every_size_can_be_drawn(void **state)
{
        struct overview overview = overview_of(9), nobody = { .devices = &device, .n_devices = 1 };

        (void)state;
        for (int n_rows = 0; n_rows < 12; n_rows++)
                for (int n_columns = 0; n_columns < 210; n_columns += 7) {
                        struct screen some = { .overview = &overview,
                                               .has_keys = true,
                                               .failure = "no daemon answers" };
                        struct screen none = { .overview = &nobody, .has_keys = true };

                        (void)draw(&some, n_rows, n_columns);
                        (void)draw(&none, n_rows, n_columns);
                }
}

static void a_wider_terminal_shows_more(void **state)
{
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview };

        (void)state;
        (void)strcpy(rows[0].tenant, "a-rather-long-tenant-name");
        assert_null(strstr(draw(&screen, 24, 80), "a-rather-long-tenant-name"));
        assert_non_null(strstr(draw(&screen, 24, 200), "a-rather-long-tenant-name"));
        assert_non_null(strstr(draw(&screen, 24, 200), "LAST MINUTE"));
}

static void a_narrow_terminal_leaves_out_whole_columns(void **state)
{
        static const struct {
                int n_columns;
                const char *heading;
        } cases[] = {
                { 68, "\nTENANT       DEV GPU TIME        NOW  SHARE      MEMORY REFUSED WAIT\n" },
                { 67, "\nTENANT       DEV GPU TIME        NOW  SHARE      MEMORY REFUSED\n" },
                { 60, "\nTENANT       DEV GPU TIME        NOW  SHARE      MEMORY\n" },
                { 54, "\nTENANT       GPU TIME        NOW  SHARE      MEMORY\n" },
                { 50, "\nTENANT       GPU TIME        NOW      MEMORY\n" },
                { 40, "\nTENANT          NOW      MEMORY\n" },
        };
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_non_null(strstr(draw(&screen, 24, cases[i].n_columns), cases[i].heading));
        assert_non_null(strstr(draw(&screen, 24, 40), "\nt00           10.0%       1G/8G\n"));
}

static void help_and_questions_take_the_place_of_tenants_and_keys(void **state)
{
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview, .has_keys = true, .is_help = true };

        (void)state;
        assert_non_null(strstr(draw(&screen, 24, 80), "\ns, r           sort by another column; reverse\n"));
        assert_null(strstr(draw(&screen, 24, 80), "\nt00            0 "));
        screen.is_help = false;
        screen.prompt = "end t00?";
        assert_non_null(strstr(draw(&screen, 24, 80), "\nend t00?\n"));
        assert_null(strstr(draw(&screen, 24, 80), "q quit"));
}

static void what_is_wrong_is_on_top(void **state)
{
        struct overview overview = overview_of(1);
        struct screen screen = { .overview = &overview, .failure = "no daemon answers at /x" };

        (void)state;
        assert_memory_equal(draw(&screen, 24, 80), "no daemon answers at /x", 23);
        (void)strcpy(device.state, "lost");
        assert_non_null(strstr(draw(&screen, 24, 80), "lost: the driver does not reach it"));
        (void)strcpy(device.state, "ok");
}

static void without_tenants_the_next_step_is_named(void **state)
{
        struct overview overview = { .devices = &device, .n_devices = 1 };
        struct screen screen = { .overview = &overview, .has_keys = true };

        (void)state;
        assert_non_null(strstr(draw(&screen, 24, 80), "no tenants: 'sublet run"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_part_of_the_multiprocessors_is_said_of_the_chosen),
                cmocka_unit_test(it_fits_80_by_24),
                cmocka_unit_test(what_a_device_tells_fits_or_is_left_out),
                cmocka_unit_test(a_sleeper_is_said_with_what_of_it_is_in_host_memory),
                cmocka_unit_test(processes_are_below_their_tenant),
                cmocka_unit_test(engines_have_a_column_where_there_is_room),
                cmocka_unit_test(the_chosen_row_stays_in_sight),
                cmocka_unit_test(every_size_can_be_drawn),
                cmocka_unit_test(a_wider_terminal_shows_more),
                cmocka_unit_test(a_narrow_terminal_leaves_out_whole_columns),
                cmocka_unit_test(help_and_questions_take_the_place_of_tenants_and_keys),
                cmocka_unit_test(what_is_wrong_is_on_top),
                cmocka_unit_test(without_tenants_the_next_step_is_named),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
