/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra/book.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/dra/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
        PERMILLE = 1000,
        BOOK_PATH = 512,
};

/* ---- the file ---- */

static bool is_book(const json_t *root)
{
        const json_t *claim;
        const char *uid;

        if (!json_is_object(root))
                return false;
        json_object_foreach ((json_t *)(uintptr_t)root, uid, claim)
                if (!json_is_array(json_object_get(claim, "devices")) || !json_is_array(json_object_get(claim, "rows")))
                        return false;
        return true;
}

int book_open(struct book *book, const char *path, struct err *err)
{
        json_t *root = NULL;
        json_error_t wrong;

        *book = (struct book){ .path = path };
        if (access(path, F_OK) < 0 && errno == ENOENT)
                root = json_object();
        else
                root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
        if (!is_book(root)) {
                json_decref(root);
                return err_say(err, -EPROTO,
                               "%s is no book of prepared claims: move it away, and delete the pods of "
                               "this node that have claims of ours",
                               path);
        }
        book->claims = root;
        return 0;
}

void book_done(struct book *book)
{
        json_decref(book->claims);
        *book = (struct book){ 0 };
}

static int write_whole(int fd, const char *text, size_t size)
{
        while (size) {
                ssize_t n = write(fd, text, size);

                if (n < 0)
                        return -errno;
                text += n;
                size -= (size_t)n;
        }
        return fsync(fd) < 0 ? -errno : 0;
}

static int save(const struct book *book, struct err *err)
{
        _cleanup_(freep) char *text = json_dumps(book->claims, JSON_COMPACT | JSON_SORT_KEYS);
        _cleanup_(closep) int fd = -1;
        char temporary[BOOK_PATH];
        int r;

        if (!text || (size_t)snprintf(temporary, sizeof(temporary), "%s.new", book->path) >= sizeof(temporary))
                return err_set(err, -ENOMEM, "%s", book->path);
        fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        r = fd < 0 ? -errno : write_whole(fd, text, strlen(text));
        if (r == 0 && rename(temporary, book->path) < 0)
                r = -errno;
        return r < 0 ? err_set(err, r, "writing %s", book->path) : 0;
}

/* ---- claims ---- */

const json_t *book_find(const struct book *book, const char *uid)
{
        return json_object_get(book->claims, uid);
}

/* claim: NULL is none; taken. */
static int replace(struct book *book, const char *uid, json_t *claim, struct err *err)
{
        json_t *old = json_incref(json_object_get(book->claims, uid));
        int r;

        if (claim ? json_object_set_new(book->claims, uid, claim) < 0 : json_object_del(book->claims, uid) < 0) {
                json_decref(old);
                return err_set(err, -ENOMEM, "claim %.64s", uid);
        }
        r = save(book, err);
        if (r < 0 && old)
                (void)json_object_set(book->claims, uid, old);
        else if (r < 0)
                (void)json_object_del(book->claims, uid);
        json_decref(old);
        return r;
}

int book_put(struct book *book, const char *uid, json_t *claim, struct err *err)
{
        if (!json_equal(json_object_get(book->claims, uid), claim))
                return replace(book, uid, claim, err);
        json_decref(claim);
        return 0;
}

int book_drop(struct book *book, const char *uid, struct err *err)
{
        return json_object_get(book->claims, uid) ? replace(book, uid, NULL, err) : 0;
}

/* ---- the table ---- */

static bool is_same(const json_t *a, const json_t *b)
{
        static const char *const keys[] = { "pod", "container", "uuid" };

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (strcmp(claim_text(a, keys[i]), claim_text(b, keys[i])) != 0)
                        return false;
        return true;
}

static int add_row(json_t *rows, const json_t *row)
{
        json_int_t memory = json_integer_value(json_object_get(row, "mem_bytes")),
                   share = json_integer_value(json_object_get(row, "share_permille"));
        json_t *have;
        size_t i;

        json_array_foreach (rows, i, have) {
                if (!is_same(have, row))
                        continue;
                memory += json_integer_value(json_object_get(have, "mem_bytes"));
                share += json_integer_value(json_object_get(have, "share_permille"));
                return json_object_set_new(have, "mem_bytes", json_integer(memory)) < 0 ||
                                       json_object_set_new(have, "share_permille",
                                                           json_integer(share < PERMILLE ? share : PERMILLE)) < 0 ?
                               -ENOMEM :
                               0;
        }
        return json_array_append_new(rows, json_copy((json_t *)(uintptr_t)row));
}

json_t *book_table(const struct book *book)
{
        json_t *rows = json_array(), *claim;
        const json_t *row;
        const char *uid;
        size_t i;
        int r = rows ? 0 : -ENOMEM;

        json_object_foreach (book->claims, uid, claim)
                json_array_foreach (json_object_get(claim, "rows"), i, row)
                        if (r == 0)
                                r = add_row(rows, row);
        if (r == 0)
                return json_pack("{s:o}", "allocations", rows);
        json_decref(rows);
        return NULL;
}
