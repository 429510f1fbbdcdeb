/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes remember between the scheduler's questions is never older than what is counted on them. */
#include "unit.h"

#include "kube/extender/extend.h"

#include <stdio.h>
#include <string.h>

static void put_node(struct extend *extend, const char *name, bytes total)
{
        struct object_node node = { .n_devices = 1, .devices = { { .total = total } } };

        (void)snprintf(node.name, sizeof(node.name), "%s", name);
        assert_int_equal(cluster_put_node(&extend->cluster, &node), 0);
}

static struct object_pod pod_of(const char *uid, bytes memory)
{
        struct object_pod pod = { .n_wants = 1, .wants = { { .memory = memory } } };

        (void)snprintf(pod.uid, sizeof(pod.uid), "%s", uid);
        (void)snprintf(pod.name, sizeof(pod.name), "%s", uid);
        (void)snprintf(pod.containers[0], OBJECT_LABEL, "c");
        return pod;
}

static char *scores(struct extend *extend, const struct object_pod *pod)
{
        json_t *names = json_pack("[s,s,s]", "n1", "n2", "n3");
        const struct extender_args args = { .has_pod = true, .pod = *pod, .nodes = names };
        size_t size;
        char *text = extend_prioritize(extend, &args, &size);

        json_decref(names);
        return text;
}

static void assert_scores(struct extend *extend, const struct object_pod *pod, int n1, int n2)
{
        char *text = scores(extend, pod), expected[128];

        (void)snprintf(expected, sizeof(expected),
                       "[{\"Host\":\"n1\",\"Score\":%d},{\"Host\":\"n2\",\"Score\":%d},{\"Host\":\"n3\",\"Score\":0}]",
                       n1, n2);
        assert_string_equal(text, expected);
        free(text);
}

static void what_changes_on_a_node_is_seen_by_the_next_call(void **state)
{
        struct extend extend = { .cluster.unit = 1 };
        const struct object_pod a = pod_of("a", 20), b = pod_of("b", 40);
        const struct placement placement = { 0 };

        (void)state;
        put_node(&extend, "n1", 100);
        put_node(&extend, "n2", 200);
        assert_int_equal(cluster_put_pod(&extend.cluster, &a), 0);
        assert_scores(&extend, &a, 2, 1);
        assert_scores(&extend, &b, 4, 2); /* another shape */
        assert_scores(&extend, &a, 2, 1);
        assert_int_equal(cluster_assume(&extend.cluster, "a", "n2", &placement), 0);
        assert_scores(&extend, &a, 2, 2); /* a decision */
        assert_scores(&extend, &b, 4, 3);
        cluster_forget(&extend.cluster, "a");
        assert_scores(&extend, &b, 4, 2);
        put_node(&extend, "n1", 400); /* the node itself */
        assert_scores(&extend, &b, 1, 2);
        cluster_drop_node(&extend.cluster, "n2");
        assert_scores(&extend, &b, 1, 0);
        put_node(&extend, "n2", 40);
        assert_scores(&extend, &b, 1, 10);
        cluster_done(&extend.cluster);
}

/* FRAGMENT asks what is usually asked for, so a pod that is new changes the scores of nodes where nothing changed. */
static void the_mix_is_part_of_the_arguments(void **state)
{
        struct extend extend = { .cluster.unit = 1, .policy = PLACEMENT_FRAGMENT };
        const struct object_pod a = pod_of("a", 20), large = pod_of("large", 90);
        char *before, *after;

        (void)state;
        put_node(&extend, "n1", 100);
        put_node(&extend, "n2", 100);
        assert_int_equal(cluster_put_pod(&extend.cluster, &a), 0);
        before = scores(&extend, &a);
        assert_int_equal(cluster_put_pod(&extend.cluster, &large), 0);
        after = scores(&extend, &a);
        assert_string_not_equal(before, after);
        free(before);
        free(after);
        cluster_done(&extend.cluster);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_changes_on_a_node_is_seen_by_the_next_call),
                cmocka_unit_test(the_mix_is_part_of_the_arguments),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
