/* SPDX-License-Identifier: Apache-2.0 */
/* Pods of one job get places all or none (jobs.h J1 to J8), on a clock of the test's. */
#include "unit.h"

#include "base/cleanup.h"
#include "kube/extender/extend.h"
#include "kube/extender/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SEC NSEC_PER_SEC

static struct extend extend;
static char said[2048];

/* Two nodes with two devices of 10 each. */
static int set_up(void **state)
{
        struct object_node node = { .n_devices = 2, .devices = { { .total = 10 }, { .total = 10 } } };

        (void)state;
        extend = (struct extend){ .cluster.unit = 1, .now = 1000 * SEC };
        (void)strcpy(node.name, "n1");
        assert_int_equal(cluster_put_node(&extend.cluster, &node), 0);
        (void)strcpy(node.name, "n2");
        assert_int_equal(cluster_put_node(&extend.cluster, &node), 0);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        cluster_done(&extend.cluster);
        return 0;
}

/* A pod of 10, which takes a device; of a job of `pods`, made at that second; "": of none. */
static struct object_pod pod_of(const char *name, const char *job, unsigned int pods, unsigned int second)
{
        struct object_pod pod = { .n_wants = 1, .wants = { { .memory = 10 } }, .job_pods = pods };

        (void)snprintf(pod.uid, sizeof(pod.uid), "%s", name);
        (void)snprintf(pod.name, sizeof(pod.name), "%s", name);
        (void)snprintf(pod.namespace, sizeof(pod.namespace), "shop");
        (void)snprintf(pod.job, sizeof(pod.job), "%s", job);
        (void)snprintf(pod.created, sizeof(pod.created), "2026-11-25T10:00:%02uZ", second);
        (void)snprintf(pod.containers[0], OBJECT_LABEL, "c");
        return pod;
}

static void pod_put(const struct object_pod *pod)
{
        assert_int_equal(cluster_put_pod(&extend.cluster, pod), 0);
}

static void put_pod(const char *name, const char *job, unsigned int pods, unsigned int second)
{
        const struct object_pod pod = pod_of(name, job, pods, second);

        pod_put(&pod);
}

/* job-0 and so on, n of them. */
static void put_job(const char *job, unsigned int n, unsigned int pods, unsigned int second)
{
        char name[OBJECT_NAME];

        for (unsigned int i = 0; i < n; i++) {
                (void)snprintf(name, sizeof(name), "%s-%u", job, i);
                put_pod(name, job, pods, second);
        }
}

/* The API server shows it bound. */
static void bound(const char *name, const char *job, unsigned int pods, const char *node, unsigned char device)
{
        struct object_pod pod = pod_of(name, job, pods, 0);

        (void)strcpy(pod.node, node);
        pod.is_placed = true;
        pod.devices[0] = device;
        pod_put(&pod);
}

/* The scheduler asks, offering these nodes: the first that passes, or NULL; `said` has the answer. */
static const char *filter_as(const struct object_pod *pod, const char *a, const char *b)
{
        static char passed[OBJECT_NAME];
        json_t *names = b ? json_pack("[s,s]", a, b) : json_pack("[s]", a), *answer;
        const struct extender_args args = { .has_pod = true, .pod = *pod, .nodes = names };
        size_t size, n;
        char *text = extend_filter(&extend, &args, &size);

        (void)snprintf(said, sizeof(said), "%s", text);
        answer = json_loads(text, 0, NULL);
        n = json_array_size(json_object_get(answer, "NodeNames"));
        if (n)
                (void)snprintf(passed, sizeof(passed), "%s",
                               json_string_value(json_array_get(json_object_get(answer, "NodeNames"), 0)));
        json_decref(answer);
        json_decref(names);
        free(text);
        return n ? passed : NULL;
}

static const char *filter(const char *name, const char *job, unsigned int pods)
{
        const struct object_pod pod = pod_of(name, job, pods, 0);

        return filter_as(&pod, "n1", "n2");
}

static void assert_said(const char *text)
{
        if (!strstr(said, text))
                fail_msg("'%s' does not say '%s'", said, text);
}

static bytes used(void)
{
        bytes sum = 0;

        for (int n = 1; n <= 2; n++)
                for (int i = 0; i < 2; i++)
                        sum += cluster_node(&extend.cluster, n == 1 ? "n1" : "n2")->devices[i].used;
        return sum;
}

/* What the binder does first. */
static int decide(const char *name, const char *node)
{
        char why[EXTEND_WHY];
        int r;

        jobs_tidy(&extend);
        r = jobs_place_on(&extend, name, node, why);
        if (r == 0)
                ((struct cluster_pod *)(uintptr_t)cluster_pod(&extend.cluster, name))->is_reserved = false;
        return r;
}

/* ------------------------------------------------------------------------------------------------ */

static void none_has_a_place_before_all_are_there(void **state)
{
        (void)state;
        put_job("train", 3, 4, 0);
        assert_null(filter("train-0", "train", 4));
        assert_said("its job 'train' has 3 of 4 pods: none of them starts before all are there");
        assert_said("\"FailedAndUnresolvableNodes\":{\"n1\":"); /* nobody is evicted for it */
        assert_int_equal(used(), 0);
        assert_int_not_equal(decide("train-0", "n1"), 0); /* nor by a call that skips the filter */
        assert_int_equal(used(), 0);
        put_pod("train-3", "train", 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        assert_int_equal(used(), 40);
}

static void the_first_that_is_asked_for_reserves_the_places_of_all(void **state)
{
        char name[16], node[16];

        (void)state;
        put_job("train", 4, 4, 0);
        assert_non_null(filter("train-2", "train", 4));
        assert_int_equal(used(), 40);
        for (int i = 0; i < 4; i++) {
                (void)snprintf(name, sizeof(name), "train-%d", i);
                assert_non_null(filter(name, "train", 4));
                assert_string_equal(filter(name, "train", 4), cluster_pod(&extend.cluster, name)->node->name);
                (void)snprintf(node, sizeof(node), "%s", filter(name, "train", 4));
                assert_int_equal(decide(name, node), 0);
                bound(name, "train", 4, node, cluster_pod(&extend.cluster, name)->devices[0]);
        }
        assert_int_equal(used(), 40);
        extend.now += 1000 * SEC;
        jobs_tidy(&extend);
        assert_int_equal(used(), 40);
}

static void where_not_all_fit_none_has_a_place(void **state)
{
        (void)state;
        put_job("train", 5, 5, 0);
        assert_null(filter("train-0", "train", 5));
        assert_said("the 5 pods of its job 'train' do not fit at once: no place for train-");
        assert_int_equal(used(), 0);
        put_pod("single", "", 0, 0);
        assert_non_null(filter("single", "", 0));
}

static void of_two_jobs_that_fit_the_older_one_goes_first_whichever_is_asked_for(void **state)
{
        (void)state;
        put_job("young", 3, 3, 20);
        put_job("old", 3, 3, 10);
        assert_null(filter("young-0", "young", 3));
        assert_said("job 'old' of namespace shop goes before its job 'young', and fits");
        assert_int_equal(used(), 0);
        assert_non_null(filter("old-0", "old", 3));
        assert_null(filter("young-0", "young", 3));
        assert_int_equal(used(), 30);
        put_job("small", 1, 1, 30); /* beside it there is room, and it is not kept free */
        assert_non_null(filter("small-0", "small", 1));
}

static void of_many_jobs_that_wait_the_oldest_one_goes_first(void **state)
{
        char job[16];

        (void)state;
        put_job("oldest", 3, 3, 1);
        for (unsigned int i = 10; i < 30; i++) { /* none of them fits */
                (void)snprintf(job, sizeof(job), "j%u", i);
                put_job(job, 5, 5, i);
        }
        put_job("young", 3, 3, 50);
        assert_null(filter("young-0", "young", 3));
        assert_said("job 'oldest' of namespace shop goes before its job 'young', and fits");
        assert_non_null(filter("oldest-0", "oldest", 3));
}

static void an_older_job_that_the_scheduler_cannot_place_holds_up_nobody_for_long(void **state)
{
        const struct object_pod old = pod_of("old-0", "old", 3, 10);

        (void)state;
        put_job("old", 3, 3, 10);
        put_job("young", 3, 3, 20);
        assert_null(filter_as(&old, "n1", NULL)); /* its pods may be on n1 only */
        assert_non_null(filter("young-0", "young", 3));
}

static void places_are_given_back_in_time_and_others_get_them(void **state)
{
        (void)state;
        put_job("train", 4, 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        put_pod("single", "", 0, 0);
        assert_null(filter("single", "", 0));
        extend.now += JOBS_HOLD;
        assert_non_null(filter("single", "", 0));
        assert_int_equal(used(), 0);
        assert_null(filter("train-0", "train", 4));
        assert_said("its job 'train' gave its places back; it gets new ones in 31 s at most");
        extend.now += JOBS_PAUSE;
        assert_non_null(filter("train-0", "train", 4));
}

static void time_is_counted_from_the_last_pod_that_was_bound(void **state)
{
        (void)state;
        put_job("train", 4, 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        extend.now += JOBS_HOLD - SEC;
        bound("train-0", "train", 4, cluster_pod(&extend.cluster, "train-0")->node->name,
              cluster_pod(&extend.cluster, "train-0")->devices[0]);
        jobs_tidy(&extend);
        extend.now += JOBS_HOLD - SEC;
        jobs_tidy(&extend);
        assert_int_equal(used(), 40);
        extend.now += SEC;
        jobs_tidy(&extend);
        assert_int_equal(used(), 10);
}

static void a_pod_that_is_deleted_while_places_are_reserved_gives_all_of_them_back(void **state)
{
        struct object_pod leaving = pod_of("train-1", "train", 4, 0);

        (void)state;
        put_job("train", 4, 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        cluster_drop_pod(&extend.cluster, "train-3");
        assert_null(filter("train-0", "train", 4));
        assert_int_equal(used(), 0);
        put_pod("train-3", "train", 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        leaving.is_leaving = true; /* deleted, and not gone yet */
        pod_put(&leaving);
        assert_null(filter("train-0", "train", 4));
        assert_int_equal(used(), 0);
}

static void an_extender_that_begins_anew_goes_on_with_what_has_begun_before_anybody_else(void **state)
{
        (void)state;
        bound("train-0", "train", 4, "n1", 0);
        bound("train-1", "train", 4, "n1", 1);
        put_job("train", 4, 4, 0); /* the other two are not bound */
        put_pod("single", "", 0, 0);
        assert_null(filter("single", "", 0));
        assert_int_equal(used(), 40);
        assert_int_equal(decide("train-2", "n2"), 0); /* filtered by the one before */
        assert_string_equal(filter("train-3", "train", 4), "n2");
}

static void what_has_begun_replaces_a_pod_though_one_is_over(void **state)
{
        (void)state;
        bound("train-0", "train", 4, "n1", 0);
        put_pod("train-4", "train", 4, 0); /* of 4 one has succeeded, and one has failed */
        assert_non_null(filter("train-4", "train", 4));
}

static void over(const char *name, const char *job, unsigned int pods, bool has_succeeded)
{
        struct object_pod pod = pod_of(name, job, pods, 0);

        pod.is_over = true;
        pod.has_succeeded = has_succeeded;
        (void)strcpy(pod.node, "n1");
        pod_put(&pod);
}

static void the_last_pod_is_replaced_after_the_others_have_succeeded(void **state)
{
        (void)state;
        put_job("train", 4, 4, 0);
        for (unsigned char i = 0; i < 4; i++)
                bound((const char *[]){ "train-0", "train-1", "train-2", "train-3" }[i], "train", 4,
                      i < 2 ? "n1" : "n2", i % 2);
        over("train-0", "train", 4, true);
        over("train-1", "train", 4, true);
        over("train-1", "train", 4, true); /* told twice, it counts once */
        over("train-3", "train", 4, false);
        over("train-2", "train", 4, false);
        put_pod("train-4", "train", 4, 0);
        assert_null(filter("train-4", "train", 4)); /* one that failed is missed */
        assert_said("its job 'train' has 3 of 4 pods");
        assert_int_equal(used(), 0);
        put_pod("train-5", "train", 4, 0);
        assert_non_null(filter("train-4", "train", 4));
        assert_int_equal(used(), 20); /* what has succeeded is given no place */
        over("train-4", "train", 4, true);
        over("train-5", "train", 4, true);
        put_pod("train-6", "train", 4, 0); /* the name is used again */
        assert_null(filter("train-6", "train", 4));
        assert_said("its job 'train' has 1 of 4 pods");
}

/* n1 as its device plugin reports it now. */
static void report(size_t n_devices, bool is_first_unhealthy)
{
        struct object_node node = { .name = "n1",
                                    .n_devices = n_devices,
                                    .devices = { { .total = 10, .is_unhealthy = is_first_unhealthy },
                                                 { .total = 10 } } };

        assert_int_equal(cluster_put_node(&extend.cluster, &node), 0);
}

static void a_reserved_place_that_is_lost_is_given_anew_before_its_pod_is_bound(void **state)
{
        const struct object_pod train = pod_of("train-0", "train", 2, 0);

        (void)state;
        put_job("train", 2, 2, 0);
        assert_string_equal(filter_as(&train, "n1", NULL), "n1");
        report(2, true);
        assert_int_equal(decide("train-0", "n1"), 0); /* the other of its pods goes elsewhere for it */
        assert_int_equal(cluster_pod(&extend.cluster, "train-0")->devices[0], 1);
        assert_string_equal(cluster_pod(&extend.cluster, "train-1")->node->name, "n2");
        bound("train-0", "train", 2, "n1", 1);
        cluster_drop_node(&extend.cluster, "n2");
        assert_null(filter("train-1", "train", 2)); /* it has begun, and waits */
        report(2, false);
        extend.now += SEC;
        assert_string_equal(filter("train-1", "train", 2), "n1");
        assert_int_equal(cluster_node(&extend.cluster, "n1")->devices[0].used, 10);
}

static void two_pods_at_once_never_take_one_place(void **state)
{
        (void)state;
        put_job("train", 4, 4, 0);
        put_pod("single", "", 0, 0);
        assert_non_null(filter("single", "", 0)); /* it passes, and is not bound yet */
        assert_non_null(filter("train-0", "train", 4));
        assert_null(filter("single", "", 0));
        assert_int_equal(cluster_assume(&extend.cluster, "train-0", "n1", &(struct placement){ 0 }), -EBUSY);
}

static void a_place_moves_to_a_node_that_the_scheduler_offers(void **state)
{
        const struct object_pod first = pod_of("train-0", "train", 2, 0);

        (void)state;
        put_job("train", 2, 2, 0);
        assert_string_equal(filter("train-1", "train", 2), "n1");
        assert_string_equal(filter_as(&first, "n2", NULL), "n2");
        assert_string_equal(filter_as(&first, "n1", NULL), "n1");
        bound("a", "", 0, "n2", 0);
        bound("b", "", 0, "n2", 1);
        assert_null(filter_as(&first, "n2", NULL));
        assert_said("the place of this pod of job 'train' is on node n1");
        assert_string_equal(filter("train-0", "train", 2), "n1");
}

static void a_pod_of_higher_priority_gets_places_of_a_job_that_are_only_reserved(void **state)
{
        struct object_pod high = pod_of("high", "", 0, 0);

        (void)state;
        high.priority = 10;
        put_job("train", 4, 4, 0);
        assert_non_null(filter("train-0", "train", 4));
        pod_put(&high);
        assert_non_null(filter_as(&high, "n1", "n2"));
        assert_int_equal(used(), 0);
        extend.now += JOBS_PAUSE;
        assert_non_null(filter("train-0", "train", 4));
        bound("train-0", "train", 4, cluster_pod(&extend.cluster, "train-0")->node->name,
              cluster_pod(&extend.cluster, "train-0")->devices[0]);
        assert_non_null(filter_as(&high, "n1", "n2")); /* it has begun: it keeps what is bound */
        assert_int_equal(used(), 10);
        high.priority = 0;
        extend.now += JOBS_PAUSE;
        assert_non_null(filter("train-1", "train", 4));
        assert_null(filter_as(&high, "n1", "n2"));
        assert_int_equal(used(), 40);
}

/* The scheduler finds no node for the rest of a job, for a reason of its own, and does not ask the extender. */
static void places_that_nobody_asks_for_are_reserved_less_and_less_often(void **state)
{
        static const int pauses[] = { 30, 60, 120, 240, 480, 600, 600 };

        (void)state;
        put_job("train", 4, 4, 0);
        bound("train-0", "train", 4, "n1", 0);
        for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
                jobs_tidy(&extend);
                assert_int_equal(used(), 40);
                extend.now += JOBS_HOLD;
                jobs_tidy(&extend);
                assert_int_equal(used(), 10);
                extend.now += (pauses[i] - 1) * SEC;
                jobs_tidy(&extend);
                assert_int_equal(used(), 10);
                extend.now += SEC;
        }
        jobs_tidy(&extend);
        extend.now += JOBS_HOLD;
        jobs_tidy(&extend);
        extend.now += JOBS_PAUSE;
        assert_int_equal(used(), 10);
        assert_non_null(filter("train-1", "train", 4)); /* it asks */
        assert_int_equal(used(), 40);
        extend.now += JOBS_HOLD;
        jobs_tidy(&extend);
        extend.now += JOBS_PAUSE;
        jobs_tidy(&extend);
        assert_int_equal(used(), 40);
}

static void preempted(const struct object_pod *pod, const char *expected)
{
        json_t *root = json_pack("{s:{s:{s:[],s:i}}}", "NodeNameToMetaVictims", "n1", "Pods", "NumPDBViolations", 0);
        const struct extender_args args = { .has_pod = true, .pod = *pod, .root = root };
        size_t size;
        char *text = extend_preempt(&extend, &args, &size);

        assert_string_equal(text, expected);
        free(text);
        json_decref(root);
}

static void a_job_evicts_nobody_and_what_is_only_reserved_cannot_be_evicted(void **state)
{
        struct object_pod high = pod_of("high", "", 0, 0), train = pod_of("train-0", "train", 4, 0);

        (void)state;
        high.priority = train.priority = 10;
        bound("low", "", 0, "n1", 0);
        preempted(&high, "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[],\"NumPDBViolations\":0}}}");
        preempted(&train, "{\"NodeNameToMetaVictims\":{}}");
        cluster_drop_pod(&extend.cluster, "low");
        put_job("other", 4, 4, 0);
        assert_non_null(filter("other-0", "other", 4));
        preempted(&high, "{\"NodeNameToMetaVictims\":{}}");
}

static void pods_are_asked_for_again_when_their_job_is_whole_and_while_their_places_wait(void **state)
{
        struct jobs_nudge list[OBJECT_JOB_PODS];

        (void)state;
        put_job("train", 2, 3, 0);
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 0);
        put_pod("train-2", "train", 3, 0);
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 3);
        assert_int_equal(used(), 0); /* a trial */
        assert_string_equal(list[0].namespace, "shop");
        extend.now += JOBS_NUDGE;
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 0);
        extend.now += JOBS_NUDGE;
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 3);
        assert_non_null(filter("train-0", "train", 3));
        assert_int_equal(decide("train-0", cluster_pod(&extend.cluster, "train-0")->node->name), 0);
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 2); /* at once */
        extend.now += JOBS_NUDGE;
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 2);
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 0);
}

static void a_job_that_would_not_fit_is_not_asked_for(void **state)
{
        struct jobs_nudge list[OBJECT_JOB_PODS];

        (void)state;
        put_job("train", 5, 5, 0);
        assert_int_equal(jobs_nudges(&extend, list, ARRAY_SIZE(list)), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(none_has_a_place_before_all_are_there),
                TEST(the_first_that_is_asked_for_reserves_the_places_of_all),
                TEST(where_not_all_fit_none_has_a_place),
                TEST(of_two_jobs_that_fit_the_older_one_goes_first_whichever_is_asked_for),
                TEST(of_many_jobs_that_wait_the_oldest_one_goes_first),
                TEST(an_older_job_that_the_scheduler_cannot_place_holds_up_nobody_for_long),
                TEST(places_are_given_back_in_time_and_others_get_them),
                TEST(time_is_counted_from_the_last_pod_that_was_bound),
                TEST(a_pod_that_is_deleted_while_places_are_reserved_gives_all_of_them_back),
                TEST(an_extender_that_begins_anew_goes_on_with_what_has_begun_before_anybody_else),
                TEST(what_has_begun_replaces_a_pod_though_one_is_over),
                TEST(the_last_pod_is_replaced_after_the_others_have_succeeded),
                TEST(a_reserved_place_that_is_lost_is_given_anew_before_its_pod_is_bound),
                TEST(two_pods_at_once_never_take_one_place),
                TEST(a_place_moves_to_a_node_that_the_scheduler_offers),
                TEST(a_pod_of_higher_priority_gets_places_of_a_job_that_are_only_reserved),
                TEST(places_that_nobody_asks_for_are_reserved_less_and_less_often),
                TEST(a_job_evicts_nobody_and_what_is_only_reserved_cannot_be_evicted),
                TEST(pods_are_asked_for_again_when_their_job_is_whole_and_while_their_places_wait),
                TEST(a_job_that_would_not_fit_is_not_asked_for),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
