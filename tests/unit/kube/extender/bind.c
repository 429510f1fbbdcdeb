/* SPDX-License-Identifier: Apache-2.0 */
/* Binding against an API server that follows a script: what is written, and what of a decision stays counted (bind.h
 * B1 to B3). And pods that are asked for again (nudge.h). */
#include "unit.h"

#include "base/err.h"
#include "kube/extender/bind.h"
#include "kube/extender/jobs/nudge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POD                                                                                                            \
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"default\",\"uid\":\"u\"},\"spec\":{%s\"containers\":[{"         \
        "\"name\":\"c\",\"resources\":{\"limits\":{\"sublet.dev/gpu-mem\":\"30\"}}}]}}"

#define PLAIN "plain" /* as a node: the pod rents nothing */

struct step {
        const char *method; /* that is expected */
        int status;
        const char *node; /* of the pod in the answer; NULL: no pod */
};

/* One connection and one call for each step. */
struct script {
        const struct step *steps;
        size_t n_steps, n_done;
        int fd;
        pthread_t thread;
        char url[64], last[2048];
};

static void read_request(int fd, char *to, size_t size)
{
        size_t n = 0;

        for (;;) {
                ssize_t more = recv(fd, to + n, size - 1 - n, 0);
                const char *end, *length;

                assert_true(more > 0);
                n += (size_t)more;
                to[n] = '\0';
                end = strstr(to, "\r\n\r\n");
                length = strstr(to, "Content-Length: ");
                if (end && (!length || n >= (size_t)(end - to) + 4 + (size_t)atoi(length + 16)))
                        return;
        }
}

static void *play(void *context)
{
        struct script *script = context;

        for (; script->n_done < script->n_steps; script->n_done++) {
                const struct step *step = &script->steps[script->n_done];
                char body[512] = "{}", node[64] = "", answer[1024];
                int fd = accept(script->fd, NULL, NULL);

                if (fd < 0)
                        return NULL;
                read_request(fd, script->last, sizeof(script->last));
                assert_int_equal(strncmp(script->last, step->method, strlen(step->method)), 0);
                if (step->node && *step->node)
                        (void)snprintf(node, sizeof(node), "\"nodeName\":\"%s\",", step->node);
                if (step->node && !strcmp(step->node, PLAIN))
                        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"}}");
                else if (step->node)
                        (void)snprintf(body, sizeof(body), POD, node);
                (void)snprintf(answer, sizeof(answer),
                               "HTTP/1.1 %d x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", step->status,
                               strlen(body), body);
                assert_int_equal(send(fd, answer, strlen(answer), MSG_NOSIGNAL), strlen(answer));
                (void)close(fd);
        }
        return NULL;
}

static void script_start(struct script *script, const struct step *steps, size_t n_steps)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);

        *script = (struct script){ .steps = steps, .n_steps = n_steps };
        script->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(script->fd, (struct sockaddr *)&address, size), 0);
        assert_int_equal(listen(script->fd, 8), 0);
        assert_int_equal(getsockname(script->fd, (struct sockaddr *)&address, &size), 0);
        (void)snprintf(script->url, sizeof(script->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
        assert_int_equal(pthread_create(&script->thread, NULL, play, script), 0);
}

/* Every step was played. */
static void script_end(struct script *script)
{
        (void)shutdown(script->fd, SHUT_RDWR);
        assert_int_equal(pthread_join(script->thread, NULL), 0);
        assert_int_equal(script->n_done, script->n_steps);
        (void)close(script->fd);
}

struct world {
        struct lock lock;
        struct extend extend;
        struct elect elect;
        struct binder binder;
};

static void put_pod(struct world *world, bool tolerates_cordon)
{
        const struct object_pod pod = { .uid = "u",
                                        .namespace = "default",
                                        .name = "p",
                                        .n_wants = 1,
                                        .wants = { { .memory = 30 } },
                                        .containers = { "c" },
                                        .tolerates_cordon = tolerates_cordon };

        assert_int_equal(cluster_put_pod(&world->extend.cluster, &pod), 0);
}

static void world_init(struct world *world, bool knows_pod, bytes total)
{
        struct object_node node = { .name = "n", .n_devices = 1, .devices = { { .total = total } } };

        *world = (struct world){ .extend.cluster.unit = 1 };
        lock_init(&world->lock, LOCK_CLUSTER);
        world->binder = (struct binder){ .lock = &world->lock, .extend = &world->extend, .elect = &world->elect };
        assert_int_equal(cluster_put_node(&world->extend.cluster, &node), 0);
        if (knows_pod)
                put_pod(world, false);
}

static void world_done(struct world *world)
{
        binder_done(&world->binder);
        cluster_done(&world->extend.cluster);
        lock_done(&world->lock);
}

static const struct bind_request request = { "p", "default", "u", "n" };

static void assert_bind(const struct step *steps, size_t n_steps, bool knows_pod, int outcome, bytes used)
{
        struct script script;
        struct world world;
        struct err err = { 0 };

        world_init(&world, knows_pod, 100);
        script_start(&script, steps, n_steps);
        world.binder.api.server = script.url;
        assert_int_equal(bind_pod(&world.binder, &request, &err), outcome);
        script_end(&script);
        assert_true(cluster_node(&world.extend.cluster, "n")->devices[0].used == used);
        world_done(&world);
}

static void annotations_are_written_before_the_binding(void **state)
{
        static const struct step known[] = { { "PATCH /api/v1/namespaces/default/pods/p", 200, NULL },
                                             { "POST /api/v1/namespaces/default/pods/p/binding", 201, NULL } };
        static const struct step unknown[] = { { "GET", 200, "" }, { "PATCH", 200, NULL }, { "POST", 201, NULL } };

        (void)state;
        assert_bind(known, 2, true, 0, 30);
        assert_bind(unknown, 3, false, 0, 30); /* one that is not in the copy is read first */
}

static void a_refused_decision_is_taken_back(void **state)
{
        static const struct step forbidden[] = { { "PATCH", 403, NULL } };
        static const struct step gone[] = { { "PATCH", 404, NULL } };
        static const struct step conflict[] = { { "PATCH", 200, NULL }, { "POST", 409, NULL }, { "GET", 200, "" } };
        static const struct step elsewhere[] = { { "PATCH", 200, NULL },
                                                 { "POST", 409, NULL },
                                                 { "GET", 200, "other" } };

        (void)state;
        assert_bind(forbidden, 1, true, -EIO, 0);
        assert_bind(gone, 1, true, -ENOENT, 0);
        assert_bind(conflict, 3, true, -EIO, 0);
        assert_bind(elsewhere, 3, true, -EIO, 0);
}

static void without_an_answer_the_pod_decides_and_else_the_decision_stays(void **state)
{
        static const struct step bound[] = { { "PATCH", 200, NULL }, { "POST", 500, NULL }, { "GET", 200, "n" } };
        static const struct step silent[] = { { "PATCH", 200, NULL }, { "POST", 500, NULL }, { "GET", 500, NULL } };

        (void)state;
        assert_bind(bound, 3, true, 0, 30);
        assert_bind(silent, 3, true, -EAGAIN, 30);
}

static void nothing_is_written_for_a_full_node_or_without_the_lease(void **state)
{
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, true, 20);
        world.binder.api.server = "http://127.0.0.1:1"; /* nobody listens: a call would fail otherwise */
        assert_int_equal(bind_pod(&world.binder, &request, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "node n: "));
        world_done(&world);
        world_init(&world, true, 100);
        world.elect.lease = "sublet/extender"; /* never won */
        assert_true(bind_pod(&world.binder, &request, &err) < 0);
        assert_non_null(strstr(err.text, "another extender decides"));
        world_done(&world);
}

/* Pods of a job that is whole: the first is bound by the request. */
static void put_job(struct world *world)
{
        struct object_pod pod = { .namespace = "default",
                                  .n_wants = 1,
                                  .wants = { { .memory = 30 } },
                                  .containers = { "c" },
                                  .job = "train",
                                  .job_pods = 2 };

        for (int i = 0; i < 2; i++) {
                (void)strcpy(pod.uid, i ? "u" : "v");
                (void)strcpy(pod.name, i ? "p" : "q");
                assert_int_equal(cluster_put_pod(&world->extend.cluster, &pod), 0);
        }
}

static void reserve_places(struct world *world)
{
        struct cluster_node *node = cluster_node(&world->extend.cluster, "n");
        char why[EXTEND_WHY];

        world->extend.now = clock_now();
        assert_non_null(jobs_place(&world->extend, "u", &(struct jobs_nodes){ &node, 1 }, why));
}

static void a_job_s_pod_is_not_bound_to_a_node_that_has_gone(void **state)
{
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, false, 100);
        world.binder.api.server = "http://127.0.0.1:1"; /* nobody listens: a call would fail otherwise */
        put_job(&world);
        reserve_places(&world);
        cluster_drop_node(&world.extend.cluster, "n");
        assert_int_equal(bind_pod(&world.binder, &request, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "node n: it is not known now"));
        world_done(&world);
}

static void put_devices(struct world *world, size_t n, bool is_first_unhealthy)
{
        struct object_node node = { .name = "n", .n_devices = n, .devices = { { .total = 30 }, { .total = 30 } } };

        node.devices[0].is_unhealthy = is_first_unhealthy;
        assert_int_equal(cluster_put_node(&world->extend.cluster, &node), 0);
}

static void what_was_decided_on_a_device_that_is_lost_is_decided_anew(void **state)
{
        static const struct step steps[] = { { "GET", 200, "" }, { "PATCH", 200, NULL }, { "POST", 201, NULL } };
        const struct placement second = { .device = { 1 } };
        struct script script;
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, true, 100);
        put_devices(&world, 2, false);
        assert_int_equal(cluster_assume(&world.extend.cluster, "u", "n", &second), 0); /* and nobody answered */
        put_devices(&world, 1, false);
        script_start(&script, steps, 3);
        world.binder.api.server = script.url;
        assert_int_equal(bind_pod(&world.binder, &request, &err), 0);
        script_end(&script);
        assert_int_equal(cluster_pod(&world.extend.cluster, "u")->devices[0], 0);
        world_done(&world);
}

static void a_reserved_device_that_is_lost_is_not_bound_to(void **state)
{
        struct world world;
        struct err err = { 0 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                world_init(&world, false, 100);
                world.binder.api.server = "http://127.0.0.1:1"; /* nobody listens: a call would fail otherwise */
                put_devices(&world, 2, false);
                put_job(&world);
                reserve_places(&world);
                put_devices(&world, i ? 2 : 1, i); /* fewer, or an unhealthy one: the job fits no more */
                assert_int_equal(bind_pod(&world.binder, &request, &err), -ENOSPC);
                assert_false(cluster_pod(&world.extend.cluster, "v")->is_reserved);
                world_done(&world);
        }
}

static void a_pod_that_has_succeeded_is_not_bound(void **state)
{
        struct object_pod over = { .uid = "u",
                                   .namespace = "default",
                                   .name = "p",
                                   .node = "n",
                                   .n_wants = 1,
                                   .is_over = true,
                                   .has_succeeded = true,
                                   .job = "train",
                                   .job_pods = 2 };
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, false, 100);
        world.binder.api.server = "http://127.0.0.1:1"; /* nobody listens: a call would fail otherwise */
        put_job(&world);
        assert_int_equal(cluster_put_pod(&world.extend.cluster, &over), 0);
        assert_int_equal(bind_pod(&world.binder, &request, &err), -EPERM);
        assert_non_null(strstr(err.text, "has ended"));
        world_done(&world);
}

static void a_pod_that_does_not_rent_is_not_bound(void **state)
{
        static const struct step steps[] = { { "GET", 200, NULL } }; /* an object that is no pod */
        static const struct step plain[] = { { "GET", 200, PLAIN } };

        (void)state;
        assert_bind(steps, 1, false, -EIO, 0);
        assert_bind(plain, 1, false, -EPERM, 0);
}

static void a_cordoned_node_gets_only_pods_that_tolerate_it(void **state)
{
        struct object_node node = { .name = "n", .n_devices = 1, .devices = { { .total = 100 } }, .is_cordoned = true };
        static const struct step steps[] = { { "PATCH", 200, NULL }, { "POST", 201, NULL } };
        struct script script;
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, true, 100);
        assert_int_equal(cluster_put_node(&world.extend.cluster, &node), 0);
        world.binder.api.server = "http://127.0.0.1:1"; /* nobody listens: a call would fail otherwise */
        assert_int_equal(bind_pod(&world.binder, &request, &err), -EPERM);
        assert_non_null(strstr(err.text, "cordoned"));
        assert_true(cluster_node(&world.extend.cluster, "n")->devices[0].used == 0);
        world_done(&world);

        world_init(&world, false, 100);
        assert_int_equal(cluster_put_node(&world.extend.cluster, &node), 0);
        put_pod(&world, true);
        script_start(&script, steps, 2);
        world.binder.api.server = script.url;
        assert_int_equal(bind_pod(&world.binder, &request, &err), 0);
        script_end(&script);
        world_done(&world);
}

static void a_name_that_could_leave_its_path_is_refused(void **state)
{
        static const char *const names[] = { NULL, "", ".", "..", "../x", "a/b", "a?b", "a%2fb", "a b", "a\n" };
        char longest[OBJECT_NAME + 1] = "";
        struct world world;
        struct err err = { 0 };

        (void)state;
        world_init(&world, true, 100);
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                const struct bind_request requests[] = { { names[i], "default", "u", "n" },
                                                         { "p", names[i], "u", "n" },
                                                         { "p", "default", names[i], "n" },
                                                         { "p", "default", "u", names[i] } };

                for (size_t k = 0; k < 4; k++)
                        assert_int_equal(bind_pod(&world.binder, &requests[k], &err), -EINVAL);
        }
        memset(longest, 'a', OBJECT_NAME);
        assert_int_equal(bind_pod(&world.binder, &(struct bind_request){ longest, "default", "u", "n" }, &err),
                         -EINVAL);
        world_done(&world);
}

static bool is_always_ready(void *context)
{
        (void)context;
        return true;
}

/* The last call may end with the test. */
static void count_refusal(void *context, const char *text)
{
        *(int *)context += strstr(text, "asking for pod default/p again: the API server says 403") != NULL;
}

static void a_pod_that_may_not_be_asked_for_holds_up_no_other(void **state)
{
        static const struct step steps[] = { { "PATCH /api/v1/namespaces/default/pods/p", 403, NULL },
                                             { "PATCH /api/v1/namespaces/default/pods/q", 200, NULL } };
        static atomic_bool is_ending;
        static struct nudge nudge;
        struct script script;
        struct world world;
        int n_refusals = 0;

        (void)state;
        world_init(&world, false, 100);
        put_job(&world);
        script_start(&script, steps, 2);
        nudge = (struct nudge){ .lock = &world.lock,
                                .extend = &world.extend,
                                .elect = &world.elect,
                                .is_ready = is_always_ready,
                                .say = count_refusal,
                                .context = &n_refusals,
                                .api = { .server = script.url, .is_ending = &is_ending } };
        assert_int_equal(nudge_start(&nudge), 0);
        assert_int_equal(pthread_join(script.thread, NULL), 0); /* it ends after its last step */
        atomic_store(&is_ending, true);
        nudge_end(&nudge);
        assert_int_equal(n_refusals, 1);
        (void)close(script.fd);
        world_done(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(annotations_are_written_before_the_binding),
                cmocka_unit_test(a_refused_decision_is_taken_back),
                cmocka_unit_test(without_an_answer_the_pod_decides_and_else_the_decision_stays),
                cmocka_unit_test(nothing_is_written_for_a_full_node_or_without_the_lease),
                cmocka_unit_test(a_job_s_pod_is_not_bound_to_a_node_that_has_gone),
                cmocka_unit_test(what_was_decided_on_a_device_that_is_lost_is_decided_anew),
                cmocka_unit_test(a_reserved_device_that_is_lost_is_not_bound_to),
                cmocka_unit_test(a_pod_that_has_succeeded_is_not_bound),
                cmocka_unit_test(a_pod_that_does_not_rent_is_not_bound),
                cmocka_unit_test(a_cordoned_node_gets_only_pods_that_tolerate_it),
                cmocka_unit_test(a_name_that_could_leave_its_path_is_refused),
                cmocka_unit_test(a_pod_that_may_not_be_asked_for_holds_up_no_other),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
