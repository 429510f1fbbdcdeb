/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/checkpoint.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: absent, empty, or too long. */
static const char *name_at(const json_t *entry, const char *key)
{
        const json_t *json = json_object_get(entry, key);
        const char *text = json_string_value(json);

        /* A NUL inside would cut the name short. */
        return text && *text && json_string_length(json) == strlen(text) && strlen(text) < CHECKPOINT_NAME ? text :
                                                                                                             NULL;
}

static void take_list(struct checkpoint_row *row, const json_t *list)
{
        const json_t *id;
        size_t i;

        json_array_foreach (list, i, id)
                if (json_is_string(id))
                        row->ids[row->n_ids++] = json_string_value(id);
}

static void take_ids(struct checkpoint_row *row, const json_t *ids)
{
        take_list(row, ids);
        for (void *at = json_object_iter((json_t *)(uintptr_t)ids); at;
             at = json_object_iter_next((json_t *)(uintptr_t)ids, at))
                take_list(row, json_object_iter_value(at));
}

/* An upper bound of the ids. */
static size_t count_ids(const json_t *ids)
{
        size_t n = json_array_size(ids);

        for (void *at = json_object_iter((json_t *)(uintptr_t)ids); at;
             at = json_object_iter_next((json_t *)(uintptr_t)ids, at))
                n += json_array_size(json_object_iter_value(at));
        return n;
}

static int read_rows(const json_t *entries, struct checkpoint *checkpoint)
{
        size_t i, n_ids = 0;
        const json_t *entry;

        if (json_array_size(entries) > CHECKPOINT_ROWS)
                return -EFBIG;
        json_array_foreach (entries, i, entry)
                n_ids += count_ids(json_object_get(entry, "DeviceIDs"));
        checkpoint->rows = calloc(json_array_size(entries) + 1, sizeof(*checkpoint->rows));
        checkpoint->ids = calloc(n_ids + 1, sizeof(*checkpoint->ids));
        if (!checkpoint->rows || !checkpoint->ids)
                return -ENOMEM;
        n_ids = 0;
        json_array_foreach (entries, i, entry) {
                struct checkpoint_row *row = &checkpoint->rows[checkpoint->n_rows];

                *row = (struct checkpoint_row){ name_at(entry, "PodUID"), name_at(entry, "ContainerName"),
                                                name_at(entry, "ResourceName"), checkpoint->ids + n_ids, 0 };
                if (!row->pod || !row->container || !row->resource)
                        continue;
                take_ids(row, json_object_get(entry, "DeviceIDs"));
                n_ids += row->n_ids;
                checkpoint->n_rows++;
        }
        return 0;
}

int checkpoint_read(const char *text, size_t size, struct checkpoint *ret)
{
        struct checkpoint checkpoint = { 0 };
        const json_t *data, *entries;
        int r;

        if (size > CHECKPOINT_MAX)
                return -EFBIG;
        checkpoint.root = json_loadb(text, size, 0, NULL);
        data = json_object_get(checkpoint.root, "Data");
        entries = json_object_get(data, "PodDeviceEntries"); /* Go writes null for an empty list */
        r = json_is_object(data) && (json_is_array(entries) || json_is_null(entries)) ? 0 : -EPROTO;
        if (r == 0)
                r = read_rows(entries, &checkpoint);
        if (r < 0)
                checkpoint_done(&checkpoint);
        else
                *ret = checkpoint;
        return r;
}

/* The whole file. 0; -ENOENT: kubelet has never written one; -errno. */
static int read_file(const char *folder, char **ret, size_t *ret_size)
{
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *text = NULL;
        char path[512];
        struct stat st;
        ssize_t n;

        if ((size_t)snprintf(path, sizeof(path), "%s/" CHECKPOINT_FILE, folder) >= sizeof(path))
                return -ENAMETOOLONG;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > CHECKPOINT_MAX)
                return -EFBIG;
        text = malloc((size_t)st.st_size + 1);
        if (!text)
                return -ENOMEM;
        n = read(fd, text, (size_t)st.st_size); /* replaced by rename: the open file does not change */
        if (n < 0)
                return -errno;
        *ret = TAKE(text);
        *ret_size = (size_t)n;
        return 0;
}

int checkpoint_load(const char *folder, struct checkpoint *ret)
{
        _cleanup_(freep) char *text = NULL;
        size_t size = 0;
        int r = read_file(folder, &text, &size);

        return r < 0 ? r : checkpoint_read(text, size, ret);
}

void checkpoint_done(struct checkpoint *checkpoint)
{
        json_decref(checkpoint->root);
        free(checkpoint->ids);
        free(checkpoint->rows);
        *checkpoint = (struct checkpoint){ 0 };
}
