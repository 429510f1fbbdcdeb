/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/allocations.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What Kubernetes allows in names. They go into log lines and labels unescaped. */
static bool is_name(const char *text, size_t room)
{
        size_t n = strlen(text);

        for (size_t i = 0; i < n; i++)
                if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
                        return false;
        return n && n < room;
}

static int read_name(const json_t *row, const char *key, bool is_needed, char *ret, size_t room, struct err *err)
{
        const json_t *value = json_object_get(row, key);
        const char *text = value ? json_string_value(value) : "";

        ret[0] = '\0';
        if (!is_needed && text && !*text)
                return 0;
        if (!text || !is_name(text, room))
                return err_say(err, -EINVAL, "%s: 1 to %zu letters, digits, '.', '_' or '-'", key, room - 1);
        (void)snprintf(ret, room, "%s", text);
        return 0;
}

static int read_device(const json_t *row, const struct allocation_devices *devices, unsigned int *ret, struct err *err)
{
        const json_t *index = json_object_get(row, "device");
        const char *uuid = json_string_value(json_object_get(row, "uuid"));

        for (unsigned int i = 0; i < devices->n; i++)
                if (uuid ? !strcmp(uuid, devices->uuids[i]) :
                           json_is_integer(index) && json_integer_value(index) == i) {
                        *ret = i;
                        return 0;
                }
        return err_say(err, -EINVAL, "device or uuid: none of this node's %u devices", devices->n);
}

static int read_number(const json_t *row, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
        const json_t *value = json_object_get(row, key);
        int64_t number = value ? json_integer_value(value) : 0;

        if ((value && !json_is_integer(value)) || number < least || number > most)
                return err_say(err, -EINVAL, "%s: a whole number from %lld", key, (long long)least);
        *ret = number;
        return 0;
}

static struct allocation *allocation_find(const struct allocations *allocations, const char *pod, const char *container)
{
        for (size_t i = 0; i < allocations->n; i++)
                if (!strcmp(allocations->rows[i].pod, pod) && !strcmp(allocations->rows[i].container, container))
                        return &allocations->rows[i];
        return NULL;
}

const struct allocation *allocations_find(const struct allocations *allocations, const char *pod, const char *container)
{
        return allocation_find(allocations, pod, container);
}

/* Words, numbers and lists of words; what they mean is read when the container starts. */
static int read_word(const json_t *row, const char *key, char *ret, size_t room, struct err *err)
{
        const json_t *value = json_object_get(row, key);
        const char *text = value ? json_string_value(value) : "";
        size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.,%") : 0;

        if (!text || text[n] || n >= room)
                return err_say(err, -EINVAL, "%s: a text of at most %zu small letters, digits, '.', ',' or '%%'", key,
                               room - 1);
        memcpy(ret, text, n + 1);
        return 0;
}

static int read_terms(const json_t *row, struct allocation_terms *ret, struct err *err)
{
        int r;

        if ((r = read_word(row, "cap", ret->cap, sizeof(ret->cap), err)) < 0 ||
            (r = read_word(row, "class", ret->class, sizeof(ret->class), err)) < 0 ||
            (r = read_word(row, "latency", ret->latency, sizeof(ret->latency), err)) < 0 ||
            (r = read_word(row, "swap", ret->swap, sizeof(ret->swap), err)) < 0 ||
            (r = read_name(row, "group", false, ret->group, sizeof(ret->group), err)) < 0)
                return r;
        return read_word(row, "capabilities", ret->capabilities, sizeof(ret->capabilities), err);
}

static bool is_same(const struct allocation_terms *a, const struct allocation_terms *b)
{
        return !strcmp(a->cap, b->cap) && !strcmp(a->class, b->class) && !strcmp(a->latency, b->latency) &&
               !strcmp(a->swap, b->swap) && !strcmp(a->capabilities, b->capabilities) && !strcmp(a->group, b->group);
}

/* L2. A lease has one share for all its devices: the smallest. */
static int allocation_add(struct allocations *allocations, const struct allocation *row, unsigned int device,
                          struct err *err)
{
        struct allocation *there = allocation_find(allocations, row->pod, row->container);

        if (!there) {
                allocations->rows[allocations->n++] = *row;
                return 0;
        }
        if (there->memory[device])
                return err_say(err, -EINVAL, "container %s of pod %s has device %u twice", row->container, row->pod,
                               device);
        if (!is_same(&there->terms, &row->terms))
                return err_say(err, -EINVAL, "container %s of pod %s has other terms on device %u", row->container,
                               row->pod, device);
        there->memory[device] = row->memory[device];
        if (row->share && (!there->share || row->share < there->share))
                there->share = row->share;
        return 0;
}

static int read_row(const json_t *json, const struct allocation_devices *devices, struct allocations *allocations,
                    struct err *err)
{
        struct allocation row = { 0 };
        unsigned int device = 0;
        int64_t memory = 0, share = 0;
        int r;

        if (!json_is_object(json))
                return err_say(err, -EINVAL, "not an object");
        if ((r = read_name(json, "pod", true, row.pod, sizeof(row.pod), err)) < 0 ||
            (r = read_name(json, "container", true, row.container, sizeof(row.container), err)) < 0 ||
            (r = read_name(json, "namespace", false, row.namespace, sizeof(row.namespace), err)) < 0 ||
            (r = read_name(json, "name", false, row.name, sizeof(row.name), err)) < 0 ||
            (r = read_device(json, devices, &device, err)) < 0 ||
            (r = read_number(json, "mem_bytes", 1, INT64_MAX, &memory, err)) < 0 ||
            (r = read_number(json, "share_permille", 0, TURNS_WHOLE, &share, err)) < 0 ||
            (r = read_terms(json, &row.terms, err)) < 0)
                return r;
        row.memory[device] = (bytes)memory;
        row.share = (permille)share;
        return allocation_add(allocations, &row, device, err);
}

int allocations_read(const json_t *body, const struct allocation_devices *devices, struct allocations *ret,
                     struct err *err)
{
        _cleanup_(allocations_done) struct allocations allocations = { 0 };
        const json_t *array = json_object_get(body, "allocations");
        size_t n = json_array_size(array);

        if (!json_is_array(array))
                return err_say(err, -EINVAL, "the body is to be {\"allocations\":[...]} (docs/api.md)");
        if (n > ALLOCATIONS_MAX)
                return err_say(err, -EINVAL, "%zu allocations; at most %d", n, ALLOCATIONS_MAX);
        allocations.rows = calloc(n + 1, sizeof(*allocations.rows));
        if (!allocations.rows)
                return err_set(err, -ENOMEM, "allocations");
        for (size_t i = 0; i < n; i++) {
                int r = read_row(json_array_get(array, i), devices, &allocations, err);

                if (r < 0)
                        return err_while(err, "allocations[%zu]", i);
        }
        *ret = TAKE(allocations);
        return 0;
}

void allocations_keep(const struct allocations *allocations, const struct tenants *tenants,
                      bytes ret[static LEASE_DEVICES_MAX])
{
        memset(ret, 0, LEASE_DEVICES_MAX * sizeof(*ret));
        for (size_t i = 0; i < allocations->n; i++) {
                const struct allocation *row = &allocations->rows[i];

                if (strcmp(row->terms.swap, "false") != 0 || tenants_find_container(tenants, row->pod, row->container))
                        continue;
                for (unsigned int device = 0; device < LEASE_DEVICES_MAX; device++)
                        ret[device] += row->memory[device];
        }
}

void allocations_done(struct allocations *allocations)
{
        free(allocations->rows);
        *allocations = (struct allocations){ 0 };
}
