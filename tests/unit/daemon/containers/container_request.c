/* SPDX-License-Identifier: Apache-2.0 */
/* Which lease a container may have, and by whose word: a pod's never more than was allocated to it. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/err.h"
#include "daemon/containers/container_request.h"

#include <stdio.h>

static struct daemon *daemon_;
static struct oci_container container;
static struct oci_request asked;
static struct message_request request;
static struct err err;

static int set_up(void **state)
{
        struct allocation *row;

        (void)state;
        daemon_ = fake_daemon_new();
        row = daemon_->allocations.rows = calloc(2, sizeof(*row));
        daemon_->allocations.n = 2;
        row[0] = (struct allocation){ .pod = "u1", .container = "main", .memory = { 8 * GIB }, .share = 300 };
        row[1] = (struct allocation){ .pod = "u1", .container = "two", .memory = { 4 * GIB, 2 * GIB } };
        container = (struct oci_container){
                .id = "c1", .pod = "u1", .namespace = "shop", .name = "web-0", .container = "main"
        };
        asked = (struct oci_request){ 0 };
        memset(&request, 0, sizeof(request));
        memset(&err, 0, sizeof(err));
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        fake_daemon_free(daemon_);
        return 0;
}

static int container_request(void)
{
        return container_request_fill(&daemon_->tenants, &daemon_->allocations, &container, &asked, &request, &err);
}

static void a_pods_container_gets_its_row(void **state)
{
        (void)state;
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.mem, "0=8589934592");
        assert_string_equal(request.gpus, "0");
        assert_int_equal(request.share, 300);
        assert_string_equal(request.tenant, "shop.web-0.main");
        assert_false(request.is_named);
        (void)strcpy(container.container, "two");
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.mem, "0=4294967296,1=2147483648");
        assert_string_equal(request.gpus, "0,1");
        assert_int_equal(request.share, 0);
}

static void what_it_asks_can_only_lower(void **state)
{
        static const struct {
                const char *mem, *share, *gets_mem;
                permille gets_share;
        } rows[] = {
                { "1G", "10", "0=1073741824", 100 },
                { "9G", "90", "0=8589934592", 300 },
                { "100%", "100", "0=8589934592", 300 },
                { "", "", "0=8589934592", 300 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                (void)strcpy(asked.mem, rows[i].mem);
                (void)strcpy(asked.share, rows[i].share);
                (void)strcpy(asked.gpus, "all");
                assert_int_equal(container_request(), 0);
                assert_string_equal(request.mem, rows[i].gets_mem);
                assert_string_equal(request.gpus, "0");
                assert_int_equal(request.share, rows[i].gets_share);
        }
}

static void a_share_is_not_had_where_none_was_allocated(void **state)
{
        (void)state;
        (void)strcpy(container.container, "two");
        (void)strcpy(asked.share, "90");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.share, 0);
}

static void cap_and_class_are_its_own(void **state)
{
        (void)state;
        (void)strcpy(asked.cap, "50");
        (void)strcpy(asked.class, "batch");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.cap, 500);
        assert_int_equal(request.class, TURNS_BATCH);
}

static void after_how_long_it_sleeps_is_its_own(void **state)
{
        (void)state;
        (void)strcpy(asked.sleep_after, "30s");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.sleep_after, 30 * NSEC_PER_SEC);
        (void)strcpy(asked.sleep_after, "10ms");
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "sleep-after '10ms': a time from 1s to 7d"));
}

static void whether_it_shares_the_device_in_turns_is_its_own(void **state)
{
        (void)state;
        assert_int_equal(container_request(), 0);
        assert_false(request.swap);
        (void)strcpy(asked.swap, "true");
        assert_int_equal(container_request(), 0);
        assert_true(request.swap);
        (void)strcpy(asked.swap, "false");
        assert_int_equal(container_request(), 0);
        assert_false(request.swap);
        (void)strcpy(asked.swap, "yes");
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "swap 'yes': true or false"));
        (void)strcpy(asked.swap, "");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.host_swap, 0);
        (void)strcpy(asked.host_swap, "5G");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.host_swap, 5 * GIB);
        (void)strcpy(asked.host_swap, "none");
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "host-swap 'none': a size such as 8G"));
}

static void on_what_terms_it_is_allocated_counts_before_what_it_asks_for(void **state)
{
        struct allocation_terms *terms = &daemon_->allocations.rows[0].terms;

        (void)state;
        (void)strcpy(asked.cap, "100");
        (void)strcpy(asked.class, "latency");
        (void)strcpy(asked.driver_capabilities, "all");
        (void)strcpy(terms->cap, "50");
        (void)strcpy(terms->class, "batch");
        (void)strcpy(terms->capabilities, "compute,utility");
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.cap, 500);
        assert_int_equal(request.class, TURNS_BATCH);
        assert_string_equal(request.capabilities, "compute,utility");
        (void)strcpy(asked.swap, "true");
        (void)strcpy(terms->swap, "false");
        assert_int_equal(container_request(), 0);
        assert_false(request.swap);
        (void)strcpy(asked.swap, "false");
        (void)strcpy(terms->swap, "true");
        assert_int_equal(container_request(), 0);
        assert_true(request.swap);
        *terms = (struct allocation_terms){ .latency = "10ms" };
        asked = (struct oci_request){ 0 };
        assert_int_equal(container_request(), 0);
        assert_int_equal(request.goal, 10 * NSEC_PER_MSEC);
}

static void its_group_is_its_pods_or_its_annotations_and_no_variables(void **state)
{
        struct allocation_terms *terms = &daemon_->allocations.rows[0].terms;

        (void)state;
        (void)strcpy(asked.group, "images");
        assert_int_equal(container_request(), -EPERM);
        assert_non_null(strstr(err.text, "sublet.dev/group"));
        (void)strcpy(terms->group, "chat");
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.group, "chat");
        *terms = (struct allocation_terms){ .cap = "40" };
        asked.has_group_annotation = true;
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
        *terms = (struct allocation_terms){ 0 };
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.group, "images");
        asked.names_pipe = true;
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "leave the variable out"));
}

static void nothing_allocated_is_waited_for_only_by_who_wants_it(void **state)
{
        (void)state;
        (void)strcpy(container.pod, "u2");
        assert_int_equal(container_request(), CONTAINER_REQUEST_E_NONE);
        asked.wants_gpu = true;
        assert_int_equal(container_request(), CONTAINER_REQUEST_E_LATER);
        assert_non_null(strstr(err.text, "nothing is allocated to it"));
}

static void an_allocation_that_somebody_has_is_waited_for(void **state)
{
        struct tenant *tenant = fake_tenant_put(daemon_, "shop.web-0.main", 0, 8, 300);

        (void)state;
        (void)strcpy(tenant->lease.container.pod, "u1");
        (void)strcpy(tenant->lease.container.container, "main");
        (void)strcpy(tenant->lease.container.id, "old");
        assert_int_equal(container_request(), CONTAINER_REQUEST_E_LATER);
        assert_non_null(strstr(err.text, "'shop.web-0.main', container old"));
}

static void a_pause_container_gets_nothing(void **state)
{
        (void)state;
        container.is_sandbox = asked.wants_gpu = true;
        assert_int_equal(container_request(), CONTAINER_REQUEST_E_NONE);
}

static void who_is_in_no_pod_gets_what_it_asks_for(void **state)
{
        (void)state;
        container = (struct oci_container){ .id = "c1", .container = "main" };
        assert_int_equal(container_request(), CONTAINER_REQUEST_E_NONE);
        asked.wants_gpu = true;
        assert_int_equal(container_request(), -EINVAL);
        (void)strcpy(asked.mem, "50%");
        (void)strcpy(asked.gpus, "1");
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.mem, "50%");
        assert_string_equal(request.gpus, "1");
        assert_string_equal(request.tenant, "c1");
}

static void a_word_that_is_none_of_ours_is_a_mistake_but_not_in_a_pod(void **state)
{
        (void)state;
        (void)strcpy(asked.unknown, "sublet.dev/allocation"); /* the pod's own annotations come along */
        assert_int_equal(container_request(), 0);
        container = (struct oci_container){ .id = "c1", .container = "main" };
        (void)strcpy(asked.unknown, "sublet.dev/caps");
        (void)strcpy(asked.mem, "8G");
        asked.wants_gpu = true;
        assert_int_equal(container_request(), -EINVAL);
        assert_non_null(strstr(err.text, "'sublet.dev/caps' is none of sublet.dev/mem, share, cap,"));
        asked = (struct oci_request){
                .unknown = "sublet.dev/memm"
        }; /* all that it asks: it would have no GPU, and not know why */
        assert_int_equal(container_request(), -EINVAL);
}

static void what_is_not_understood_or_not_offered_is_refused(void **state)
{
        static const struct {
                size_t at;
                const char *text;
        } rows[] = {
                { offsetof(struct oci_request, mem), "much" },     { offsetof(struct oci_request, share), "101" },
                { offsetof(struct oci_request, cap), "0" },        { offsetof(struct oci_request, class), "best" },
                { offsetof(struct oci_request, mode), "spatial" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                asked = (struct oci_request){ 0 };
                (void)strcpy((char *)&asked + rows[i].at, rows[i].text);
                assert_int_equal(container_request(), -EINVAL);
                assert_non_null(strstr(err.text, rows[i].text));
        }
}

static void names_are_short_enough_for_a_number_behind_them(void **state)
{
        (void)state;
        (void)memset(container.name, 'n', 200);
        assert_int_equal(container_request(), 0);
        assert_int_equal(strlen(request.tenant), 56);
        container.pod[0] = '\0';
        (void)memset(container.id, 'a', 64);
        container.id[64] = '\0';
        (void)strcpy(asked.mem, "1G");
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.tenant, "aaaaaaaaaaaa");
}

/* Else whoever has a long namespace and calls a pod "shop.web-0" is shown, counted and ended in another's place. */
static void no_pod_is_called_as_one_of_another_namespace(void **state)
{
        char real[64];

        (void)state;
        (void)memset(container.namespace, 's', 60);
        (void)strcpy(container.name, "shop.web-0");
        assert_int_equal(container_request(), 0);
        assert_string_equal(request.tenant, "sssssssssssssssssssssss_.shop.web-0.main");
        (void)strcpy(container.namespace, "shop");
        (void)memset(container.name, 'n', 48);
        container.name[48] = '\0'; /* all of it fits, just so */
        (void)strcpy(container.container, "ab");
        (void)strcpy(daemon_->allocations.rows[0].container, "ab");
        assert_int_equal(container_request(), 0);
        assert_int_equal(strlen(request.tenant), 56);
        (void)strcpy(real, request.tenant);
        (void)strcat(container.name, ".more");
        assert_int_equal(container_request(), 0);
        assert_string_not_equal(request.tenant, real);
        assert_int_equal(request.tenant[55], '_');
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(a_pods_container_gets_its_row),
                TEST(what_it_asks_can_only_lower),
                TEST(a_share_is_not_had_where_none_was_allocated),
                TEST(cap_and_class_are_its_own),
                TEST(after_how_long_it_sleeps_is_its_own),
                TEST(whether_it_shares_the_device_in_turns_is_its_own),
                TEST(on_what_terms_it_is_allocated_counts_before_what_it_asks_for),
                TEST(its_group_is_its_pods_or_its_annotations_and_no_variables),
                TEST(nothing_allocated_is_waited_for_only_by_who_wants_it),
                TEST(an_allocation_that_somebody_has_is_waited_for),
                TEST(a_pause_container_gets_nothing),
                TEST(who_is_in_no_pod_gets_what_it_asks_for),
                TEST(a_word_that_is_none_of_ours_is_a_mistake_but_not_in_a_pod),
                TEST(what_is_not_understood_or_not_offered_is_refused),
                TEST(names_are_short_enough_for_a_number_behind_them),
                TEST(no_pod_is_called_as_one_of_another_namespace),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
