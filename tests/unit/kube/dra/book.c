/* SPDX-License-Identifier: Apache-2.0 */
/* The book of prepared claims: across a restart, when it cannot be written, and the table that is made of it. */
#include "unit.h"

#include "base/err.h"
#include "kube/dra/book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static json_t *claim_of(const char *container, json_int_t memory, int share)
{
        return json_pack("{s:[{s:s}], s:[{s:s, s:s, s:s, s:I, s:i}]}", "devices", "device", "gpu-a", "rows", "pod", "u",
                         "container", container, "uuid", "GPU-A", "mem_bytes", memory, "share_permille", share);
}

static void test_restart(void **state)
{
        char folder[] = "/tmp/sublet-book-XXXXXX", path[64];
        struct err err = { 0 };
        struct book book;

        (void)state;
        assert_non_null(mkdtemp(folder));
        (void)snprintf(path, sizeof(path), "%s/claims.json", folder);
        assert_int_equal(book_open(&book, path, &err), 0);
        assert_int_equal(book_put(&book, "c1", claim_of("main", 4, 100), &err), 0);
        assert_int_equal(book_put(&book, "c2", claim_of("side", 8, 0), &err), 0);
        assert_int_equal(book_drop(&book, "c2", &err), 0);
        assert_int_equal(book_drop(&book, "never", &err), 0);
        book_done(&book);
        assert_int_equal(book_open(&book, path, &err), 0);
        assert_non_null(book_find(&book, "c1"));
        assert_null(book_find(&book, "c2"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(folder), 0);
        assert_true(book_put(&book, "c3", claim_of("main", 1, 0), &err) < 0); /* B1: not on disk, not prepared */
        assert_null(book_find(&book, "c3"));
        assert_true(book_drop(&book, "c1", &err) < 0);
        assert_non_null(book_find(&book, "c1"));
        book_done(&book);
}

/* B2 */
static void test_torn(void **state)
{
        char path[] = "/tmp/sublet-book-XXXXXX";
        int fd = mkstemp(path);
        struct err err = { 0 };
        struct book book;

        (void)state;
        assert_int_equal(write(fd, "{\"c1\":{\"dev", 11), 11);
        (void)close(fd);
        assert_int_equal(book_open(&book, path, &err), -EPROTO);
        assert_int_equal(unlink(path), 0);
}

static void test_table(void **state)
{
        struct book book = { .claims = json_object() };
        json_t *table, *rows;

        (void)state;
        (void)json_object_set_new(book.claims, "c1", claim_of("main", 4, 600));
        (void)json_object_set_new(book.claims, "c2", claim_of("main", 8, 600));
        (void)json_object_set_new(book.claims, "c3", claim_of("side", 1, 0));
        table = book_table(&book);
        rows = json_object_get(table, "allocations");
        assert_int_equal(json_array_size(rows), 2);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "mem_bytes")), 12);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "share_permille")), 1000);
        json_decref(table);
        table = book_table(&book); /* what was added up is not in the book */
        assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(table, "allocations"), 0),
                                                            "mem_bytes")),
                         12);
        json_decref(table);
        json_decref(book.claims);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_restart), cmocka_unit_test(test_torn),
                                            cmocka_unit_test(test_table) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
