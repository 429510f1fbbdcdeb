/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "route/request/endpoint.h"

#include <string.h>

static const struct endpoint *row_of(enum endpoint_method method, const char *path)
{
        unsigned int methods;

        return endpoint_find(path, strlen(path), method, &methods);
}

static void what_clients_use_is_listed(void **state)
{
        (void)state;
        assert_int_equal(row_of(ENDPOINT_POST, "/v1/chat/completions")->model, ENDPOINT_NEEDED);
        assert_int_equal(row_of(ENDPOINT_POST, "/v1/audio/transcriptions")->body, ENDPOINT_FORM);
        assert_int_equal(row_of(ENDPOINT_GET, "/v1/realtime")->body, ENDPOINT_SOCKET);
        assert_int_equal(row_of(ENDPOINT_POST, "/v1/responses/input_tokens")->body, ENDPOINT_JSON);
        assert_true(row_of(ENDPOINT_GET, "/v1/responses/resp_1")->is_stored);
        assert_true(row_of(ENDPOINT_POST, "/v1/responses/resp_1/cancel")->is_stored);
        assert_non_null(row_of(ENDPOINT_POST, "/v1/messages/count_tokens"));
        assert_true(row_of(ENDPOINT_POST, "/v1/vector_stores")->is_stored); /* its files are somewhere */
        assert_true(row_of(ENDPOINT_POST, "/v1/vector_stores/vs_1/search")->is_stored);
        assert_true(row_of(ENDPOINT_GET, "/v1/fine_tuning/jobs/ft_1/events")->is_stored);
        assert_false(row_of(ENDPOINT_GET, "/v1/fine_tuning/jobs")->is_stored);
        assert_true(row_of(ENDPOINT_GET, "/v1/evals/e/runs/r/output_items/o")->is_stored);
        assert_non_null(row_of(ENDPOINT_DEL, "/v1/conversations/c/items/i"));
}

static void what_engines_are_administered_with_is_not(void **state)
{
        static const char *const paths[] = {
                "/sleep",
                "/wake_up",
                "/collective_rpc",
                "/v1/load_lora_adapter",
                "/flush_cache",
                "/metrics",
                "/reset_prefix_cache",
                "/update_weights_from_disk",
                "/v1/unload_lora_adapter",
                "/abort_request",
                "/start_profile",
                "/server_info",
                "/",
                "",
                "/v1",
                "/v1/",
                "/v1/chat/completions/",
                "/v1/responses/",
                "/v1/responses//cancel",
                "/v1/chat/completionsx",
                "/v1/chat/completion",
                "/v1/files/a/b/c",
                "//v1/chat/completions",
                "/V1/chat/completions",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                for (enum endpoint_method m = ENDPOINT_GET; m <= ENDPOINT_DEL; m = (enum endpoint_method)(m * 2))
                        assert_null(row_of(m, paths[i]));
}

static void another_method_is_told_apart_from_another_path(void **state)
{
        unsigned int methods;

        (void)state;
        assert_null(endpoint_find("/v1/completions", 15, ENDPOINT_GET, &methods));
        assert_int_equal(methods, ENDPOINT_POST);
        assert_null(endpoint_find("/v1/completions", 15, ENDPOINT_OTHER, &methods));
        assert_int_equal(methods, ENDPOINT_POST);
        assert_null(endpoint_find("/sleep", 6, ENDPOINT_POST, &methods));
        assert_int_equal(methods, 0);
}

static const char *field(const char *type, const char *body, const char *name)
{
        static char text[64];
        const char *found;
        size_t size;

        if (!endpoint_form_field(type, strlen(type), body, strlen(body), name, &found, &size) || size >= sizeof(text))
                return NULL;
        memcpy(text, found, size);
        text[size] = '\0';
        return text;
}

#define TYPE "multipart/form-data; boundary=xYz"
#define PART(name, value) "--xYz\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"

static void a_field_of_a_form_is_found_wherever_it_is(void **state)
{
        (void)state;
        assert_string_equal(field(TYPE, PART("model", "whisper") "--xYz--\r\n", "model"), "whisper");
        assert_string_equal(field(TYPE, PART("file", "\r\n--xY\r\nmodel") PART("model", "w 1") "--xYz--", "model"),
                            "w 1");
        assert_string_equal(
                field("Multipart/Form-Data; charset=utf-8; boundary=\"xYz\"", PART("model", "") "--xYz--\r\n", "model"),
                "");
        assert_string_equal(
                field(TYPE,
                      "--xYz\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name=model\r\n\r\n"
                      "m\r\n--xYz--",
                      "model"),
                "m");
}

static void what_is_no_form_has_no_field(void **state)
{
        (void)state;
        assert_null(field(TYPE, "", "model"));
        assert_null(field(TYPE, PART("model", "cut"), "file"));
        assert_null(field(TYPE, "--xYz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nnever ends", "model"));
        assert_null(field(TYPE, PART("modell", "m") PART("mode", "m") "--xYz--", "model"));
        assert_null(field("multipart/form-data", PART("model", "m") "--xYz--", "model"));
        assert_null(field("multipart/form-data; boundary=", PART("model", "m") "--xYz--", "model"));
        assert_null(field("application/json; boundary=xYz", PART("model", "m") "--xYz--", "model"));
        assert_null(field(TYPE, "--xYz--\r\n", "model"));
        assert_null(field(TYPE, "--xYz\r\n\r\n--xYz--", "model"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_clients_use_is_listed),
                cmocka_unit_test(what_engines_are_administered_with_is_not),
                cmocka_unit_test(another_method_is_told_apart_from_another_path),
                cmocka_unit_test(a_field_of_a_form_is_found_wherever_it_is),
                cmocka_unit_test(what_is_no_form_has_no_field),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
