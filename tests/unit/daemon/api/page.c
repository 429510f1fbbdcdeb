/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "daemon/api/page/assets.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void the_page_is_in_the_program_as_it_is_in_the_tree(void **state)
{
        static const struct {
                const char *path, *file, *type;
        } files[] = {
                { "/", "src/daemon/api/page/index.html", "text/html; charset=utf-8" },
                { "/index.html", "src/daemon/api/page/index.html", "text/html; charset=utf-8" },
                { "/page.css", "src/daemon/api/page/page.css", "text/css; charset=utf-8" },
                { "/data.js", "src/daemon/api/page/data.js", "text/javascript; charset=utf-8" },
                { "/timeline.js", "src/daemon/api/page/timeline.js", "text/javascript; charset=utf-8" },
                { "/page.js", "src/daemon/api/page/page.js", "text/javascript; charset=utf-8" },
                { "/icon.svg", "src/daemon/api/page/icon.svg", "image/svg+xml" },
        };
        static char text[1 << 20];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                const struct page_asset *asset = page_asset_find(files[i].path);
                FILE *file = fopen(files[i].file, "rbe");
                size_t n;

                assert_non_null(asset);
                assert_non_null(file);
                n = fread(text, 1, sizeof(text), file);
                (void)fclose(file);
                assert_int_equal(asset->size, n);
                assert_memory_equal(asset->data, text, n);
                assert_string_equal(asset->type, files[i].type);
        }
}

static void what_is_no_file_of_the_page_is_not_found(void **state)
{
        static const char *const paths[] = {
                "", "page.js", "/page.j", "/page.jss", "/../page.js", "//", "/v1/version"
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                assert_null(page_asset_find(paths[i]));
}

static void tags_differ_when_the_bytes_do(void **state)
{
        (void)state;
        for (const struct page_asset *a = page_assets; a->path; a++) {
                assert_int_equal(a->etag[0], '"');
                assert_int_equal(a->etag[strlen(a->etag) - 1], '"');
                for (const struct page_asset *b = a + 1; b->path; b++)
                        assert_int_equal(!strcmp(a->etag, b->etag), a->data == b->data);
        }
}

/* An address that nobody asks. */
static bool is_name_of_svg(const char *at)
{
        static const char name[] = "http://www.w3.org/2000/svg";

        return !strncmp(at, name, strlen(name)) || !strncmp(at - strlen("http:"), name, strlen(name));
}

/* A comment of a script: it begins with two slashes, which are no address without a host behind them. */
static bool is_comment(const struct page_asset *asset, const char *at)
{
        return strstr(asset->path, ".js") && !strncmp(at, "// ", 3);
}

/* The policy refuses inline code and style, and other origins: so none may be in the files. */
static void nothing_in_the_page_is_inline_or_from_elsewhere(void **state)
{
        static const char *const never[] = { "http:",       "https:", "<style",    "style=\"", "onclick=", "onload=",
                                             "javascript:", "eval(",  "innerHTML", "@import",  "//" };

        (void)state;
        for (const struct page_asset *asset = page_assets; asset->path; asset++)
                for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
                        const char *at = strstr((const char *)asset->data, never[i]);

                        while (at && (is_comment(asset, at) || is_name_of_svg(at)))
                                at = strstr(at + strcspn(at, "\n"), never[i]);
                        if (at)
                                fail_msg("%s has %s", asset->path, never[i]);
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_page_is_in_the_program_as_it_is_in_the_tree),
                cmocka_unit_test(what_is_no_file_of_the_page_is_not_found),
                cmocka_unit_test(tags_differ_when_the_bytes_do),
                cmocka_unit_test(nothing_in_the_page_is_inline_or_from_elsewhere),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
