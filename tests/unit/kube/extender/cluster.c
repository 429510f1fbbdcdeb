/* SPDX-License-Identifier: Apache-2.0 */
/* What devices have promised, whatever the API server reports and in whichever order (cluster.h C1 to C3). */
#include "unit.h"

#include "kube/extender/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void put_node(struct cluster *cluster, const char *name, size_t n_devices)
{
        struct object_node node = { .n_devices = n_devices };

        (void)snprintf(node.name, sizeof(node.name), "%s", name);
        for (size_t i = 0; i < n_devices; i++)
                node.devices[i].total = 100;
        assert_int_equal(cluster_put_node(cluster, &node), 0);
}

/* device: -1: not known. */
static struct object_pod pod_on(const char *uid, const char *node, int device, bytes memory)
{
        struct object_pod pod = { .n_wants = 1, .wants = { { memory, 10, 0 } }, .is_placed = device >= 0 };

        (void)snprintf(pod.uid, sizeof(pod.uid), "%s", uid);
        (void)snprintf(pod.name, sizeof(pod.name), "name-%s", uid);
        (void)snprintf(pod.namespace, sizeof(pod.namespace), "default");
        (void)snprintf(pod.node, sizeof(pod.node), "%s", node);
        (void)snprintf(pod.containers[0], OBJECT_LABEL, "c");
        pod.devices[0] = (unsigned char)(device < 0 ? 0 : device);
        return pod;
}

static void put_pod(struct cluster *cluster, const char *uid, const char *node, int device, bytes memory)
{
        const struct object_pod pod = pod_on(uid, node, device, memory);

        assert_int_equal(cluster_put_pod(cluster, &pod), 0);
}

static void assert_used(const struct cluster *cluster, const char *name, bytes first, bytes second)
{
        const struct cluster_node *node = cluster_node(cluster, name);

        assert_non_null(node);
        assert_true(node->devices[0].used == first);
        assert_true(node->devices[1].used == second);
}

static void a_pod_counts_once_however_often_it_is_reported(void **state)
{
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_pod(&cluster, "a", "n", 1, 30); /* before its node */
        assert_null(cluster_node(&cluster, "n"));
        put_node(&cluster, "n", 2);
        assert_used(&cluster, "n", 0, 30);
        put_pod(&cluster, "a", "n", 1, 30);
        put_node(&cluster, "n", 2);
        assert_used(&cluster, "n", 0, 30);
        cluster_drop_node(&cluster, "n"); /* and it comes back with what it has promised */
        assert_null(cluster_node(&cluster, "n"));
        put_node(&cluster, "n", 2);
        assert_used(&cluster, "n", 0, 30);
        put_node(&cluster, "m", 2);
        put_pod(&cluster, "a", "m", 0, 30);
        assert_used(&cluster, "n", 0, 0);
        assert_used(&cluster, "m", 30, 0);
        cluster_drop_pod(&cluster, "a");
        assert_used(&cluster, "m", 0, 0);
        assert_int_equal(cluster.n_pods, 0);
        cluster_done(&cluster);
}

static void a_decision_outlives_an_older_report(void **state)
{
        const struct placement second = { { 1 } };
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_node(&cluster, "n", 2);
        assert_int_equal(cluster_assume(&cluster, "a", "n", &second), -ENOENT);
        put_pod(&cluster, "a", "", -1, 30);
        assert_int_equal(cluster_assume(&cluster, "a", "elsewhere", &second), -ENOENT);
        assert_int_equal(cluster_assume(&cluster, "a", "n", &second), 0);
        assert_int_equal(cluster_assume(&cluster, "a", "n", &second), -EBUSY);
        put_pod(&cluster, "a", "", -1, 30); /* not bound yet */
        assert_used(&cluster, "n", 0, 30);
        assert_int_equal(cluster.n_assumed, 1);
        put_pod(&cluster, "a", "n", 1, 30); /* bound: no longer a decision, so forgetting it is harmless */
        assert_int_equal(cluster.n_assumed, 0);
        cluster_forget(&cluster, "a");
        assert_used(&cluster, "n", 0, 30);
        cluster_done(&cluster);
}

static void a_decision_that_is_forgotten_or_over_frees_its_memory(void **state)
{
        const struct placement first = { { 0 } };
        struct object_pod over = pod_on("b", "n", 0, 20);
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_node(&cluster, "n", 2);
        put_pod(&cluster, "a", "", -1, 30);
        put_pod(&cluster, "b", "", -1, 20);
        assert_int_equal(cluster_assume(&cluster, "a", "n", &first), 0);
        assert_int_equal(cluster_assume(&cluster, "b", "n", &first), 0);
        assert_used(&cluster, "n", 50, 0);
        cluster_forget(&cluster, "a");
        assert_used(&cluster, "n", 20, 0);
        over.is_over = true;
        assert_int_equal(cluster_put_pod(&cluster, &over), 0);
        assert_used(&cluster, "n", 0, 0);
        assert_int_equal(cluster.n_assumed, 0);
        cluster_done(&cluster);
}

static void a_bound_pod_without_a_device_counts_on_every_one(void **state)
{
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_node(&cluster, "n", 2);
        put_pod(&cluster, "a", "n", -1, 30);
        assert_used(&cluster, "n", 30, 30);
        put_pod(&cluster, "a", "n", 1, 30);
        assert_used(&cluster, "n", 0, 30);
        cluster_done(&cluster);
}

static void what_a_list_lacks_is_gone_decisions_too(void **state)
{
        const struct placement first = { { 0 } };
        struct cluster cluster = { .unit = 1 };
        char uid[16];

        (void)state;
        put_node(&cluster, "n", 2);
        put_node(&cluster, "gone", 2);
        for (int i = 0; i < 40; i++) {
                (void)snprintf(uid, sizeof(uid), "u%d", i);
                put_pod(&cluster, uid, "", -1, 1);
                assert_int_equal(cluster_assume(&cluster, uid, "n", &first), 0);
        }
        cluster_list_begin(&cluster, true);
        put_pod(&cluster, "u7", "", -1, 1);
        assert_used(&cluster, "n", 40, 0); /* until the list is complete */
        cluster_list_end(&cluster, true);
        assert_used(&cluster, "n", 1, 0);
        assert_int_equal(cluster.n_pods, 1);
        cluster_list_begin(&cluster, false);
        put_node(&cluster, "n", 2);
        cluster_list_end(&cluster, false);
        assert_non_null(cluster_node(&cluster, "n"));
        assert_null(cluster_node(&cluster, "gone"));
        cluster_done(&cluster);
}

static void sums_that_overflow_are_full_devices(void **state)
{
        struct placement_device devices[PLACEMENT_DEVICES];
        const char *const without[] = { "a" };
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_node(&cluster, "n", 2);
        put_pod(&cluster, "a", "n", 0, UINT64_MAX);
        put_pod(&cluster, "b", "n", 0, UINT64_MAX - 1);
        assert_used(&cluster, "n", UINT64_MAX, 0);
        assert_int_equal(placement_free(&cluster_node(&cluster, "n")->devices[0], false), 0);
        assert_int_equal(cluster_view_without(cluster_node(&cluster, "n"), without, 1, devices).n_devices, 2);
        assert_true(devices[0].used == UINT64_MAX - 1);
        cluster_done(&cluster);
}

static void a_pod_with_swap_counts_apart(void **state)
{
        struct object_pod pod = pod_on("a", "n", 0, 30);
        struct cluster cluster = { .unit = 1 };

        (void)state;
        put_node(&cluster, "n", 2);
        pod.has_swap = true;
        assert_int_equal(cluster_put_pod(&cluster, &pod), 0);
        assert_used(&cluster, "n", 0, 0);
        assert_int_equal(cluster_node(&cluster, "n")->devices[0].swapped.sum, 30);
        pod.is_placed = false; /* C3: nobody knows on which device it is */
        cluster_drop_pod(&cluster, "a");
        assert_int_equal(cluster_put_pod(&cluster, &pod), 0);
        assert_used(&cluster, "n", 30, 30);
        cluster_done(&cluster);
}

static void a_pod_is_read_back_as_it_was_put(void **state)
{
        struct object_pod pod = pod_on("a", "", -1, 30), back;
        struct cluster cluster = { .unit = 1 };

        (void)state;
        pod.priority = -5;
        pod.has_swap = true;
        assert_int_equal(cluster_put_pod(&cluster, &pod), 0);
        cluster_pod_get(cluster_pod(&cluster, "a"), &back);
        assert_memory_equal(&pod, &back, sizeof(pod));
        assert_null(cluster_pod(&cluster, "b"));
        cluster_done(&cluster);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_pod_counts_once_however_often_it_is_reported),
                cmocka_unit_test(a_decision_outlives_an_older_report),
                cmocka_unit_test(a_decision_that_is_forgotten_or_over_frees_its_memory),
                cmocka_unit_test(a_bound_pod_without_a_device_counts_on_every_one),
                cmocka_unit_test(what_a_list_lacks_is_gone_decisions_too),
                cmocka_unit_test(sums_that_overflow_are_full_devices),
                cmocka_unit_test(a_pod_with_swap_counts_apart),
                cmocka_unit_test(a_pod_is_read_back_as_it_was_put),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
