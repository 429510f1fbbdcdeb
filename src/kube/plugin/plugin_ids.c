/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their ids: how many, how they are written, and which device an id means. */
#include "kube/plugin/plugin.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BETWEEN "-_-"
#define IDS_MOST (1u << 30)

enum {
        PERCENT = 100,
        DIGITS_MAX = 10, /* of an id's number */
        INDEX_MAX = 1023,
        ID_COST = 32, /* bytes of an id in a list besides its text: tags, lengths, health, NUMA node */
};

unsigned int plugin_ids(const struct plugin_resource *resource, const struct plugin_device *device)
{
        bytes n;

        switch (resource->kind) {
        case PLUGIN_MEMORY:
                n = device->memory / resource->unit + device->lent / resource->unit;
                return n > IDS_MOST ? IDS_MOST : (unsigned int)n;
        case PLUGIN_SHARE:
                return PERCENT;
        case PLUGIN_COUNT:
                return 1;
        case PLUGIN_SEATS:
        case PLUGIN_MPS:
                return resource->seats;
        }
        return 0;
}

void plugin_id_format(const struct plugin_device *device, unsigned int number, char id[static PLUGIN_ID])
{
        (void)snprintf(id, PLUGIN_ID, "%s" BETWEEN "%u", device->uuid, number);
}

int plugin_id_parse(const struct plugin_resource *resource, const struct plugin_node *node, const char *id,
                    size_t *ret_device, unsigned int *ret_number)
{
        const char *between = strstr(id, BETWEEN);
        const char *digits = between ? between + strlen(BETWEEN) : NULL;
        uint64_t number;

        /* One spelling of a number: "07" must not be a second "7". */
        if (!between || (digits[0] == '0' && digits[1]) || number_parse(digits, &number) < 0)
                return -ENOENT;
        for (size_t i = 0; i < node->n_devices; i++) {
                const struct plugin_device *device = &node->devices[i];

                if (strlen(device->uuid) != (size_t)(between - id) ||
                    memcmp(device->uuid, id, (size_t)(between - id)) != 0)
                        continue;
                /* Kubelet may have some that were offered when more was lent: there they are only an amount. */
                if (number >=
                    (node->is_placed && resource->kind == PLUGIN_MEMORY ? IDS_MOST : plugin_ids(resource, device)))
                        return -ENOENT;
                *ret_device = i;
                *ret_number = (unsigned int)number;
                return 0;
        }
        return -ENOENT;
}

int plugin_fits(const struct plugin_resource *resource, const struct plugin_node *node, struct err *err)
{
        size_t size = 0, n = 0;
        char text[BYTES_TEXT];
        bytes unit;

        for (size_t i = 0; i < node->n_devices; i++) {
                size_t ids = plugin_ids(resource, &node->devices[i]);

                n += ids;
                size += ids * (strlen(node->devices[i].uuid) + strlen(BETWEEN) + DIGITS_MAX + ID_COST);
        }
        if (size <= PLUGIN_LIST_MAX)
                return 0;
        if (resource->kind != PLUGIN_MEMORY)
                return err_say(err, -EMSGSIZE, "%s: %zu ids are more than kubelet takes (4 MiB)", resource->name, n);
        for (unit = resource->unit; size > PLUGIN_LIST_MAX; unit *= 2)
                size /= 2;
        return err_say(err, -EMSGSIZE, "%s: %zu ids are more than kubelet takes (4 MiB): try a unit of %s",
                       resource->name, n, bytes_format(unit, text));
}

/* ---- the daemon's answer ---- */

static int parse_device(const json_t *row, struct plugin_device *ret)
{
        const json_t *memory = json_object_get(row, "memory_bytes"), *index = json_object_get(row, "index");
        const char *uuid = json_string_value(json_object_get(row, "uuid"));
        const char *state = json_string_value(json_object_get(row, "state"));
        const json_t *numa = json_object_get(row, "numa");

        if (!uuid || !*uuid || strlen(uuid) >= PLUGIN_UUID || strstr(uuid, BETWEEN) || !state)
                return -EPROTO;
        if (json_integer_value(memory) <= 0 || !json_is_integer(index) || json_integer_value(index) < 0 ||
            json_integer_value(index) > INDEX_MAX)
                return -EPROTO;
        *ret = (struct plugin_device){ .index = (unsigned int)json_integer_value(index),
                                       .numa = json_is_integer(numa) ? (int)json_integer_value(numa) : -1,
                                       .memory = (bytes)json_integer_value(memory),
                                       .is_healthy = !strcmp(state, "ok") };
        (void)snprintf(ret->uuid, sizeof(ret->uuid), "%s", uuid);
        return 0;
}

/* The daemon names devices by their indices; here they are places in the list. */
static uint32_t read_links(const json_t *row, const struct plugin_node *node)
{
        const json_t *one;
        uint32_t links = 0;
        size_t i;

        json_array_foreach (json_object_get(row, "nvlink"), i, one)
                for (size_t k = 0; k < node->n_devices; k++)
                        if (json_is_integer(one) && json_integer_value(one) == node->devices[k].index)
                                links |= UINT32_C(1) << k;
        return links;
}

int plugin_node_read(const json_t *root, struct plugin_node *ret)
{
        struct plugin_node node = { .is_daemon_up = true };
        json_int_t swap = json_integer_value(json_object_get(json_array_get(root, 0), "swap_bytes"));
        int r = json_is_array(root) && json_array_size(root) <= PLUGIN_DEVICES ? 0 : -EPROTO;

        for (size_t i = 0; r == 0 && i < json_array_size(root); i++)
                r = parse_device(json_array_get(root, i), &node.devices[node.n_devices++]);
        for (size_t i = 0; r == 0 && i < node.n_devices; i++)
                for (size_t k = 0; k < i; k++)
                        if (!strcmp(node.devices[i].uuid, node.devices[k].uuid))
                                r = -EPROTO;
        for (size_t i = 0; r == 0 && i < node.n_devices; i++)
                node.devices[i].nvlink = read_links(json_array_get(root, i), &node);
        node.swap = swap > 0 ? (bytes)swap : 0; /* the host's, the same in each row */
        if (r == 0)
                *ret = node;
        return r;
}

void plugin_node_lend(struct plugin_node *node)
{
        for (size_t i = 0; i < node->n_devices; i++)
                node->devices[i].lent = node->swap / node->n_devices;
}

bool plugin_node_equal(const struct plugin_node *a, const struct plugin_node *b)
{
        if (a->n_devices != b->n_devices || a->is_daemon_up != b->is_daemon_up || a->swap != b->swap)
                return false;
        for (size_t i = 0; i < a->n_devices; i++) {
                const struct plugin_device *x = &a->devices[i], *y = &b->devices[i];

                if (strcmp(x->uuid, y->uuid) != 0 || x->index != y->index || x->memory != y->memory ||
                    x->lent != y->lent || x->is_healthy != y->is_healthy || x->numa != y->numa ||
                    x->nvlink != y->nvlink)
                        return false;
        }
        return true;
}
