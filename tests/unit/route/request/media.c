/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/prefix.h"
#include "route/request/media.h"
#include "route/request/scan.h"

#include <stdio.h>
#include <string.h>

/* 1920 x 1080 each; the JPEG has an EXIF part before its frame. */
#define PNG "iVBORw0KGgoAAAANSUhEUgAAB4AAAAQ4CAIAAAA="
#define JPEG "/9j/4QAIRXhpZgAA/8AAEQgEOAeAAwEiAAIRAQMRAQ=="

static struct media media;

static void read_text(const char *text, size_t step)
{
        media_begin(&media);
        for (size_t at = 0, size = strlen(text); at < size; at += step)
                media_feed(&media, text + at, step < size - at ? step : size - at);
}

static void assert_size(const char *text, uint32_t width, uint32_t height)
{
        for (size_t step = 1; step < 9; step++) {
                read_text(text, step);
                assert_int_equal(media.width, width);
                assert_int_equal(media.height, height);
        }
}

static void the_header_of_a_picture_has_its_size(void **state)
{
        (void)state;
        assert_size("data:image/png;base64," PNG, 1920, 1080);
        assert_size("data:image/jpeg;base64," JPEG, 1920, 1080);
        assert_size(PNG, 1920, 1080);
        assert_size(JPEG, 1920, 1080);
}

static void what_is_no_picture_has_no_size(void **state)
{
        (void)state;
        assert_size("", 0, 0);
        assert_size("https://example.com/a.png", 0, 0);
        assert_size("https://example.com/a," PNG, 0, 0);
        assert_size("data:image/png;base64,iVBORw0KGgoAAAAN", 0, 0);
        assert_size("iVBORw0KGgoAAAANSUhEUgAAAAAAAAQ4CAIAAAA=", 0, 0);
        assert_size("/9j/4QAB", 0, 0);
        assert_size("/9j/2Q==", 0, 0);
        assert_size("UklGRiQAAABXQVZF", 0, 0);
}

static uint32_t tokens(const char *model, uint32_t width, uint32_t height)
{
        return media_tokens(media_family(model), MEDIA_IMAGE, width, height);
}

static void the_formula_of_a_family_is_its_price(void **state)
{
        (void)state;
        assert_int_equal(tokens("Qwen/Qwen2.5-VL-7B-Instruct", 1920, 1080), 69 * 39);
        assert_int_equal(tokens("qwen3-vl-8b", 1920, 1080), 60 * 34);
        assert_int_equal(tokens("qwen2-vl", 1, 1), 4);
        assert_int_equal(tokens("qwen2-vl", 60000, 60000), 16384);
        assert_int_equal(tokens("OpenGVLab/InternVL3-8B", 448, 448), 256);
        assert_int_equal(tokens("internvl", 1792, 896), 9 * 256);
        assert_int_equal(tokens("internvl", 100, 30000), 13 * 256);
        assert_int_equal(tokens("llava-1.5-7b", 4000, 10), 576);
        assert_int_equal(tokens("google/gemma-3-27b-it", 4000, 10), 256);
        assert_int_equal(tokens("something", 0, 0), 37 * 37);
        assert_int_equal(media_tokens(media_family("qwen2-vl"), MEDIA_VIDEO, 0, 0), 16 * 768);
        assert_int_equal(media_tokens(media_family("qwen2-vl"), MEDIA_OTHER, 0, 0), 0);
}

static struct scan scan;
static struct prefix prefix;

static uint64_t size_of(const char *body)
{
        const struct media_family *family;

        scan_begin(&scan, &prefix);
        assert_int_equal(scan_feed(&scan, body, strlen(body)), SCAN_OK);
        assert_int_equal(scan_end(&scan), SCAN_OK);
        if (scan.is_misjudged) {
                family = scan.family;
                scan_begin(&scan, &prefix);
                scan_family(&scan, family);
                assert_int_equal(scan_feed(&scan, body, strlen(body)), SCAN_OK);
                assert_int_equal(scan_end(&scan), SCAN_OK);
        }
        return prefix.size;
}

#define PART(key, value) "\"messages\":[{\"content\":[{\"" key "\":" value "}]}]"

static void a_prompt_is_as_long_as_its_media(void **state)
{
        const uint64_t picture = (uint64_t)69 * 39 * 4, clip = (uint64_t)16 * 768 * 4;

        (void)state;
        assert_int_equal(size_of("{\"model\":\"qwen2-vl\"," PART("image_url", "{\"url\":\"" PNG "\"}") "}"),
                         picture + 1);
        assert_false(scan.is_misjudged);
        assert_int_equal(size_of("{\"model\":\"qwen2-vl\"," PART("image_url", "\"" JPEG "\"") "}"), picture + 1);
        assert_int_equal(size_of("{\"model\":\"qwen2-vl\"," PART("source", "{\"data\":\"" PNG "\"}") "}"), picture + 1);
        assert_int_equal(size_of("{\"model\":\"qwen2-vl\"," PART("video_url", "{\"url\":\"https://x\"}") "}"),
                         clip + 1);
        assert_int_equal(size_of("{\"model\":\"qwen2-vl\"," PART("input_audio", "{\"data\":\"UklG\"}") "}"), 8 + 1);
}

static void the_model_may_come_after_them(void **state)
{
        uint64_t first, before = size_of("{\"model\":\"qwen3-vl\"," PART("image_url", "\"" PNG "\"") "}");

        (void)state;
        first = prefix.chain[prefix.n_blocks - 1];
        assert_int_equal(size_of("{" PART("image_url", "\"" PNG "\"") ",\"model\":\"qwen3-vl\"}"), before);
        assert_int_equal(prefix.chain[prefix.n_blocks - 1], first);
}

static void a_full_prefix_takes_no_more(void **state)
{
        (void)state;
        prefix_begin(&prefix);
        for (int i = 0; i < 1000; i++)
                media_put(&prefix, (uint64_t)i, MEDIA_TOKENS_MOST);
        assert_int_equal(prefix.n_blocks, PREFIX_BLOCKS);
        assert_true(prefix.size < (uint64_t)PREFIX_BLOCKS * PREFIX_LARGE + 10000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_header_of_a_picture_has_its_size),
                cmocka_unit_test(what_is_no_picture_has_no_size),
                cmocka_unit_test(the_formula_of_a_family_is_its_price),
                cmocka_unit_test(a_prompt_is_as_long_as_its_media),
                cmocka_unit_test(the_model_may_come_after_them),
                cmocka_unit_test(a_full_prefix_takes_no_more),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
