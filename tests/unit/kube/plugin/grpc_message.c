/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies, prefixes and texts of gRPC. */
#include "unit.h"

#include "base/cleanup.h"
#include "kube/plugin/grpc_inside.h"

#include <errno.h>
#include <string.h>

static void a_message_comes_out_as_it_went_in(void **state)
{
        uint8_t text[] = "what is said";
        const struct grpc_message said = { text, sizeof(text) };
        struct grpc_message heard;
        struct grpc_body body;

        (void)state;
        assert_int_equal(grpc_body_frame(&said, &body), 0);
        assert_int_equal(grpc_body_message(&body, &heard), GRPC_OK);
        assert_int_equal(heard.size, sizeof(text));
        assert_memory_equal(heard.data, text, sizeof(text));
        grpc_body_done(&body);
}

static void an_empty_message_is_one(void **state)
{
        const struct grpc_message said = { NULL, 0 };
        struct grpc_message heard = { NULL, 1 };
        struct grpc_body body;

        (void)state;
        assert_int_equal(grpc_body_frame(&said, &body), 0);
        assert_int_equal(body.size, GRPC_PREFIX);
        assert_int_equal(grpc_body_message(&body, &heard), GRPC_OK);
        assert_int_equal(heard.size, 0);
        grpc_body_done(&body);
}

static enum grpc_status status_of(const char *data, size_t size)
{
        _cleanup_(grpc_body_done) struct grpc_body body = { 0 };
        struct grpc_message message;

        /* Piece by piece, as it may come. */
        for (size_t i = 0; i < size; i++)
                assert_int_equal(grpc_body_add(&body, (const uint8_t *)data + i, 1), 0);
        return grpc_body_message(&body, &message);
}

static void what_is_not_one_message_is_refused(void **state)
{
        (void)state;
        assert_int_equal(status_of("", 0), GRPC_INTERNAL);
        assert_int_equal(status_of("\0\0\0\0", 4), GRPC_INTERNAL);
        assert_int_equal(status_of("\0\0\0\0\1", 5), GRPC_INTERNAL);
        assert_int_equal(status_of("\0\0\0\0\1aa", 7), GRPC_INTERNAL);
        assert_int_equal(status_of("\0\0\0\0\1a\0\0\0\0\1a", 12), GRPC_INTERNAL);
        assert_int_equal(status_of("\0\377\377\377\377a", 6), GRPC_INTERNAL);
        assert_int_equal(status_of("\1\0\0\0\1a", 6), GRPC_UNIMPLEMENTED);
        assert_int_equal(status_of("\0\0\0\0\1a", 6), GRPC_OK);
}

static void a_message_has_at_most_four_mib(void **state)
{
        _cleanup_(grpc_body_done) struct grpc_body body = { 0 };
        _cleanup_(freep) uint8_t *data = calloc(1, GRPC_MESSAGE_MAX + 1);
        const struct grpc_message large = { data, GRPC_MESSAGE_MAX + 1 };
        struct grpc_body framed;

        (void)state;
        assert_int_equal(grpc_body_frame(&large, &framed), -EMSGSIZE);
        assert_int_equal(grpc_body_add(&body, data, GRPC_MESSAGE_MAX), 0);
        assert_int_equal(grpc_body_add(&body, data, GRPC_PREFIX), 0);
        assert_int_equal(grpc_body_add(&body, data, 1), -EMSGSIZE);
}

static void a_text_has_nothing_that_a_header_must_not_have(void **state)
{
        char quoted[32], small[6];

        (void)state;
        grpc_text_quote("50% of\n\303\244", quoted, sizeof(quoted));
        assert_string_equal(quoted, "50%25 of%0A%C3%A4");
        grpc_text_quote("\n\n\n", small, sizeof(small)); /* no half of a quote */
        assert_string_equal(small, "%0A");
        grpc_text_quote("", small, sizeof(small));
        assert_string_equal(small, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_message_comes_out_as_it_went_in),
                cmocka_unit_test(an_empty_message_is_one),
                cmocka_unit_test(what_is_not_one_message_is_refused),
                cmocka_unit_test(a_message_has_at_most_four_mib),
                cmocka_unit_test(a_text_has_nothing_that_a_header_must_not_have),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
