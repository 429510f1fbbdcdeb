/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/when.h"

#include <string.h>

enum {
        GAP = 1,
        TENANT_MIN = 12,
        TENANT_MAX = 28,
        BAR_MIN = 12,
        BAR_MAX = 40,
        DEVICE = 3,
        PERCENT = 6,
        MEMORY = 11,
        REFUSED = 7,
        WAITS = 4,
        DEVICE_NAME = 14,
};

/* Where the columns begin, and how wide they are. */
struct columns {
        int tenant, device, bar, granted, share, memory, refused, waits, spark;
        int tenant_width, bar_width, spark_width;
};

/* Spare columns go to the bar, the last minute and the name, in this order of need. */
static struct columns columns_of(int width)
{
        int fixed = DEVICE + 2 * PERCENT + MEMORY + REFUSED + WAITS + 8 * GAP, rest = width - fixed;
        struct columns at = { .tenant_width = TENANT_MIN, .bar_width = BAR_MIN };
        int more;

        rest -= TENANT_MIN + BAR_MIN;
        at.spark_width = rest < 0 ? 0 : rest > 12 ? 12 : rest;
        more = rest - at.spark_width;
        if (more > 0) {
                at.bar_width += more / 3 > BAR_MAX - BAR_MIN ? BAR_MAX - BAR_MIN : more / 3;
                at.tenant_width += more / 4 > TENANT_MAX - TENANT_MIN ? TENANT_MAX - TENANT_MIN : more / 4;
                more -= at.bar_width - BAR_MIN + at.tenant_width - TENANT_MIN;
                at.spark_width += more > OVERVIEW_MINUTE - 12 ? OVERVIEW_MINUTE - 12 : more;
        }
        at.device = at.tenant_width + GAP;
        at.bar = at.device + DEVICE + GAP;
        at.granted = at.bar + at.bar_width + GAP;
        at.share = at.granted + PERCENT + GAP;
        at.memory = at.share + PERCENT + GAP;
        at.refused = at.memory + MEMORY + GAP;
        at.waits = at.refused + REFUSED + GAP;
        at.spark = at.waits + WAITS + GAP;
        return at;
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

static void draw_heading(const struct columns *at, struct frame *frame, int row)
{
        frame_text(frame, row, 0, at->tenant_width, STYLE_HEADING, "TENANT");
        frame_right(frame, row, at->device, DEVICE, STYLE_HEADING, "DEV");
        frame_text(frame, row, at->bar, at->bar_width, STYLE_HEADING, "GPU TIME");
        frame_right(frame, row, at->granted, PERCENT, STYLE_HEADING, "NOW");
        frame_right(frame, row, at->share, PERCENT, STYLE_HEADING, "SHARE");
        frame_right(frame, row, at->memory, MEMORY, STYLE_HEADING, "MEMORY");
        frame_right(frame, row, at->refused, REFUSED, STYLE_HEADING, "REFUSED");
        frame_text(frame, row, at->waits, WAITS, STYLE_HEADING, "WAIT");
        frame_text(frame, row, at->spark, at->spark_width, STYLE_HEADING, "LAST MINUTE");
        frame_paint(frame, row, STYLE_HEADING);
}

static void draw_row(const struct overview_row *row, const struct columns *at, struct frame *frame, int y,
                     bool is_chosen)
{
        char text[64], held[BYTES_TEXT], quota[BYTES_TEXT];

        frame_text(frame, y, 0, at->tenant_width, is_chosen ? STYLE_CHOSEN : STYLE_PLAIN, row->tenant);
        (void)snprintf(text, sizeof(text), "%u", row->device);
        frame_right(frame, y, at->device, DEVICE, STYLE_PLAIN, text);
        frame_bar(frame, y, at->bar, at->bar_width, time_style(row), row->granted, row->share, row->cap);
        (void)snprintf(text, sizeof(text), "%.1f%%", row->granted / 10);
        frame_right(frame, y, at->granted, PERCENT, time_style(row), text);
        (void)snprintf(text, sizeof(text), "%.1f%%", row->share / 10);
        frame_right(frame, y, at->share, PERCENT, STYLE_PLAIN, text);
        (void)snprintf(text, sizeof(text), "%s/%s", short_bytes(row->held, held), short_bytes(row->quota, quota));
        frame_right(frame, y, at->memory, MEMORY, memory_style(row->held, row->quota), text);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)row->n_refused);
        frame_right(frame, y, at->refused, REFUSED, row->n_refused ? STYLE_WARN : STYLE_DIM, text);
        frame_text(frame, y, at->waits, WAITS, STYLE_WARN, row->is_waiting ? "wait" : "");
        frame_spark(frame, y, at->spark, at->spark_width, row->minute, OVERVIEW_MINUTE);
}

/* The details of the chosen row. */
static void draw_chosen(const struct screen *screen, struct frame *frame, int y)
{
        const struct overview_row *row = &screen->overview->rows[screen->chosen];
        char text[400], cap[WHEN_TEXT], peak[BYTES_TEXT], sms[sizeof(row->sms) + 8] = "",
                                                                                 job[sizeof(row->job) + 8] = "";

        if (*row->sms)
                (void)snprintf(sms, sizeof(sms), "SMS %s, ", row->sms);
        if (*row->job)
                (void)snprintf(job, sizeof(job), "job %s, ", row->job);
        (void)snprintf(text, sizeof(text),
                       "%s: %s, %scap %s, %spromised %.1f%%, %.1f s of GPU time, peak %s, %u processes, uid %u: %s",
                       row->tenant, *row->class ? row->class : "normal", job,
                       row->cap < 1000 ? permille_format((unsigned int)row->cap, cap) : "none", sms, row->promised / 10,
                       (double)row->used / 1e9, short_bytes(row->peak, peak), row->n_processes, row->uid, row->command);
        frame_text(frame, y, 0, frame->n_columns, STYLE_PLAIN, text);
}

static void draw_keys(const struct screen *screen, struct frame *frame, int y)
{
        char text[160];

        (void)snprintf(text, sizeof(text), "q quit   s sort: %s%s   r reverse   arrows choose",
                       overview_order_name(screen->order), screen->is_reversed ? ", reversed" : "");
        frame_text(frame, y, 0, frame->n_columns, STYLE_DIM, text);
}

int screen_height(const struct screen *screen)
{
        return 3 + (int)screen->overview->n_devices + (int)screen->overview->n_rows + (screen->has_keys ? 2 : 0);
}

/* Devices take at most a third of the screen: tenants matter more. */
static int devices_shown(const struct screen *screen, const struct frame *frame)
{
        int n = (int)screen->overview->n_devices, room = frame->n_rows / 3;

        return n < room ? n : room;
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
        struct columns at = columns_of(frame->n_columns);
        int n_devices = devices_shown(screen, frame), top = n_devices + 3;
        int n_shown = frame->n_rows - top - (screen->has_keys ? 2 : 0);

        draw_title(screen, frame);
        for (int i = 0; i < n_devices; i++)
                draw_device(&overview->devices[i], frame, i + 1);
        draw_heading(&at, frame, top - 1);
        keep_in_sight(screen, n_shown);
        for (int i = 0; i < n_shown && screen->first + i < (int)overview->n_rows; i++)
                draw_row(&overview->rows[screen->first + i], &at, frame, top + i,
                         screen->has_keys && screen->first + i == screen->chosen);
        if (!overview->n_rows)
                frame_text(frame, top, 0, frame->n_columns, STYLE_DIM,
                           "no tenants: 'sublet run --mem 8G --share 30 -- COMMAND' starts one");
        if (!screen->has_keys)
                return;
        if (overview->n_rows)
                draw_chosen(screen, frame, frame->n_rows - 2);
        draw_keys(screen, frame, frame->n_rows - 1);
}
