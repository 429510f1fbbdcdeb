/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/frames.h"

#include <string.h>

enum { CONTINUATION = 0, TEXT = 1, CONTROL = 8, OPCODE = 0x0f, FIN = 0x80, RESERVED = 0x70, MASKED = 0x80 };

void frames_begin(struct frames *frames)
{
        memset(frames, 0, sizeof(*frames));
        usage_begin(&frames->usage, USAGE_MANY);
}

/* How long the head is, as far as it can be known: its second byte says it. */
static size_t head_size(const struct frames *frames)
{
        unsigned char length = frames->head[1] & 0x7f;

        if (frames->n_head < 2)
                return 2;
        return 2u + (length == 126 ? 2 : length == 127 ? 8 : 0) + (frames->head[1] & MASKED ? 4 : 0);
}

static uint64_t payload_size(const struct frames *frames)
{
        unsigned char length = frames->head[1] & 0x7f;
        size_t n = length == 126 ? 2 : length == 127 ? 8 : 0;
        uint64_t size = 0;

        for (size_t i = 0; i < n; i++)
                size = size << 8 | frames->head[2 + i];
        return n ? size : length;
}

static bool is_control(const struct frames *frames)
{
        return frames->head[0] & CONTROL;
}

/* Control frames come between the frames of a message, too. */
static void begin_frame(struct frames *frames)
{
        unsigned char opcode = frames->head[0] & OPCODE;

        frames->is_in_data = true;
        frames->left = payload_size(frames);
        if (is_control(frames) || opcode == CONTINUATION)
                return;
        frames->is_text = opcode == TEXT && !(frames->head[0] & RESERVED) && !(frames->head[1] & MASKED);
        usage_next(&frames->usage);
}

static void end_frame(struct frames *frames)
{
        if (!is_control(frames) && frames->head[0] & FIN)
                frames->is_text = false;
        frames->is_in_data = false;
        frames->n_head = 0;
}

void frames_feed(struct frames *frames, const void *data, size_t size)
{
        const unsigned char *at = data, *end = at + size;

        while (at < end) {
                size_t n = (size_t)(end - at);

                if (!frames->is_in_data) {
                        frames->head[frames->n_head++] = *at++;
                        if (frames->n_head == head_size(frames))
                                begin_frame(frames);
                } else {
                        n = n < frames->left ? n : (size_t)frames->left;
                        if (frames->is_text && !is_control(frames))
                                usage_feed(&frames->usage, at, n);
                        frames->left -= n;
                        at += n;
                }
                if (frames->is_in_data && !frames->left)
                        end_frame(frames);
        }
}
