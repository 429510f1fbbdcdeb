/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/frames.h"

#include "unit.h"

#include <string.h>

#define DONE(n) "{\"type\":\"response.done\",\"response\":{\"usage\":{\"total_tokens\":" #n "}}}"

static unsigned char stream[1 << 18];
static size_t n_stream;

/* A frame of the server: its first byte as it is said; a short length, or one of 2 or of 8 bytes. */
static void put_frame(unsigned char first, const char *text, size_t size, size_t length)
{
        unsigned char *at = stream + n_stream;

        *at++ = first;
        *at++ = (unsigned char)(length == 0 ? size : length == 2 ? 126 : 127);
        for (size_t i = 0; i < length; i++)
                *at++ = (unsigned char)(size >> (8 * (length - 1 - i)));
        memcpy(at, text, size);
        n_stream = (size_t)(at - stream) + size;
}

static void put_text(unsigned char first, const char *what)
{
        put_frame(first, what, strlen(what), strlen(what) > 125 ? 2 : 0);
}

/* However it is cut. */
static uint64_t tokens(void)
{
        uint64_t n = 0;

        for (size_t piece = 1; piece < 70; piece = piece < 20 ? piece + 1 : piece + 13) {
                struct frames frames;

                frames_begin(&frames);
                for (size_t at = 0; at < n_stream; at += piece)
                        frames_feed(&frames, stream + at, n_stream - at < piece ? n_stream - at : piece);
                if (piece > 1)
                        assert_int_equal(frames.usage.earlier, n);
                n = frames.usage.earlier;
        }
        n_stream = 0;
        return n;
}

static void what_messages_say_is_added_up(void **state)
{
        (void)state;
        put_text(0x81, "{\"type\":\"session.created\",\"session\":{\"usage\":{\"total_tokens\":9}}}");
        put_text(0x81, DONE(40));
        put_text(0x81, "not JSON { [ \"");
        put_text(0x81, DONE(2));
        put_text(0x81, "{\"type\":\"transcription.done\",\"usage\":{\"type\":\"tokens\",\"total_tokens\":100}}");
        assert_int_equal(tokens(), 142);
}

static void a_message_may_come_in_frames_with_pings_between(void **state)
{
        (void)state;
        put_text(0x01, "{\"type\":\"response.done\",\"response\":{\"us");
        put_text(0x89, "{\"usage\":{\"total_tokens\":9}}");
        put_text(0x00, "age\":{\"total_tokens\":4");
        put_text(0x00, "");
        put_text(0x80, "1}}}");
        put_text(0x88, "");
        assert_int_equal(tokens(), 41);
}

static void lengths_are_of_three_kinds(void **state)
{
        static char large[70000];

        (void)state;
        memset(large, ' ', sizeof(large));
        memcpy(large + sizeof(large) - strlen(DONE(5)), DONE(5), strlen(DONE(5)));
        put_frame(0x81, large, sizeof(large), 8);
        put_frame(0x81, large + sizeof(large) - 300, 300, 2);
        put_frame(0x81, DONE(5), strlen(DONE(5)), 0);
        assert_int_equal(tokens(), 15);
}

/* Bytes, and what an extension or a mask has changed. */
static void what_cannot_be_read_is_skipped(void **state)
{
        (void)state;
        put_text(0x82, DONE(1));
        put_text(0xc1, DONE(2));
        put_text(0x41, DONE(3));
        put_text(0x80, DONE(4));
        put_text(0x81, DONE(5));
        assert_int_equal(tokens(), 5);
        memcpy(stream, "\x81\x85\0\0\0\0{}{}{", 11);
        n_stream = 11;
        put_text(0x81, DONE(6));
        assert_int_equal(tokens(), 6);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_messages_say_is_added_up),
                cmocka_unit_test(a_message_may_come_in_frames_with_pings_between),
                cmocka_unit_test(lengths_are_of_three_kinds),
                cmocka_unit_test(what_cannot_be_read_is_skipped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
