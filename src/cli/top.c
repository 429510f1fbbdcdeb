/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet top`: who has the GPU, live. It asks the daemon every second, draws a frame (cli/screen.c) and shows it with
 * ncurses, or as text without a terminal. It waits for a daemon that restarts.
 */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"
#include "ask/ask.h"
#include "cli/overview.h"
#include "ask/field.h"
#include "base/flags.h"
#include "cli/frame.h"
#include "cli/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
        "usage: sublet top [OPTION...]\n"
        "Shows who has which GPU, live: time, memory, what was refused, who waits.\n"
        "\n"
        "\f"
        "\n"
        "Keys: q quit, ? help, s sort, r reverse, / only tenants with a word, e end the chosen one,\n"
        "p its processes, arrows choose. In a narrow terminal whole columns are left out.\n"
        "\n"
        "In a bar of GPU time, which is 1000 permille long, the first mark is the tenant's share,\n"
        "the second its cap.\n";

struct top {
        const char *dir;
        nsec period;
        unsigned int n_times; /* 0: without end */
        bool is_batch, is_once, is_json;

        struct ask *ask;
        struct overview overview;
        struct screen screen;
        struct frame frame;
        char version[64], clock[WHEN_TEXT];
        struct err failure;

        enum asking {
                ASKS_NOTHING,
                ASKS_FILTER,
                ASKS_END,
        } asks;
        char ending[OVERVIEW_NAME], prompt[160]; /* ending: whom 'e' is about, also if the rows move meanwhile */
};

enum {
        BATCH_COLUMNS = 120,
        FASTEST_MSEC = 50,
};

/* Asks the daemon for everything. On failure the overview stays as it was. */
static int top_update(struct top *top, struct err *err)
{
        json_t *devices = NULL, *tenants = NULL, *version = NULL;
        char now[WHEN_TEXT];
        int r;

        r = *top->version ? 0 : ask_get(top->ask, "/v1/version", &version, err);
        if (r == 0 && version)
                (void)snprintf(top->version, sizeof(top->version), "%s %s", field_text(version, "backend"),
                               field_text(version, "driver"));
        if (r == 0)
                r = ask_get(top->ask, "/v1/devices", &devices, err);
        if (r == 0)
                r = ask_get(top->ask, "/v1/tenants?minute=1", &tenants, err);
        if (r == 0 && overview_update(&top->overview, devices, tenants, clock_now()) < 0)
                r = err_set(err, -ENOMEM, "keeping what the daemon said");
        json_decref(version);
        json_decref(devices);
        json_decref(tenants);
        overview_filter(&top->overview);
        overview_sort(&top->overview, top->screen.order, top->screen.is_reversed);
        (void)snprintf(top->clock, sizeof(top->clock), "%.8s", moment_format(clock_realtime(), now) + 11);
        return r;
}

/* ---- as text -------------------------------------------------------------------------------------------- */

static int columns_wanted(void)
{
        const char *text = getenv("COLUMNS");
        uint64_t columns;

        return text && number_parse(text, &columns) == 0 && columns >= 40 && columns <= 1000 ? (int)columns :
                                                                                               BATCH_COLUMNS;
}

/* What the daemon says, an object for each update. */
static int run_json(struct top *top, struct err *err)
{
        for (unsigned int i = 0; !top->n_times || i < top->n_times; i++) {
                json_t *devices = NULL, *tenants = NULL, *both;
                int r;

                if (i)
                        (void)poll(NULL, 0, (int)(top->period / NSEC_PER_MSEC));
                r = ask_get(top->ask, "/v1/devices", &devices, err);
                if (r == 0)
                        r = ask_get(top->ask, "/v1/tenants?minute=1", &tenants, err);
                both = json_pack("{s:o*, s:o*}", "devices", devices, "tenants", tenants);
                if (r == 0) {
                        (void)json_dumpf(both, stdout, JSON_COMPACT);
                        (void)putchar('\n');
                        r = fflush(stdout) == 0 ? 0 : err_set(err, -errno, "standard output");
                }
                json_decref(both);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int run_batch(struct top *top, struct err *err)
{
        for (unsigned int i = 0; !top->n_times || i < top->n_times; i++) {
                int r;

                if (i)
                        (void)poll(NULL, 0, (int)(top->period / NSEC_PER_MSEC));
                r = top_update(top, err);
                if (r < 0)
                        return r;
                if (frame_reset(&top->frame, screen_height(&top->screen) + 1, columns_wanted()) < 0)
                        return err_set(err, -ENOMEM, "drawing");
                screen_draw(&top->screen, &top->frame);
                frame_print(&top->frame, stdout);
                (void)printf("\n");
                if (fflush(stdout) != 0)
                        return err_set(err, -errno, "standard output");
        }
        return 0;
}

/* ---- on a terminal -------------------------------------------------------------------------------------- */

static void begin_colours(void)
{
        static const short colours[STYLE_N] = { [STYLE_GOOD] = COLOR_GREEN,
                                                [STYLE_WARN] = COLOR_YELLOW,
                                                [STYLE_BAD] = COLOR_RED,
                                                [STYLE_MARK] = COLOR_CYAN };

        if (!has_colors() || start_color() == ERR || use_default_colors() == ERR)
                return;
        for (short i = 0; i < STYLE_N; i++)
                if (colours[i])
                        (void)init_pair(i, colours[i], -1);
}

static attr_t attribute_of(enum style style)
{
        static const attr_t attributes[STYLE_N] = {
                [STYLE_HEADING] = A_REVERSE, [STYLE_CHOSEN] = A_REVERSE | A_BOLD,
                [STYLE_DIM] = A_DIM,         [STYLE_BAD] = A_BOLD,
                [STYLE_MARK] = A_BOLD,       [STYLE_WARN] = A_BOLD,
        };

        return attributes[style];
}

static bool has_pair(enum style style)
{
        return has_colors() &&
               (style == STYLE_GOOD || style == STYLE_WARN || style == STYLE_BAD || style == STYLE_MARK);
}

static void show(const struct frame *frame)
{
        for (int row = 0; row < frame->n_rows; row++)
                for (int column = 0; column < frame->n_columns; column++) {
                        const struct cell *cell = &frame->cells[row * frame->n_columns + column];
                        wchar_t text[2] = { cell->c, 0 };
                        cchar_t c;

                        (void)setcchar(&c, text, attribute_of(cell->style),
                                       has_pair(cell->style) ? (short)cell->style : 0, NULL);
                        (void)mvadd_wch(row, column, &c);
                }
        (void)refresh();
}

static int redraw(struct top *top)
{
        top->screen.failure = top->failure.code ? top->failure.text : NULL;
        if (frame_reset(&top->frame, LINES, COLS) < 0)
                return -ENOMEM;
        screen_draw(&top->screen, &top->frame);
        show(&top->frame);
        return 0;
}

/* ---- keys ----------------------------------------------------------------------------------------------- */

static void ask_for(struct top *top, enum asking what)
{
        const struct overview *overview = &top->overview;

        if (what == ASKS_END && top->screen.chosen >= 0 && top->screen.chosen < (int)overview->n_rows)
                (void)snprintf(top->ending, sizeof(top->ending), "%s", overview->rows[top->screen.chosen].tenant);
        else if (what == ASKS_END)
                what = ASKS_NOTHING;
        top->asks = what;
        if (what == ASKS_FILTER)
                (void)snprintf(top->prompt, sizeof(top->prompt), "/%s", overview->filter);
        else
                (void)snprintf(top->prompt, sizeof(top->prompt), "end %s, and kill its processes? y: yes", top->ending);
        top->screen.prompt = what == ASKS_NOTHING ? NULL : top->prompt;
}

/* A word is typed: it filters as it grows, Enter keeps it, Escape drops it. */
static void on_filter_key(struct top *top, int key)
{
        char *filter = top->overview.filter;
        size_t n = strlen(filter);

        if (key == 27)
                *filter = '\0';
        else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n)
                filter[n - 1] = '\0';
        else if (key > ' ' && key < 127 && n + 1 < sizeof(top->overview.filter))
                (void)snprintf(filter + n, 2, "%c", key);
        overview_filter(&top->overview);
        ask_for(top, key == 27 || key == '\n' || key == '\r' || key == KEY_ENTER ? ASKS_NOTHING : ASKS_FILTER);
}

static void on_end_key(struct top *top, int key)
{
        char path[ASK_PATH];

        if ((key == 'y' || key == 'Y') && ask_path(path, "/v1/tenants/", top->ending) == 0)
                (void)ask_delete(top->ask, path, &top->failure); /* what is wrong is on top until the next update */
        ask_for(top, ASKS_NOTHING);
}

static void on_move_key(struct top *top, int key)
{
        switch (key) {
        case KEY_UP:
        case 'k':
                top->screen.chosen--;
                break;
        case KEY_DOWN:
        case 'j':
                top->screen.chosen++;
                break;
        case KEY_PPAGE:
                top->screen.chosen -= LINES / 2;
                break;
        case KEY_NPAGE:
                top->screen.chosen += LINES / 2;
                break;
        case KEY_HOME:
                top->screen.chosen = 0;
                break;
        case KEY_END:
                top->screen.chosen = (int)top->overview.n_rows;
                break;
        default:
                break;
        }
}

/* False: quit. */
static bool on_key(struct top *top, int key)
{
        if (key == 3 || (!top->asks && (key == 'q' || key == 'Q'))) /* 3: ^C */
                return false;
        if (top->asks == ASKS_FILTER)
                on_filter_key(top, key);
        else if (top->asks == ASKS_END)
                on_end_key(top, key);
        else if (key == 's')
                top->screen.order = (top->screen.order + 1) % OVERVIEW_N_ORDERS;
        else if (key == 'r')
                top->screen.is_reversed = !top->screen.is_reversed;
        else if (key == '?' || key == 'h')
                top->screen.is_help = !top->screen.is_help;
        else if (key == '/')
                ask_for(top, ASKS_FILTER);
        else if (key == 'e')
                ask_for(top, ASKS_END);
        else if (key == 'p')
                top->screen.has_processes = !top->screen.has_processes;
        else
                on_move_key(top, key);
        overview_sort(&top->overview, top->screen.order, top->screen.is_reversed);
        return true;
}

/* Handles keys until the next update is due. False: quit. */
static bool wait_for_keys(struct top *top, nsec until)
{
        nsec left;

        while ((left = until - clock_now()) > 0) {
                int key;

                timeout((int)(left / NSEC_PER_MSEC) + 1);
                key = getch();
                if (key == ERR)
                        continue;
                if (!on_key(top, key))
                        return false;
                if (redraw(top) < 0)
                        return false;
        }
        return true;
}

static int run_screen(struct top *top, struct err *err)
{
        SCREEN *screen;
        int r;

        r = top_update(top, err); /* a failure now is printed, not drawn */
        if (r < 0)
                return r;
        screen = newterm(NULL, stdout, stdin);
        if (!screen)
                return err_say(err, -ENOTTY, "this terminal is not known (TERM=%s); 'sublet top -b' needs none",
                               getenv("TERM") ? getenv("TERM") : "");
        begin_colours();
        (void)cbreak();
        (void)noecho();
        (void)keypad(stdscr, TRUE);
        (void)curs_set(0);
        do {
                nsec next = clock_now() + top->period;

                if (redraw(top) < 0 || !wait_for_keys(top, next))
                        break;
                top->failure = (struct err){ 0 };
                (void)top_update(top, &top->failure);
        } while (true);
        (void)endwin();
        delscreen(screen);
        return 0;
}

static int top_run(struct top *top, struct err *err)
{
        int r;

        (void)setlocale(LC_CTYPE, "");
        top->frame.is_plain = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
        top->screen.overview = &top->overview;
        top->screen.version = top->version;
        top->screen.clock = top->clock;
        top->screen.has_keys = !top->is_batch;
        r = ask_new(top->dir, &top->ask, err);
        if (r == 0)
                r = top->is_json ? run_json(top, err) : top->is_batch ? run_batch(top, err) : run_screen(top, err);
        top->ask = ask_free(top->ask);
        overview_done(&top->overview);
        frame_done(&top->frame);
        return r;
}

int top_main(int argc, char **argv)
{
        struct top top = { .period = NSEC_PER_SEC };
        const struct flag flags[] = {
                { "delay", 'd', flag_span, &top.period, "TIME", "between two updates: 1s, 250ms (default: 1s)", NULL },
                { "batch", 'b', flag_is, &top.is_batch, NULL, "as text, without a terminal", NULL },
                { "number", 'n', flag_count, &top.n_times, "COUNT", "so many times, then the end (with -b)", NULL },
                { "once", 0, flag_is, &top.is_once, NULL, "is -b -n 1", NULL },
                { "processes", 'p', flag_is, &top.screen.has_processes, NULL, "with the processes of each tenant",
                  NULL },
                { "json", 0, flag_is, &top.is_json, NULL, "the daemon's answers, one object a line (with -n)", NULL },
                { "dir", 0, flag_text, &top.dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code);

        if (operand < 0)
                return code;
        if (top.period < FASTEST_MSEC * NSEC_PER_MSEC || top.period > 3600 * NSEC_PER_SEC) {
                (void)fprintf(stderr, "sublet: --delay: 50ms to 1h ('sublet top --help')\n");
                return VERB_USAGE;
        }
        if (top.is_once)
                top.n_times = 1;
        if (top.is_once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
                top.is_batch = true;
        return top_run(&top, &err) < 0 ? flags_failed(&err) : VERB_DONE;
}
