/* SPDX-License-Identifier: Apache-2.0 */
/* What the webhook sets on a pod, and what it refuses; pods and reviews are written by anybody. */
#include "unit.h"

#include "kube/webhook/review.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RENTS "\"resources\":{\"limits\":{\"sublet.dev/gpu-mem\":\"8\"}}"
#define OURS "\"securityContext\":{\"seccompProfile\":{\"type\":\"Localhost\",\"localhostProfile\":\"sublet.json\"}}"
#define CLASS ",\"runtimeClassName\":\"sublet\""

static const struct review_settings settings = { .scheduler = "gpu-scheduler",
                                                 .runtime_class = "sublet",
                                                 .profile = "sublet.json",
                                                 .trusted = "admin,system:serviceaccount:sublet:extender" };

static char *pod(const char *containers, const char *spec, const char *annotations)
{
        char *text;

        assert_true(asprintf(&text,
                             "{\"metadata\":{\"generateName\":\"a-\",\"annotations\":{%s}},\"spec\":{\"containers\":[%"
                             "s]%s}}",
                             annotations, containers, spec) > 0);
        return text;
}

/* The answer's `response`; `object` and `old` are freed. */
static json_t *respond(bool is_mutating, const char *operation, const char *user, char *object, char *old)
{
        json_t *review, *answer, *response;
        char *text;

        assert_true(asprintf(&text,
                             "{\"request\":{\"uid\":\"r1\",\"operation\":\"%s\",\"userInfo\":{\"username\":\"%s\"},"
                             "\"object\":%s,\"oldObject\":%s}}",
                             operation, user, object, old ? old : "null") > 0);
        review = json_loads(text, 0, NULL);
        assert_non_null(review);
        answer = review_answer(&settings, review, is_mutating);
        response = json_incref(json_object_get(answer, "response"));
        assert_string_equal(json_string_value(json_object_get(response, "uid")), "r1");
        json_decref(answer);
        json_decref(review);
        free(text);
        free(object);
        free(old);
        return response;
}

/* Whether it is allowed, with `reason` in the message if not. */
static void assert_verdict(json_t *response, const char *reason)
{
        const char *message = json_string_value(json_object_get(json_object_get(response, "status"), "message"));

        if (reason) {
                assert_true(json_is_false(json_object_get(response, "allowed")));
                if (!strstr(message, reason))
                        fail_msg("'%s' is not in '%s'", reason, message);
        } else if (!json_is_true(json_object_get(response, "allowed")))
                fail_msg("refused: %s", message);
        json_decref(response);
}

static json_t *decode(const char *base64)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char text[8192];
        unsigned int bits = 0;
        size_t n = 0;
        int have = 0;

        for (; *base64 && *base64 != '='; base64++) {
                bits = bits << 6 | (unsigned int)(strchr(digits, *base64) - digits);
                have += 6;
                if (have >= 8)
                        text[n++] = (char)(bits >> (have -= 8));
        }
        return json_loadb(text, n, 0, NULL);
}

/* Each patch as "op path", one per line; and its value if it is a text. */
static void assert_patches(json_t *response, const char *expected)
{
        const char *patch = json_string_value(json_object_get(response, "patch"));
        json_t *patches = patch ? decode(patch) : json_array(), *one;
        char got[2048] = "";
        size_t i, n = 0;

        assert_true(json_is_true(json_object_get(response, "allowed")));
        json_array_foreach (patches, i, one) {
                const char *value = json_string_value(json_object_get(one, "value"));

                n += (size_t)snprintf(
                        got + n, sizeof(got) - n, "%s %s%s%s\n", json_string_value(json_object_get(one, "op")),
                        json_string_value(json_object_get(one, "path")), value ? " " : "", value ? value : "");
        }
        assert_string_equal(got, expected);
        json_decref(patches);
        json_decref(response);
}

static json_t *create(const char *containers, const char *spec, const char *annotations)
{
        return respond(false, "CREATE", "alice", pod(containers, spec, annotations), NULL);
}

static json_t *mutate(const char *containers, const char *spec, const char *annotations)
{
        return respond(true, "CREATE", "alice", pod(containers, spec, annotations), NULL);
}

static void an_answer_is_whole_whatever_was_sent(void **state)
{
        static const char *const bodies[] = { "null",
                                              "[]",
                                              "{}",
                                              "{\"request\":null}",
                                              "{\"request\":{\"object\":[]}}",
                                              "{\"request\":{\"uid\":1,\"object\":{\"metadata\":[]}}}" };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
                for (int is_mutating = 0; is_mutating < 2; is_mutating++) {
                        json_t *review = json_loads(bodies[i], JSON_DECODE_ANY, NULL);
                        json_t *answer = review_answer(&settings, review, is_mutating);

                        assert_string_equal(json_string_value(json_object_get(answer, "kind")), "AdmissionReview");
                        assert_string_equal(
                                json_string_value(json_object_get(json_object_get(answer, "response"), "uid")), "");
                        assert_verdict(json_incref(json_object_get(answer, "response")), "no pod");
                        json_decref(answer);
                        json_decref(review);
                }
}

static void a_pod_that_rents_nothing_loses_our_annotations_only(void **state)
{
        (void)state;
        assert_patches(mutate("{\"name\":\"c\",\"env\":[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"all\"}]}", "",
                              "\"sublet.dev/allocation\":\"{}\",\"ALIYUN_COM_GPU_MEM_a~b/c\":\"0\",\"mine\":\"1\""),
                       "remove /metadata/annotations/sublet.dev~1allocation\n"
                       "remove /metadata/annotations/ALIYUN_COM_GPU_MEM_a~0b~1c\n");
        assert_verdict(create("{\"name\":\"c\",\"securityContext\":{\"privileged\":true}}", "", ""), NULL);
}

static void a_pod_that_rents_gets_scheduler_class_and_profile(void **state)
{
        (void)state;
        assert_patches(mutate("{\"name\":\"c\"," RENTS "}", "", ""),
                       "add /spec/schedulerName gpu-scheduler\nadd /spec/runtimeClassName sublet\n"
                       "add /spec/containers/0/securityContext\n");
        assert_patches(mutate("{\"name\":\"c\"," RENTS ",\"securityContext\":{}}",
                              ",\"schedulerName\":\"other\",\"runtimeClassName\":\"other\"", ""),
                       "add /spec/containers/0/securityContext/seccompProfile\n");
}

#define COUNT(n)                                                                                                       \
        "\"resources\":{\"limits\":{\"sublet.dev/gpu-mem\":\"8\",\"sublet.dev/gpu-share\":\"30\",\"sublet.dev/"        \
        "gpu-count\":\"" n "\"}}"

static void a_container_on_several_devices_asks_kubelet_for_the_sum(void **state)
{
        static const char sum[] = "{\"name\":\"c\",\"resources\":{\"limits\":{\"sublet.dev/"
                                  "gpu-mem\":\"16\",\"sublet.dev/gpu-share\":\"60\"}}," OURS "}";

        (void)state;
        assert_patches(mutate("{\"name\":\"c\"," COUNT("2") "," OURS "}", ",\"schedulerName\":\"other\"" CLASS, ""),
                       "add /spec/containers/0/securityContext/seccompProfile\n"
                       "replace /spec/containers/0/resources/limits/sublet.dev~1gpu-mem 16\n"
                       "replace /spec/containers/0/resources/limits/sublet.dev~1gpu-share 60\n"
                       "remove /spec/containers/0/resources/limits/sublet.dev~1gpu-count\n"
                       "add /metadata/annotations/sublet.dev~1gpu-counts {\"c\":2}\n");
        /* Its own result is left as it is, and is accepted. */
        assert_patches(mutate(sum, ",\"schedulerName\":\"other\"" CLASS, "\"sublet.dev/gpu-counts\":\"{\\\"c\\\":2}\""),
                       "add /spec/containers/0/securityContext/seccompProfile\n");
        assert_verdict(create(sum, CLASS, "\"sublet.dev/gpu-counts\":\"{\\\"c\\\":2}\""), NULL);
        /* What cannot be granted stays, and is refused. */
        assert_patches(mutate("{\"name\":\"c\"," COUNT("17") "," OURS "}", ",\"schedulerName\":\"other\"" CLASS, ""),
                       "add /spec/containers/0/securityContext/seccompProfile\n");
        assert_verdict(create("{\"name\":\"c\"," COUNT("17") "," OURS "}", CLASS, ""), "gpu-count is 2 to 16 devices");
        assert_verdict(create(sum, CLASS, "\"sublet.dev/gpu-counts\":\"{\\\"c\\\":3}\""), "no multiple");
}

static void our_variables_go_from_the_end_so_that_indices_hold(void **state)
{
        (void)state;
        assert_patches(mutate("{\"name\":\"c\"," RENTS ",\"env\":[{\"name\":\"SUBLET_DIR\"},{\"name\":\"A\"},{\"name\":"
                              "\"CUDA_MPS_PIPE_DIRECTORY\"},{}]}",
                              ",\"schedulerName\":\"other\"" CLASS, ""),
                       "remove /spec/containers/0/env/2\nremove /spec/containers/0/env/0\n"
                       "add /spec/containers/0/securityContext\n");
}

static void a_container_that_asks_for_nothing_sees_no_device(void **state)
{
        (void)state;
        assert_patches(mutate("{\"name\":\"c\"," RENTS "},{\"name\":\"d\",\"env\":[]}",
                              ",\"schedulerName\":\"other\"" CLASS ",\"initContainers\":[{\"name\":\"i\"}]", ""),
                       "add /spec/containers/0/securityContext\n"
                       "add /spec/containers/1/env/-\nadd /spec/containers/1/securityContext\n"
                       "add /spec/initContainers/0/env\nadd /spec/initContainers/0/securityContext\n");
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "},{\"name\":\"d\",\"env\":[{\"name\":"
                              "\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"void\"}]}",
                              CLASS, ""),
                       NULL);
}

static void what_would_bypass_the_gate_is_refused(void **state)
{
        static const struct {
                const char *containers, *spec, *annotations, *reason;
        } rows[] = {
                { "{\"name\":\"c\"," RENTS "," OURS "}", CLASS, "", NULL },
                { "{\"name\":\"c\"," RENTS "," OURS "}", "", "", "runs in runtime class sublet" },
                { "{\"name\":\"c\"," RENTS "," OURS "}", ",\"runtimeClassName\":\"subletx\"", "", "runtime class" },
                { "{\"name\":\"c\"," RENTS "}", CLASS, "", "another seccomp profile" },
                { "{\"name\":\"c\"," RENTS ",\"securityContext\":{\"seccompProfile\":{\"type\":\"Unconfined\"}}}",
                  CLASS, "", "another seccomp profile" },
                { "{\"name\":\"c\"," RENTS ",\"securityContext\":{\"seccompProfile\":{\"type\":\"Localhost\","
                  "\"localhostProfile\":\"sublet.json2\"}}}",
                  CLASS, "", "another seccomp profile" },
                { "{\"name\":\"c\"," RENTS ",\"securityContext\":{\"privileged\":true}}", CLASS, "", "privileged" },
                { "{\"name\":\"c\"," RENTS "," OURS "},{\"name\":\"d\",\"securityContext\":{\"privileged\":true}}",
                  CLASS, "", "container d is privileged" },
                { "{\"name\":\"c\"," RENTS "," OURS
                  "},{\"name\":\"d\",\"securityContext\":{\"seccompProfile\":{\"type\":"
                  "\"RuntimeDefault\"}}}",
                  CLASS, "", "container d of a pod that rents a GPU is under another" },
                { "{\"name\":\"c\"," RENTS "," OURS "},{\"name\":\"d\"}", CLASS, "",
                  NULL }, /* under the runtime class's own */
                { "{\"name\":\"c\"," RENTS "," OURS "}",
                  CLASS ",\"initContainers\":[{\"name\":\"i\",\"securityContext\":{\"privileged\":true}}]", "",
                  "container i is privileged" },
                { "{\"name\":\"c\"," RENTS "," OURS ",\"env\":[{\"name\":\"SUBLET_MEM\",\"value\":\"1\"}]}", CLASS, "",
                  "sets SUBLET_MEM" },
                { "{\"name\":\"c\"," RENTS "," OURS
                  ",\"env\":[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"void\"}]}",
                  CLASS, "", "sets NVIDIA_VISIBLE_DEVICES" },
                { "{\"name\":\"c\"," RENTS "," OURS "}", CLASS,
                  "\"container.seccomp.security.alpha.kubernetes.io/later\":\"localhost/other\"",
                  "another seccomp profile" },
                { "{\"name\":\"c\"," RENTS "," OURS "}", CLASS,
                  "\"container.seccomp.security.alpha.kubernetes.io/c\":\"localhost/sublet.json\"", NULL },
                { "{\"name\":\"c\"," RENTS "," OURS "}", CLASS ",\"nodeName\":\"n1\"", "", "leave nodeName unset" },
                { "{\"name\":\"c\"," RENTS "," OURS "}", CLASS ",\"hostPID\":true", "", "may not have hostPID" },
                { "{\"name\":\"c\"," RENTS "," OURS "}",
                  CLASS ",\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/var/run/sublet\"}}]", "",
                  "the node's /var/run/sublet" },
                { "{\"name\":\"c\"}", ",\"hostPID\":true", "", NULL }, /* it rents nothing */
                { "{\"name\":\"c\",\"resources\":{\"limits\":{\"sublet.dev/gpu-mem\":\"1.5\"}}}", CLASS, "",
                  "whole number" },
                { "{\"name\":\"c\",\"resources\":{\"requests\":{\"sublet.dev/gpu-share\":\"50\"}}}", CLASS, "",
                  "without" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                assert_verdict(create(rows[i].containers, rows[i].spec, rows[i].annotations), rows[i].reason);
}

static json_t *update(const char *user, const char *was, const char *is)
{
        return respond(false, "UPDATE", user, pod("{\"name\":\"c\"," RENTS "}", "", is),
                       pod("{\"name\":\"c\"," RENTS "}", "", was));
}

static void only_trusted_users_change_our_annotations(void **state)
{
        static const char one[] = "\"sublet.dev/allocation\":\"1\"", two[] = "\"sublet.dev/allocation\":\"2\"";

        (void)state;
        assert_verdict(update("alice", one, "\"mine\":\"1\",\"sublet.dev/allocation\":\"1\""), NULL);
        assert_verdict(update("alice", one, two), "you may not change");
        assert_verdict(update("alice", one, ""), "you may not change");
        assert_verdict(update("alice", "", one), "you may not change");
        assert_verdict(update("system:serviceaccount:sublet:extender", one, two), NULL);
        assert_verdict(update("admin", one, two), NULL);
        assert_verdict(update("adm", one, two), "you may not change"); /* no part of a name is trusted */
        assert_verdict(update("admin,system", one, two), "you may not change");
        assert_verdict(update("", one, two), "you may not change");
}

static void a_time_of_sleep_is_a_time_where_it_is_new(void **state)
{
        static const char good[] = "\"sublet.dev/sleep-after\":\"30s\"", none[] = "\"sublet.dev/sleep-after\":\"none\"",
                          bad[] = "\"sublet.dev/sleep-after\":\"soon\"";

        (void)state;
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS, good), NULL);
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS, bad), "soon: a time from 1s to 7d");
        assert_verdict(create("{\"name\":\"c\"}", "", bad), NULL); /* it rents nothing */
        assert_verdict(update("alice", "", good), NULL);
        assert_verdict(update("alice", good, none), NULL);
        assert_verdict(update("alice", good, bad), "soon: a time from 1s to 7d");
        assert_verdict(update("alice", bad, bad), NULL);
}

static void on_how_many_devices_it_is_nobody_changes_later(void **state)
{
        static const char two[] = "\"sublet.dev/gpu-counts\":\"{\\\"c\\\":2}\"";

        (void)state;
        assert_verdict(update("alice", two, two), NULL);
        assert_verdict(update("alice", two, ""), "you may not change");
        assert_verdict(update("alice", "", two), "you may not change");
}

static void a_pod_says_at_its_creation_whether_it_has_swap(void **state)
{
        static const char with[] = "\"sublet.dev/swap\":\"true\"", without[] = "\"sublet.dev/swap\":\"false\"",
                          bad[] = "\"sublet.dev/swap\":\"yes\"";

        (void)state;
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS, with), NULL);
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS, without), NULL);
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS, bad),
                       "its annotation sublet.dev/swap is neither \"true\" nor \"false\"");
        assert_verdict(create("{\"name\":\"c\"}", "", bad), NULL); /* it rents nothing */
        assert_verdict(create("{\"name\":\"c\"," RENTS "," OURS "}", CLASS,
                              "\"sublet.dev/swap\":\"true\",\"sublet.dev/job\":\"train\""),
                       "a pod of a job cannot have sublet.dev/swap");
        assert_verdict(update("alice", with, with), NULL);
        assert_verdict(update("alice", with, without), "you may not change");
        assert_verdict(update("alice", "", with), "you may not change");
}

static void nobody_changes_the_seccomp_annotations_of_a_pod_that_rents(void **state)
{
        static const char ours[] = "\"seccomp.security.alpha.kubernetes.io/pod\":\"unconfined\"";

        (void)state;
        assert_verdict(update("admin", "", ours), "seccomp annotations");
        assert_verdict(update("admin", ours, ""), "seccomp annotations");
        assert_verdict(update("alice", ours, ours), NULL);
}

static void an_ephemeral_container_is_judged_when_it_is_added(void **state)
{
        static const char spec[] =
                CLASS ",\"nodeName\":\"n1\",\"ephemeralContainers\":[{\"name\":\"debug\",\"securityContext\":"
                      "{\"privileged\":true}}]";
        char *object = pod("{\"name\":\"c\"," RENTS "," OURS "}", spec, ""), *text;
        json_t *review, *answer;

        (void)state;
        assert_true(
                asprintf(&text,
                         "{\"request\":{\"operation\":\"UPDATE\",\"subResource\":\"ephemeralcontainers\",\"object\":%s,"
                         "\"oldObject\":%s}}",
                         object, object) > 0);
        review = json_loads(text, 0, NULL);
        answer = review_answer(&settings, review, false);
        assert_verdict(json_incref(json_object_get(answer, "response")), "container debug is privileged");
        json_decref(answer);
        json_decref(review);
        free(object);
        free(text);
}

/* The patches of an update that adds containers of `kubectl debug`; NULL: none. */
static json_t *added(const char *containers, const char *old, const char *new)
{
        char *is = pod(containers, new, ""), *was = pod(containers, old, ""), *text;
        json_t *review, *answer, *patches;
        const char *patch;

        assert_true(
                asprintf(&text,
                         "{\"request\":{\"operation\":\"UPDATE\",\"subResource\":\"ephemeralcontainers\",\"object\":%s,"
                         "\"oldObject\":%s}}",
                         is, was) > 0);
        review = json_loads(text, 0, NULL);
        answer = review_answer(&settings, review, true);
        patch = json_string_value(json_object_get(json_object_get(answer, "response"), "patch"));
        patches = patch ? decode(patch) : NULL;
        json_decref(answer);
        json_decref(review);
        free(is);
        free(was);
        free(text);
        return patches;
}

static const char *path_of(const json_t *patches, size_t i)
{
        return json_string_value(json_object_get(json_array_get(patches, i), "path"));
}

static void an_added_container_gets_our_profile_and_no_device(void **state)
{
        static const char old[] = CLASS ",\"ephemeralContainers\":[{\"name\":\"first\"}]",
                          new[] = CLASS ",\"ephemeralContainers\":[{\"name\":\"first\"},{\"name\":\"second\",\"env\":"
                                        "[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"all\"}]}]",
                          first[] = CLASS ",\"ephemeralContainers\":[{\"name\":\"second\"},{\"name\":\"first\"}]",
                          rents[] = "{\"name\":\"c\"," RENTS "," OURS "}";
        json_t *patches = added(rents, old, new);

        (void)state;
        assert_int_equal(json_array_size(patches), 3);
        assert_string_equal(path_of(patches, 0), "/spec/ephemeralContainers/1/env/0");
        assert_string_equal(path_of(patches, 1), "/spec/ephemeralContainers/1/env/-");
        assert_string_equal(path_of(patches, 2), "/spec/ephemeralContainers/1/securityContext");
        json_decref(patches);
        assert_null(added("{\"name\":\"c\"}", old, new)); /* a pod that rents nothing */
        assert_null(added(rents, new, new));
        patches = added(rents, old, first); /* whoever lists them otherwise */
        assert_int_equal(json_array_size(patches), 2);
        assert_string_equal(path_of(patches, 1), "/spec/ephemeralContainers/0/securityContext");
        json_decref(patches);
}

/* The answer to `user`, who creates a pod on n1 that rents, in our class and under our profile. */
static json_t *shown_by(const char *user, const char *annotations, bool is_mutating)
{
        return respond(is_mutating, "CREATE", user,
                       pod("{\"name\":\"c\"," RENTS "," OURS "}", CLASS ",\"nodeName\":\"n1\"", annotations), NULL);
}

static void a_static_pod_is_let_pass_and_left_as_it_is_if_its_own_node_shows_it(void **state)
{
        static const char shown[] = "\"kubernetes.io/config.mirror\":\"5e1f\"";
        json_t *response = shown_by("system:node:n1", shown, true);

        (void)state;
        assert_null(json_object_get(response, "patch"));
        json_decref(response);
        assert_verdict(shown_by("system:node:n1", shown, false), NULL);
        assert_verdict(shown_by("system:node:n1", "", false), "leave nodeName unset");
        assert_verdict(shown_by("system:node:n2", shown, false), "leave nodeName unset");
        assert_verdict(shown_by("system:node:", shown, false), "leave nodeName unset");
        assert_verdict(shown_by("alice", shown, false), "leave nodeName unset");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_answer_is_whole_whatever_was_sent),
                cmocka_unit_test(a_pod_that_rents_nothing_loses_our_annotations_only),
                cmocka_unit_test(a_pod_that_rents_gets_scheduler_class_and_profile),
                cmocka_unit_test(a_container_on_several_devices_asks_kubelet_for_the_sum),
                cmocka_unit_test(a_time_of_sleep_is_a_time_where_it_is_new),
                cmocka_unit_test(a_pod_says_at_its_creation_whether_it_has_swap),
                cmocka_unit_test(on_how_many_devices_it_is_nobody_changes_later),
                cmocka_unit_test(our_variables_go_from_the_end_so_that_indices_hold),
                cmocka_unit_test(a_container_that_asks_for_nothing_sees_no_device),
                cmocka_unit_test(what_would_bypass_the_gate_is_refused),
                cmocka_unit_test(only_trusted_users_change_our_annotations),
                cmocka_unit_test(nobody_changes_the_seccomp_annotations_of_a_pod_that_rents),
                cmocka_unit_test(an_ephemeral_container_is_judged_when_it_is_added),
                cmocka_unit_test(an_added_container_gets_our_profile_and_no_device),
                cmocka_unit_test(a_static_pod_is_let_pass_and_left_as_it_is_if_its_own_node_shows_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
