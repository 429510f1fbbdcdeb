/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/cleanup.h"
#include "base/when.h"

#include <string.h>

enum {
        GAP = 1,
        TENANT_MIN = 12,
        TENANT_MAX = 28,
        BAR_MIN = 12,
        BAR_MAX = 40,
        DEVICE_WIDTH = 3,
        PERCENT = 6,
        DEVICE_NAME = 14,
        ASLEEP = 18, /* "out, waits 1023.9M" */
};

enum column {
        TENANT,
        DEVICE,
        BAR,
        GRANTED,
        SHARE,
        MEMORY,
        REFUSED,
        WAITS,
        ENGINES,
        SPARK,
        N_COLUMNS,
};

static const int narrowest[N_COLUMNS] = {
        [TENANT] = TENANT_MIN, [DEVICE] = DEVICE_WIDTH, [BAR] = BAR_MIN, [GRANTED] = PERCENT, [SHARE] = PERCENT,
        [MEMORY] = 11,         [REFUSED] = 7,           [WAITS] = 4,     [ENGINES] = 18,
};

/* Where the columns begin, and how wide they are; width 0: left out. */
struct columns {
        int at[N_COLUMNS], width[N_COLUMNS];
};

/* What all take with their gaps. */
static int width_of(const struct columns *columns)
{
        int sum = -GAP;

        for (enum column i = 0; i < N_COLUMNS; i++)
                sum += columns->width[i] ? columns->width[i] + GAP : 0;
        return sum;
}

static void widen(struct columns *columns, enum column column, int more, int most)
{
        more = more > most - columns->width[column] ? most - columns->width[column] : more;
        columns->width[column] += more > 0 ? more : 0;
}

/* Whole columns go where there is no room, the least needed first. Spare room goes to the bar, the last minute and the
 * name, in this order of need. */
static struct columns columns_of(int width, const struct overview *overview)
{
        static const enum column dispensable[] = { ENGINES, WAITS, REFUSED, DEVICE, SHARE, BAR };
        bool has_engines = false, has_sleepers = false;
        struct columns columns;
        int more, column = 0;

        for (size_t i = 0; i < overview->n_rows; i++) {
                has_engines |= *overview->rows[i].engines != '\0';
                has_sleepers |= *overview->rows[i].asleep != '\0';
        }
        memcpy(columns.width, narrowest, sizeof(columns.width));
        columns.width[ENGINES] = has_engines ? columns.width[ENGINES] : 0;
        columns.width[WAITS] = has_sleepers ? ASLEEP : columns.width[WAITS];
        for (size_t i = 0; i < ARRAY_SIZE(dispensable) && width_of(&columns) > width; i++)
                if (dispensable[i] != WAITS || !has_sleepers) /* nothing else says it */
                        columns.width[dispensable[i]] = 0;
        more = width - width_of(&columns) - GAP;
        if (more > 0 && columns.width[WAITS]) {
                columns.width[SPARK] = more > 12 ? 12 : more;
                more -= columns.width[SPARK];
                widen(&columns, BAR, more / 3, BAR_MAX);
                widen(&columns, TENANT, more / 4, TENANT_MAX);
                widen(&columns, SPARK, width - width_of(&columns), OVERVIEW_MINUTE);
        }
        for (enum column i = 0; i < N_COLUMNS; i++) {
                columns.at[i] = column;
                column += columns.width[i] ? columns.width[i] + GAP : 0;
        }
        return columns;
}

/* "7.5G", "512M": what bytes_format writes, shortened. */
static const char *short_bytes(bytes size, char buffer[static BYTES_TEXT])
{
        char *blank;

        (void)bytes_format(size, buffer);
        blank = strchr(buffer, ' ');
        if (blank) {
                blank[0] = blank[1];
                blank[1] = '\0';
        }
        return buffer;
}

static enum style memory_style(bytes held, bytes of)
{
        return held > of ? STYLE_BAD : held > of / 20 * 19 ? STYLE_WARN : STYLE_PLAIN;
}

/* WARN: it waits and got less than it was promised, by more than a percent point. */
static enum style time_style(const struct overview_row *row)
{
        return row->is_waiting && row->granted + 10 < row->promised ? STYLE_WARN : STYLE_GOOD;
}

static void draw_title(const struct screen *screen, struct frame *frame)
{
        char text[256];

        (void)snprintf(text, sizeof(text), "sublet top   %s   %zu tenant%s", screen->version,
                       screen->overview->n_tenants, screen->overview->n_tenants == 1 ? "" : "s");
        frame_text(frame, 0, 0, frame->n_columns, STYLE_PLAIN, text);
        frame_right(frame, 0, frame->n_columns - 10, 10, STYLE_PLAIN, screen->clock);
        if (screen->failure) {
                frame_text(frame, 0, 0, frame->n_columns, STYLE_BAD, screen->failure);
                frame_paint(frame, 0, STYLE_BAD);
        }
}

/* The name without its maker. */
static const char *short_name(const char *name)
{
        return strncmp(name, "NVIDIA ", 7) ? name : name + 7;
}

/* "0  H200   busy ###..  62.0%   memory ##|...  44G of 139G, leased 60G   turns" */
static void draw_device(const struct overview_device *device, struct frame *frame, int row)
{
        char text[160], held[BYTES_TEXT], of[BYTES_TEXT], leased[BYTES_TEXT];
        bool is_wide = frame->n_columns >= 110;
        int column = 3, bar = is_wide ? 20 : 10, name = is_wide ? 2 * DEVICE_NAME : DEVICE_NAME;
        bool is_lost = !strcmp(device->state, "lost");
        double memory = device->memory ? (double)device->memory : 1;

        (void)snprintf(text, sizeof(text), "%u", device->index);
        frame_text(frame, row, 0, 3, STYLE_PLAIN, text);
        frame_text(frame, row, column, name, is_lost ? STYLE_BAD : STYLE_PLAIN, short_name(device->name));
        column += name + GAP;
        if (is_lost) {
                frame_text(frame, row, column, 40, STYLE_BAD, "lost: the driver does not reach it");
                return;
        }
        frame_bar(frame, row, column, bar, STYLE_GOOD, device->busy, 0, 0);
        (void)snprintf(text, sizeof(text), "%5.1f%%", device->busy / 10);
        frame_text(frame, row, column + bar + GAP, PERCENT, STYLE_PLAIN, text);
        column += bar + PERCENT + 3 * GAP;
        frame_bar(frame, row, column, bar, memory_style(device->held, device->memory),
                  (double)device->held * 1000 / memory, (double)device->leased * 1000 / memory, 0);
        (void)snprintf(text, sizeof(text), "%s of %s, leased %s %s", short_bytes(device->held, held),
                       short_bytes(device->memory, of), short_bytes(device->leased, leased),
                       strcmp(device->mode, "time") ? device->mode : device->policy);
        frame_text(frame, row, column + bar + GAP, frame->n_columns, STYLE_PLAIN, text);
}

static void append(char *text, size_t size, size_t most, const char *part)
{
        size_t n = strlen(text), gap = n ? 3 : 0, more = strlen(part);

        if (!more || n + gap + more > most || n + gap + more >= size)
                return;
        memset(text + n, ' ', gap);
        memcpy(text + n + gap, part, more + 1);
}

/* Below it, what is known of its health and of others; parts that do not fit are left out, the last ones first. */
static bool has_more(const struct overview_device *device)
{
        return device->temperature > 0 || device->watts > 0 || device->clock > 0 || device->n_others ||
               device->swap_used;
}

static void draw_more(const struct overview_device *device, struct frame *frame, int row)
{
        size_t most = frame->n_columns > 3 ? (size_t)frame->n_columns - 3 : 0;
        char text[256] = "", others[64] = "", temperature[32] = "", power[64] = "", clock[32] = "", held[BYTES_TEXT],
             swap[96] = "", of[BYTES_TEXT];

        if (device->swap_used)
                (void)snprintf(swap, sizeof(swap), "in host memory: %s%s%s", short_bytes(device->swap_used, held),
                               device->swap ? " of " : "", device->swap ? short_bytes(device->swap, of) : "");
        if (device->n_others)
                (void)snprintf(others, sizeof(others), "others: %u hold %s", device->n_others,
                               short_bytes(device->others, held));
        if (device->temperature > 0)
                (void)snprintf(temperature, sizeof(temperature), "%.0f C", device->temperature);
        if (device->watts_limit > 0)
                (void)snprintf(power, sizeof(power), "%.0f of %.0f W", device->watts, device->watts_limit);
        else if (device->watts > 0)
                (void)snprintf(power, sizeof(power), "%.0f W", device->watts);
        if (device->clock > 0)
                (void)snprintf(clock, sizeof(clock), "%.0f MHz", device->clock / 1e6);
        append(text, sizeof(text), most, swap);
        append(text, sizeof(text), most, others);
        append(text, sizeof(text), most, temperature);
        append(text, sizeof(text), most, power);
        append(text, sizeof(text), most, clock);
        frame_text(frame, row, 3, frame->n_columns - 3, STYLE_DIM, text);
}

static void put_left(struct frame *frame, const struct columns *columns, int y, enum column column, enum style style,
                     const char *text)
{
        frame_text(frame, y, columns->at[column], columns->width[column], style, text);
}

/* To the right; nothing where the column is left out. */
static void put_right(struct frame *frame, const struct columns *columns, int y, enum column column, enum style style,
                      const char *text)
{
        if (columns->width[column])
                frame_right(frame, y, columns->at[column], columns->width[column], style, text);
}

static void draw_heading(const struct columns *columns, struct frame *frame, int row)
{
        put_left(frame, columns, row, TENANT, STYLE_HEADING, "TENANT");
        put_right(frame, columns, row, DEVICE, STYLE_HEADING, "DEV");
        put_left(frame, columns, row, BAR, STYLE_HEADING, "GPU TIME");
        put_right(frame, columns, row, GRANTED, STYLE_HEADING, "NOW");
        put_right(frame, columns, row, SHARE, STYLE_HEADING, "SHARE");
        put_right(frame, columns, row, MEMORY, STYLE_HEADING, "MEMORY");
        put_right(frame, columns, row, REFUSED, STYLE_HEADING, "REFUSED");
        put_left(frame, columns, row, WAITS, STYLE_HEADING, "WAIT");
        put_left(frame, columns, row, ENGINES, STYLE_HEADING, "ENGINES");
        put_left(frame, columns, row, SPARK, STYLE_HEADING, "LAST MINUTE");
        frame_paint(frame, row, STYLE_HEADING);
}

static void draw_row(const struct overview_row *row, const struct columns *columns, struct frame *frame, int y,
                     bool is_chosen)
{
        char text[64], held[BYTES_TEXT], quota[BYTES_TEXT];

        put_left(frame, columns, y, TENANT, is_chosen ? STYLE_CHOSEN : STYLE_PLAIN, row->tenant);
        (void)snprintf(text, sizeof(text), "%u", row->device);
        put_right(frame, columns, y, DEVICE, STYLE_PLAIN, text);
        if (columns->width[BAR])
                frame_bar(frame, y, columns->at[BAR], columns->width[BAR], time_style(row), row->granted, row->share,
                          row->cap);
        (void)snprintf(text, sizeof(text), "%.1f%%", row->granted / 10);
        put_right(frame, columns, y, GRANTED, time_style(row), text);
        (void)snprintf(text, sizeof(text), "%.1f%%", row->share / 10);
        put_right(frame, columns, y, SHARE, STYLE_PLAIN, text);
        (void)snprintf(text, sizeof(text), "%s/%s", short_bytes(row->held, held), short_bytes(row->quota, quota));
        put_right(frame, columns, y, MEMORY, memory_style(row->held, row->quota), text);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)row->n_refused);
        put_right(frame, columns, y, REFUSED, row->n_refused ? STYLE_WARN : STYLE_DIM, text);
        if (*row->asleep)
                (void)snprintf(text, sizeof(text), "%s%s%s", row->asleep, row->swapped ? " " : "",
                               row->swapped ? short_bytes(row->swapped, held) : "");
        else
                (void)snprintf(text, sizeof(text), "%s", row->is_waiting ? "wait" : "");
        put_left(frame, columns, y, WAITS, *row->asleep && !*row->waits_for ? STYLE_DIM : STYLE_WARN, text);
        put_left(frame, columns, y, ENGINES, STYLE_PLAIN, row->engines);
        frame_spark(frame, y, columns->at[SPARK], columns->width[SPARK], row->minute, OVERVIEW_MINUTE);
}

/* "  4711 python" and what it holds, below its tenant. */
static void draw_process(const struct overview_process *process, const struct columns *columns, struct frame *frame,
                         int y)
{
        char text[64], held[BYTES_TEXT];

        (void)snprintf(text, sizeof(text), "  %u %s", process->id, process->command);
        frame_text(frame, y, 0, columns->at[MEMORY] - GAP, STYLE_DIM, text);
        put_right(frame, columns, y, MEMORY, STYLE_DIM, short_bytes(process->held, held));
}

static int processes_of(const struct screen *screen, int row)
{
        if (!screen->has_processes || (screen->has_keys && row != screen->chosen))
                return 0;
        return (int)screen->overview->rows[row].n_shown;
}

/* Row `at` of the overview and what belongs to it, from line y to before `end`. Returns the next line. */
static int draw_tenant(const struct screen *screen, const struct columns *columns, struct frame *frame, int at, int y,
                       int end)
{
        const struct overview_row *row = &screen->overview->rows[at];

        draw_row(row, columns, frame, y++, screen->has_keys && at == screen->chosen);
        for (int i = 0; i < processes_of(screen, at) && y < end; i++)
                draw_process(&row->processes[i], columns, frame, y++);
        return y;
}

/* What it has besides: "copy 12%, borrows 1G, lends 512M, waits for others, which are on their way, ". */
static void besides(const struct overview_row *row, char *ret, size_t size)
{
        char borrowed[BYTES_TEXT], lent[BYTES_TEXT];

        (void)snprintf(ret, size, "%s%s%s%s%s%s%s%s%s%s%s", row->engines, *row->engines ? ", " : "",
                       row->borrowed ? "borrows " : "", row->borrowed ? short_bytes(row->borrowed, borrowed) : "",
                       row->borrowed ? ", " : "", row->lent ? "lends " : "",
                       row->lent ? short_bytes(row->lent, lent) : "", row->lent ? ", " : "",
                       *row->waits_for ? "waits for " : "", row->waits_for, *row->waits_for ? ", " : "");
}

/* The details of the chosen row. */
static void draw_chosen(const struct screen *screen, struct frame *frame, int y)
{
        const struct overview_row *row = &screen->overview->rows[screen->chosen];
        char text[700], more[352], cap[WHEN_TEXT], peak[BYTES_TEXT],
                sms[sizeof(row->sms) + 8] = "", job[sizeof(row->job) + 8] = "";

        if (*row->sms)
                (void)snprintf(sms, sizeof(sms), "SMS %s, ", row->sms);
        if (*row->job)
                (void)snprintf(job, sizeof(job), "job %s, ", row->job);
        else if (*row->group)
                (void)snprintf(job, sizeof(job), "group %s, ", row->group);
        besides(row, more, sizeof(more));
        (void)snprintf(text, sizeof(text),
                       "%s: %s, %scap %s, %s%spromised %.1f%%, %.1f s of GPU time, peak %s, %u processes, uid %u: %s",
                       row->tenant, *row->class ? row->class : "normal", job,
                       row->cap < 1000 ? permille_format((unsigned int)row->cap, cap) : "none", sms, more,
                       row->promised / 10, (double)row->used / 1e9, short_bytes(row->peak, peak), row->n_processes,
                       row->uid, row->command);
        frame_text(frame, y, 0, frame->n_columns, STYLE_PLAIN, text);
}

static void draw_keys(const struct screen *screen, struct frame *frame, int y)
{
        char text[200];

        if (screen->prompt) {
                frame_text(frame, y, 0, frame->n_columns, STYLE_WARN, screen->prompt);
                return;
        }
        (void)snprintf(text, sizeof(text),
                       "q quit   ? help   s sort: %s%s   / filter%s%s   e end   arrows choose   p processes",
                       overview_order_name(screen->order), screen->is_reversed ? ", reversed" : "",
                       *screen->overview->filter ? ": " : "", screen->overview->filter);
        frame_text(frame, y, 0, frame->n_columns, STYLE_DIM, text);
}

static void draw_help(struct frame *frame, int y, int n_rows)
{
        static const char *const lines[] = {
                "q, ^C          quit",
                "s, r           sort by another column; reverse",
                "/              only tenants with this word in name, command, job or group",
                "e              end the chosen tenant, after a question",
                "p              its processes, with what each holds",
                "arrows, j, k   choose; its details are at the bottom",
                "?              the tenants again",
                "",
                "GPU TIME: the bar is NOW, the tenant's part of the device's time in the",
                "last second; the first mark is its SHARE, the second its cap.",
                "WAIT: it has work and is not on the device; or it is suspended, with so much",
                "in host memory, and one with --swap out. REFUSED: by its quota.",
        };

        for (int i = 0; i < (int)ARRAY_SIZE(lines) && i < n_rows; i++)
                frame_text(frame, y + i, 0, frame->n_columns, STYLE_PLAIN, lines[i]);
}

int screen_height(const struct screen *screen)
{
        const struct overview *overview = screen->overview;
        int n = 3 + (int)overview->n_devices + (int)overview->n_rows + (screen->has_keys ? 2 : 0);

        for (size_t i = 0; i < overview->n_devices; i++)
                n += has_more(&overview->devices[i]);
        for (size_t i = 0; i < overview->n_rows; i++)
                n += processes_of(screen, (int)i);
        return n;
}

/* Draws devices from line 1 and returns the next line. They take at most a third of a screen, and without what more is
 * known of them if that is not enough: tenants matter more. */
static int draw_devices(const struct screen *screen, struct frame *frame)
{
        const struct overview *overview = screen->overview;
        int n = (int)overview->n_devices, y = 1, room = screen->has_keys ? frame->n_rows / 3 : frame->n_rows, need = n;

        for (int i = 0; i < n; i++)
                need += has_more(&overview->devices[i]);
        for (int i = 0; i < n && y <= room; i++) {
                draw_device(&overview->devices[i], frame, y++);
                if (need <= room && has_more(&overview->devices[i]))
                        draw_more(&overview->devices[i], frame, y++);
        }
        return y;
}

static void keep_in_sight(struct screen *screen, int n_shown)
{
        int n = (int)screen->overview->n_rows;

        screen->chosen = screen->chosen >= n ? n - 1 : screen->chosen;
        screen->chosen = screen->chosen < 0 ? 0 : screen->chosen;
        if (screen->first > screen->chosen)
                screen->first = screen->chosen;
        if (n_shown > 0 && screen->chosen >= screen->first + n_shown)
                screen->first = screen->chosen - n_shown + 1;
        if (screen->first > n - n_shown)
                screen->first = n > n_shown ? n - n_shown : 0;
}

void screen_draw(struct screen *screen, struct frame *frame)
{
        const struct overview *overview = screen->overview;
        struct columns columns = columns_of(frame->n_columns, overview);
        int top = draw_devices(screen, frame) + 2, end = frame->n_rows - (screen->has_keys ? 2 : 0);
        int n_shown = end - top, more;

        draw_title(screen, frame);
        draw_heading(&columns, frame, top - 1);
        keep_in_sight(screen, n_shown);
        more = overview->n_rows && screen->has_keys ? processes_of(screen, screen->chosen) : 0;
        if (more && n_shown > 1)
                keep_in_sight(screen, more < n_shown ? n_shown - more : 1); /* with its processes */
        for (int i = screen->first, y = top; y < end && i < (int)overview->n_rows && !screen->is_help; i++)
                y = draw_tenant(screen, &columns, frame, i, y, end);
        if (screen->is_help)
                draw_help(frame, top, n_shown);
        else if (!overview->n_rows)
                frame_text(frame, top, 0, frame->n_columns, STYLE_DIM,
                           *overview->filter ? "no tenant has that word: '/' and Enter shows all" :
                                               "no tenants: 'sublet run --mem 8G --share 30 -- COMMAND' starts one");
        if (!screen->has_keys)
                return;
        if (overview->n_rows)
                draw_chosen(screen, frame, frame->n_rows - 2);
        draw_keys(screen, frame, frame->n_rows - 1);
}
