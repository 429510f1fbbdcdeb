/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, lists, choices and grants of the device plugin, on literals. Messages are made by hand here: another hand than
 * the plugin's. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/plugin/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct plugin_node two = {
        .devices = { { .uuid = "GPU-a", .index = 0, .memory = 16 * GIB, .is_healthy = true, .numa = -1 },
                     { .uuid = "GPU-b", .index = 1, .memory = 8 * GIB + 1, .is_healthy = true, .numa = -1 } },
        .n_devices = 2,
        .is_daemon_up = true,
};
static const struct plugin_resource memory = { .name = "sublet.dev/gpu-mem", .kind = PLUGIN_MEMORY, .unit = GIB };
static const struct plugin_resource share = { .name = "sublet.dev/gpu-share", .kind = PLUGIN_SHARE };
static const struct plugin_resource count = { .name = "sublet.dev/gpu-count", .kind = PLUGIN_COUNT };
static const struct plugin_resource seats = { .name = "nvidia.com/gpu.shared", .kind = PLUGIN_SEATS, .seats = 4 };
static const struct plugin_resource mps = { .name = "nvidia.com/gpu.shared", .kind = PLUGIN_MPS, .seats = 4 };
static const struct plugin_ways plain = { .mps = "/run/mps" };

/* A message under way: fields of text, one after the other. */
struct writer {
        uint8_t data[4096];
        size_t size;
};

static void field_write(struct writer *writer, unsigned int number, const void *data, size_t size)
{
        assert_true(size < 1 << 14);
        writer->data[writer->size++] = (uint8_t)(number << 3 | 2);
        if (size >= 128)
                writer->data[writer->size++] = (uint8_t)(size | 128);
        writer->data[writer->size++] = (uint8_t)(size >= 128 ? size >> 7 : size);
        memcpy(writer->data + writer->size, data, size);
        writer->size += size;
}

static void put_ids(struct writer *writer, unsigned int number, const char *ids)
{
        char copy[1024], *rest = copy, *id;

        (void)snprintf(copy, sizeof(copy), "%s", ids);
        while ((id = strsep(&rest, " ")) != NULL)
                if (*id)
                        field_write(writer, number, id, strlen(id));
}

/* Whether an answer has this text in it. */
static bool has(const struct grpc_message *answer, const char *text)
{
        return memmem(answer->data, answer->size, text, strlen(text)) != NULL;
}

static int allocate(const struct plugin_resource *resource, const struct plugin_node *node,
                    const struct plugin_ways *ways, const char *ids, struct grpc_message *ret)
{
        struct writer container = { 0 }, request = { 0 };

        put_ids(&container, 1, ids);
        field_write(&request, 1, container.data, container.size);
        return plugin_allocate(resource, node, ways, &(struct grpc_message){ request.data, request.size }, ret, NULL);
}

static void a_device_has_as_many_ids_as_whole_units(void **state)
{
        (void)state;
        assert_int_equal(plugin_ids(&memory, &two.devices[0]), 16);
        assert_int_equal(plugin_ids(&memory, &two.devices[1]), 8); /* what is left over is nobody's */
        assert_int_equal(plugin_ids(&share, &two.devices[1]), 100);
        assert_int_equal(plugin_ids(&count, &two.devices[1]), 1);
        assert_int_equal(plugin_ids(&seats, &two.devices[1]), 4);
}

/* What is offered may become less: kubelet has what it has. */
static void host_memory_counts_in_ids_where_these_are_only_an_amount(void **state)
{
        struct plugin_node node = two;
        unsigned int number;
        size_t device;

        (void)state;
        node.swap = 20 * GIB;
        plugin_node_lend(&node);
        assert_int_equal(plugin_ids(&memory, &node.devices[0]), 16 + 10);
        assert_int_equal(plugin_ids(&memory, &node.devices[1]), 8 + 10);
        assert_int_equal(plugin_ids(&share, &node.devices[1]), 100);
        assert_false(plugin_node_equal(&node, &two));
        assert_int_equal(plugin_id_parse(&memory, &node, "GPU-b-_-17", &device, &number), 0);
        assert_int_equal(plugin_id_parse(&memory, &node, "GPU-b-_-18", &device, &number), -ENOENT);
        node = two;
        node.is_placed = true;
        assert_int_equal(plugin_id_parse(&memory, &node, "GPU-b-_-17", &device, &number), 0);
        assert_int_equal(plugin_id_parse(&share, &node, "GPU-b-_-100", &device, &number), -ENOENT);
}

static void an_id_has_one_spelling(void **state)
{
        unsigned int number;
        char id[PLUGIN_ID];
        size_t device;

        (void)state;
        plugin_id_format(&two.devices[1], 7, id);
        assert_string_equal(id, "GPU-b-_-7");
        assert_int_equal(plugin_id_parse(&memory, &two, id, &device, &number), 0);
        assert_int_equal(device, 1);
        assert_int_equal(number, 7);
        assert_int_equal(plugin_id_parse(&memory, &two, "GPU-a-_-0", &device, &number), 0);
        for (const char *const *bad =
                     (const char *const[]){ "GPU-b-_-8", "GPU-b-_-07", "GPU-b-_-", "GPU-b-_--1", "GPU-b-_-0x1",
                                            "GPU-b-_-1 ", "GPU-c-_-1", "GPU--_-1", "GPU-b", "-_-1", "", NULL };
             *bad; bad++)
                assert_int_equal(plugin_id_parse(&memory, &two, *bad, &device, &number), -ENOENT);
}

static void a_list_has_every_id_and_its_health(void **state)
{
        _cleanup_(grpc_message_done) struct grpc_message all = { 0 };
        struct plugin_node node = two;

        (void)state;
        node.devices[0].is_healthy = false;
        assert_int_equal(plugin_list(&seats, &node, &all), 0);
        assert_int_equal(all.size, 4 * (2 + 11 + 11) + 4 * (2 + 11 + 9));
        assert_true(has(&all, "GPU-a-_-3\x12\tUnhealthy"));
        assert_true(has(&all, "GPU-b-_-3\x12\aHealthy"));
        grpc_message_done(&all);
        node.is_daemon_up = false;
        assert_int_equal(plugin_list(&seats, &node, &all), 0);
        assert_false(has(&all, "\aHealthy"));
}

static void a_list_that_kubelet_would_not_take_is_refused_with_a_unit_that_it_would(void **state)
{
        struct plugin_resource small = memory;
        struct plugin_node node = two;
        struct grpc_message list;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(plugin_fits(&memory, &two, NULL), 0);
        small.unit = MIB;
        node.devices[0].memory = 140 * GIB;
        assert_int_equal(plugin_fits(&small, &node, &err), -EMSGSIZE);
        assert_non_null(strstr(err.text, "try a unit of 2 MiB"));
        assert_int_equal(plugin_list(&small, &node, &list), -EMSGSIZE);
        small.unit = 2 * MIB;
        assert_int_equal(plugin_fits(&small, &node, NULL), 0);
}

static void memory_is_a_sum_on_one_device(void **state)
{
        _cleanup_(grpc_message_done) struct grpc_message answer = { 0 };
        struct grpc_message none;

        (void)state;
        assert_int_equal(allocate(&memory, &two, &plain, "GPU-b-_-0 GPU-b-_-7 GPU-b-_-3", &answer), 0);
        assert_true(has(&answer, "3221225472"));
        assert_true(has(&answer, "GPU-b"));
        assert_false(has(&answer, "GPU-a"));
        assert_int_equal(allocate(&memory, &two, &plain, "GPU-b-_-0 GPU-a-_-0", &none), -EBUSY);
}

static void what_is_not_ours_to_give_is_not_given(void **state)
{
        struct plugin_node node = two;
        struct grpc_message none;

        (void)state;
        assert_int_equal(allocate(&memory, &two, &plain, "", &none), -EINVAL);
        assert_int_equal(allocate(&memory, &two, &plain, "GPU-b-_-0 GPU-b-_-0", &none), -EINVAL);
        assert_int_equal(allocate(&memory, &two, &plain, "GPU-c-_-0", &none), -ENOENT);
        assert_int_equal(allocate(&count, &two, &plain, "GPU-a-_-0", &none), -EINVAL);
        node.devices[1].is_healthy = false;
        assert_int_equal(allocate(&memory, &node, &plain, "GPU-b-_-0", &none), -EBUSY);
        node.is_daemon_up = false;
        assert_int_equal(allocate(&memory, &node, &plain, "GPU-a-_-0", &none), -EAGAIN);
}

static void more_than_all_of_a_devices_time_is_refused(void **state)
{
        struct writer container = { 0 }, request = { 0 };
        struct grpc_message answer;
        char id[PLUGIN_ID];

        (void)state;
        for (unsigned int i = 0; i < 101; i++) {
                plugin_id_format(&two.devices[i % 2], i / 2, id);
                field_write(&container, 1, id, strlen(id));
        }
        field_write(&request, 1, container.data, container.size);
        assert_int_equal(plugin_allocate(&share, &two, &plain, &(struct grpc_message){ request.data, request.size },
                                         &answer, NULL),
                         -EBUSY);
        /* The extender gives a part of several: kubelet counts the sum, of which the container is told nothing. */
        assert_int_equal(plugin_allocate(&share, &two, &(struct plugin_ways){ .is_placed = true },
                                         &(struct grpc_message){ request.data, request.size }, &answer, NULL),
                         0);
        assert_false(has(&answer, "SUBLET_SHARE"));
        grpc_message_done(&answer);
}

static void under_mps_a_container_is_on_one_device(void **state)
{
        _cleanup_(grpc_message_done) struct grpc_message answer = { 0 };
        struct grpc_message none;

        (void)state;
        assert_int_equal(allocate(&mps, &two, &plain, "GPU-a-_-0", &answer), 0);
        assert_true(has(&answer, "0=4096M"));
        assert_true(has(&answer, "/run/mps"));
        assert_int_equal(allocate(&mps, &two, &plain, "GPU-a-_-0 GPU-b-_-0", &none), -EBUSY);
        assert_int_equal(allocate(&seats, &two, &plain, "GPU-a-_-0 GPU-b-_-0", &none), 0);
        assert_true(has(&none, "GPU-a,GPU-b"));
        grpc_message_done(&none);
}

/* "" where it is refused. */
static const char *prefer_of(const struct plugin_node *node, const struct plugin_resource *resource,
                             const char *available, const char *must, uint8_t size)
{
        static char text[1024];
        struct writer container = { 0 }, request = { 0 };
        struct grpc_message answer = { 0 };
        size_t n = 0;

        put_ids(&container, 1, available);
        put_ids(&container, 2, must);
        container.data[container.size++] = 3 << 3;
        container.data[container.size++] = size;
        field_write(&request, 1, container.data, container.size);
        text[0] = '\0';
        if (plugin_prefer(resource, node, &(struct grpc_message){ request.data, request.size }, &answer, NULL) < 0)
                return text;
        for (size_t at = 2; at < answer.size; at += 2u + answer.data[at + 1])
                n += (size_t)sprintf(text + n, "%s%.*s", n ? " " : "", answer.data[at + 1], answer.data + at + 2);
        grpc_message_done(&answer);
        return text;
}

static const char *prefer(const struct plugin_resource *resource, const char *available, const char *must, uint8_t size)
{
        return prefer_of(&two, resource, available, must, size);
}

static void memory_is_packed_where_least_is_left_and_enough(void **state)
{
        const char *free = "GPU-a-_-0 GPU-a-_-1 GPU-a-_-2 GPU-b-_-5 GPU-b-_-4";

        (void)state;
        assert_string_equal(prefer(&memory, free, "", 2), "GPU-b-_-4 GPU-b-_-5");
        assert_string_equal(prefer(&memory, free, "", 3), "GPU-a-_-0 GPU-a-_-1 GPU-a-_-2");
        assert_string_equal(prefer(&memory, free, "GPU-a-_-2", 2), "GPU-a-_-2 GPU-a-_-0");
        assert_string_equal(prefer(&memory, free, "", 4), "GPU-a-_-0 GPU-a-_-1 GPU-a-_-2 GPU-b-_-4");
}

static void seats_are_spread(void **state)
{
        (void)state;
        assert_string_equal(prefer(&seats, "GPU-a-_-0 GPU-a-_-1 GPU-b-_-0 GPU-b-_-1", "", 2), "GPU-a-_-0 GPU-b-_-0");
        assert_string_equal(prefer(&seats, "GPU-a-_-0 GPU-b-_-0 GPU-b-_-1", "", 1), "GPU-b-_-0");
}

static void seats_on_several_devices_are_on_neighbours(void **state)
{
        static const char free[] = "GPU-a-_-0 GPU-a-_-1 GPU-b-_-0 GPU-c-_-0 GPU-c-_-1 GPU-d-_-0";
        struct plugin_node four = { .devices = { { .uuid = "GPU-a", .nvlink = 8 },
                                                 { .uuid = "GPU-b", .nvlink = 4 },
                                                 { .uuid = "GPU-c", .nvlink = 2 },
                                                 { .uuid = "GPU-d", .nvlink = 1 } },
                                    .n_devices = 4,
                                    .is_daemon_up = true };

        (void)state;
        assert_string_equal(prefer_of(&four, &seats, free, "", 2), "GPU-a-_-0 GPU-d-_-0");
        assert_string_equal(prefer_of(&four, &seats, free, "GPU-b-_-0", 2), "GPU-b-_-0 GPU-c-_-0");
        assert_string_equal(prefer_of(&four, &seats, "GPU-a-_-0 GPU-b-_-0", "", 2), "GPU-a-_-0 GPU-b-_-0");
        assert_int_equal(strlen(prefer_of(&four, &seats, free, "", 5)), strlen("GPU-a-_-0") * 5 + 4);
        four.devices[0].nvlink = four.devices[1].nvlink = four.devices[2].nvlink = four.devices[3].nvlink = 0;
        four.devices[0].numa = four.devices[1].numa = 1;
        assert_string_equal(prefer_of(&four, &seats, "GPU-a-_-0 GPU-c-_-0 GPU-d-_-0", "", 2), "GPU-c-_-0 GPU-d-_-0");
}

static bool names_node(const struct plugin_node *node, const char *topology, size_t size)
{
        _cleanup_(grpc_message_done) struct grpc_message answer = { 0 };

        assert_int_equal(plugin_list(&memory, node, &answer), 0);
        return memmem(answer.data, answer.size, topology, size) != NULL;
}

static void kubelet_is_told_the_numa_node_where_ids_mean_a_device(void **state)
{
        static const char one[] = { 3 << 3 | 2, 4, 1 << 3 | 2, 2, 1 << 3, 1 }; /* topology { nodes { ID: 1 } } */
        struct plugin_node node = two;

        (void)state;
        node.devices[0].numa = node.devices[1].numa = -1;
        assert_false(names_node(&node, "\x1a", 1));
        node.devices[1].numa = 1;
        assert_true(names_node(&node, one, sizeof(one)));
        node.is_placed = true; /* the extender places */
        assert_false(names_node(&node, "\x1a", 1));
}

static void a_choice_that_cannot_be_is_refused(void **state)
{
        (void)state;
        assert_string_equal(prefer(&memory, "GPU-a-_-0", "", 2), "");
        assert_string_equal(prefer(&memory, "GPU-a-_-0 GPU-a-_-0", "", 1), "");
        assert_string_equal(prefer(&memory, "GPU-a-_-0", "GPU-a-_-1", 1), "");
        assert_string_equal(prefer(&memory, "GPU-a-_-0 GPU-a-_-1", "GPU-a-_-0 GPU-a-_-0", 2), "");
        assert_string_equal(prefer(&memory, "GPU-a-_-0 GPU-a-_-1", "GPU-a-_-0 GPU-a-_-1", 1), "");
        assert_string_equal(prefer(&memory, "GPU-c-_-0", "", 1), "");
}

static int read_node(const char *text, struct plugin_node *ret)
{
        json_t *root = json_loads(text, 0, NULL);
        int r = plugin_node_read(root, ret);

        json_decref(root);
        return r;
}

static void the_daemons_answer_is_read_whole_or_not_at_all(void **state)
{
        struct plugin_node node = { 0 };

        (void)state;
        assert_int_equal(read_node("[{\"index\":3,\"uuid\":\"GPU-a\",\"memory_bytes\":5,\"state\":\"ok\",\"new\":1,"
                                   "\"numa\":null,\"nvlink\":[4,9]},"
                                   "{\"index\":4,\"uuid\":\"GPU-b\",\"memory_bytes\":5,\"state\":\"lost\",\"numa\":1}]",
                                   &node),
                         0);
        assert_int_equal(node.n_devices, 2);
        assert_int_equal(node.devices[0].index, 3);
        assert_true(node.devices[0].is_healthy);
        assert_false(node.devices[1].is_healthy);
        assert_true(node.is_daemon_up);
        assert_int_equal(node.devices[0].numa, -1);
        assert_int_equal(node.devices[0].nvlink, 2); /* by place, not by the daemon's number */
        assert_int_equal(node.devices[1].numa, 1);
        assert_int_equal(read_node("{}", &node), -EPROTO);
        assert_int_equal(read_node("[{\"index\":3,\"uuid\":\"GPU-a\",\"state\":\"ok\"}]", &node), -EPROTO);
        assert_int_equal(read_node("[{\"index\":3,\"uuid\":\"GPU-_-a\",\"memory_bytes\":5,\"state\":\"ok\"}]", &node),
                         -EPROTO);
        assert_int_equal(read_node("[{\"index\":3,\"uuid\":\"GPU-a\",\"memory_bytes\":5,\"state\":\"ok\"},"
                                   "{\"index\":4,\"uuid\":\"GPU-a\",\"memory_bytes\":5,\"state\":\"ok\"}]",
                                   &node),
                         -EPROTO);
        assert_int_equal(node.n_devices, 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_device_has_as_many_ids_as_whole_units),
                cmocka_unit_test(host_memory_counts_in_ids_where_these_are_only_an_amount),
                cmocka_unit_test(an_id_has_one_spelling),
                cmocka_unit_test(a_list_has_every_id_and_its_health),
                cmocka_unit_test(a_list_that_kubelet_would_not_take_is_refused_with_a_unit_that_it_would),
                cmocka_unit_test(memory_is_a_sum_on_one_device),
                cmocka_unit_test(what_is_not_ours_to_give_is_not_given),
                cmocka_unit_test(more_than_all_of_a_devices_time_is_refused),
                cmocka_unit_test(under_mps_a_container_is_on_one_device),
                cmocka_unit_test(memory_is_packed_where_least_is_left_and_enough),
                cmocka_unit_test(seats_are_spread),
                cmocka_unit_test(seats_on_several_devices_are_on_neighbours),
                cmocka_unit_test(kubelet_is_told_the_numa_node_where_ids_mean_a_device),
                cmocka_unit_test(a_choice_that_cannot_be_is_refused),
                cmocka_unit_test(the_daemons_answer_is_read_whole_or_not_at_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
