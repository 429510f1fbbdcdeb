/* SPDX-License-Identifier: Apache-2.0 */
/* Claims and their pods, on literals: what becomes a row of the daemon's table, and what is refused. */
#include "unit.h"

#include "base/err.h"
#include "kube/dra/claim.h"

#include <errno.h>
#include <string.h>

#define RESULT(request, device, more)                                                                                  \
        "{'driver':'gpu.sublet.dev','pool':'n1','request':'" request "','device':'" device "'" more "}"
#define CONSUMED(memory, share) ",'consumedCapacity':{'memory':'" memory "','share':'" share "'}"
#define CLAIM(results)                                                                                                 \
        "{'metadata':{'name':'c1','uid':'u-c'},'status':{'allocation':{'devices':{'results':[" results "]}},"          \
        "'reservedFor':[{'resource':'pods','name':'web','uid':'u-web'}]}}"
#define POD(uid, spec)                                                                                                 \
        "{'metadata':{'name':'web','namespace':'shop','uid':'" uid "'},'spec':{'nodeName':'n1','runtimeClassName':"    \
        "'sublet','resourceClaims':[{'name':'gpu','resourceClaimName':'c1'}]," spec "}}"
#define USES "'resources':{'claims':[{'name':'gpu'}]}"
#define ONE POD("u-web", "'containers':[{'name':'main'," USES "},{'name':'side'}]")
#define QUARTER CLAIM(RESULT("r", "gpu-a", CONSUMED("4Gi", "25")))

static const char devices[] = "[{'uuid':'GPU-A','index':0},{'uuid':'GPU-B','index':1}]";

/* JSON with ' for ". */
static json_t *json_of(const char *text)
{
        char copy[4096];
        json_t *json;
        size_t i;

        assert_true(strlen(text) < sizeof(copy));
        for (i = 0; text[i]; i++)
                copy[i] = (char)(text[i] == '\'' ? '"' : text[i]);
        copy[i] = '\0';
        json = json_loads(copy, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(json);
        return json;
}

/* pods: two at most; NULL: none. *ret is the caller's where 0 is returned. */
static int read_claim(const char *claim, const char *pod, const char *other, json_t **ret)
{
        json_t *pods[] = { json_of(pod), other ? json_of(other) : NULL }, *of_claim = json_of(claim),
               *of_devices = json_of(devices);
        struct err err = { 0 };
        int r = claim_read(&(struct claim_view){ .node = "n1",
                                                 .runtime_class = "sublet",
                                                 .devices = of_devices,
                                                 .claim = of_claim,
                                                 .pods = (const json_t *const *)pods,
                                                 .n_pods = other ? 2 : 1 },
                           ret, &err);

        assert_true(r == 0 || *err.text);
        json_decref(pods[0]);
        json_decref(pods[1]);
        json_decref(of_claim);
        json_decref(of_devices);
        return r;
}

static int refused(const char *claim, const char *pod)
{
        json_t *ret = NULL;
        int r = read_claim(claim, pod, NULL, &ret);

        json_decref(ret);
        return r;
}

static void test_row(void **state)
{
        json_t *ret, *row;

        (void)state;
        assert_int_equal(read_claim(QUARTER, ONE, NULL, &ret), 0);
        assert_int_equal(json_array_size(json_object_get(ret, "rows")), 1);
        row = json_array_get(json_object_get(ret, "rows"), 0);
        assert_string_equal(json_string_value(json_object_get(row, "pod")), "u-web");
        assert_string_equal(json_string_value(json_object_get(row, "namespace")), "shop");
        assert_string_equal(json_string_value(json_object_get(row, "name")), "web");
        assert_string_equal(json_string_value(json_object_get(row, "container")), "main");
        assert_string_equal(json_string_value(json_object_get(row, "uuid")), "GPU-A");
        assert_int_equal(json_integer_value(json_object_get(row, "mem_bytes")), 4LL << 30);
        assert_int_equal(json_integer_value(json_object_get(row, "share_permille")), 250);
        json_decref(ret);
}

/* Two requests of a claim, each for its own container; and one made from a template, which the pod's status names. */
/* The scheduler made the claim: the pod's status says of which container each request is. */
static void test_plain(void **state)
{
#define PLAIN(claim, container, request)                                                                               \
        "{'metadata':{'name':'web','namespace':'shop','uid':'u-web'},'spec':{'nodeName':'n1','runtimeClassName':"      \
        "'sublet','containers':[{'name':'side'},{'name':'main'}]},'status':{'extendedResourceClaimStatus':{"           \
        "'resourceClaimName':'" claim "','requestMappings':[{'containerName':'" container "','requestName':'" request  \
        "','resourceName':'sublet.dev/gpu'}]}}}"
        json_t *ret;

        (void)state;
        assert_int_equal(read_claim(QUARTER, PLAIN("c1", "main", "r"), NULL, &ret), 0);
        assert_string_equal(
                json_string_value(json_object_get(json_array_get(json_object_get(ret, "rows"), 0), "container")),
                "main");
        json_decref(ret);
        assert_int_equal(refused(QUARTER, PLAIN("c2", "main", "r")), -EBUSY);
        assert_int_equal(refused(QUARTER, PLAIN("c1", "other", "r")), -EBUSY);
        assert_int_equal(refused(QUARTER, PLAIN("c1", "main", "s")), -EBUSY);
#undef PLAIN
}

static void test_requests(void **state)
{
        json_t *ret, *rows;

        (void)state;
        assert_int_equal(
                read_claim(
                        CLAIM(RESULT("small/any", "gpu-a", CONSUMED("1Gi", "0")) "," RESULT("large", "gpu-b",
                                                                                            CONSUMED("8Gi", "12500m"))),
                        "{'metadata':{'name':'web','uid':'u'},'spec':{'nodeName':'n1','runtimeClassName':'sublet',"
                        "'resourceClaims':[{'name':'gpu','resourceClaimTemplateName':'t'}],"
                        "'initContainers':[{'name':'first','resources':{'claims':[{'name':'gpu','request':'small'}]}}],"
                        "'containers':[{'name':'main','resources':{'claims':[{'name':'gpu','request':'large'}]}}]},"
                        "'status':{'resourceClaimStatuses':[{'name':'gpu','resourceClaimName':'c1'}]}}",
                        NULL, &ret),
                0);
        rows = json_object_get(ret, "rows");
        assert_int_equal(json_array_size(rows), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "container")), "first");
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "container")), "main");
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 1), "share_permille")), 125);
        json_decref(ret);
}

/* C2: two containers of a pod, or of two, would each have the whole. */
static void test_shared(void **state)
{
        json_t *ret = NULL;

        (void)state;
        assert_int_equal(refused(QUARTER, POD("u-web", "'containers':[{'name':'a'," USES "},{'name':'b'," USES "}]")),
                         -EBUSY);
        assert_int_equal(refused(QUARTER, POD("u-web", "'containers':[{'name':'a'}]")), -EBUSY);
        assert_int_equal(read_claim(QUARTER, ONE, POD("u-2", "'containers':[{'name':'main'," USES "}]"), &ret), -EBUSY);
        assert_null(ret);
}

/* C3 */
static void test_outside(void **state)
{
        (void)state;
        assert_int_equal(refused(QUARTER,
                                 "{'spec':{'nodeName':'n1','resourceClaims':[{'name':'gpu','resourceClaimName':'c1'}],"
                                 "'containers':[{'name':'main'," USES "}]}}"),
                         -EPERM);
        assert_int_equal(refused(QUARTER, POD("u", "'containers':[{'name':'main'," USES "},{'name':'side',"
                                                   "'securityContext':{'privileged':true}}]")),
                         -EPERM);
        assert_int_equal(refused(QUARTER, POD("u", "'containers':[{'name':'main'," USES "}],"
                                                   "'securityContext':{'seccompProfile':{'type':'RuntimeDefault'}}")),
                         -EPERM);
        assert_int_equal(refused(QUARTER, POD("u", "'containers':[{'name':'main'," USES "}],'hostPID':true")), -EPERM);
        assert_int_equal(refused(QUARTER, POD("u", "'containers':[{'name':'main'," USES "}],"
                                                   "'volumes':[{'name':'v','hostPath':{'path':'/run/sublet'}}]")),
                         -EPERM);
        assert_int_equal(refused(QUARTER, "{'spec':{'nodeName':'n2','runtimeClassName':'sublet'}}"), -EINVAL);
}

/* C1, C4 */
static void test_amounts(void **state)
{
        (void)state;
        assert_int_equal(refused(CLAIM(RESULT("r", "gpu-a", ",'adminAccess':true")), ONE), -EINVAL);
        assert_int_equal(refused(CLAIM(RESULT("r", "gpu-a", CONSUMED("0", "0"))), ONE), -EINVAL);
        assert_int_equal(refused(CLAIM(RESULT("r", "gpu-a", CONSUMED("4Gi", "101"))), ONE), -EINVAL);
        assert_int_equal(refused(CLAIM(RESULT("r", "gpu-c", CONSUMED("4Gi", "0"))), ONE), -ENOENT);
        assert_int_equal(refused("{'metadata':{'name':'c1'}}", ONE), -EINVAL);
        assert_int_equal(refused("{'metadata':{'name':'c1'},'status':{'allocation':{'devices':{'results':[],"
                                 "'config':[{'opaque':{'driver':'gpu.sublet.dev','parameters':{}}}]}}}}",
                                 ONE),
                         -EINVAL);
}

static void test_quantities(void **state)
{
        static const struct {
                const char *text;
                int code;
                uint64_t value;
        } rows[] = {
                { "4Gi", 0, 4000ULL << 30 },   { "30", 0, 30000 },
                { "12500m", 0, 12500 },        { "4e9", 0, 4000000000000 },
                { "1500M", 0, 1500000000000 }, { "", -EINVAL, 0 },
                { "Gi", -EINVAL, 0 },          { "-1", -EINVAL, 0 },
                { "1.5Gi", -EINVAL, 0 },       { "4e", -EINVAL, 0 },
                { "4e99", -EINVAL, 0 },        { "4e9x", -EINVAL, 0 },
                { "4gi", -EINVAL, 0 },         { "99999999999999999999", -ERANGE, 0 },
                { "99999999Ti", -ERANGE, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t value = 0;

                assert_int_equal(claim_quantity(rows[i].text, &value), rows[i].code);
                assert_true(value == rows[i].value);
        }
}

static void test_pods(void **state)
{
        struct claim_pod pods[CLAIM_PODS];
        json_t *claim = json_of(QUARTER);

        (void)state;
        assert_int_equal(claim_pods(claim, pods, NULL), 1);
        assert_string_equal(pods[0].name, "web");
        assert_string_equal(pods[0].uid, "u-web");
        json_decref(claim);
        claim = json_of("{'status':{'reservedFor':[{'resource':'jobs','name':'web','uid':'u'}]}}");
        assert_int_equal(claim_pods(claim, pods, NULL), -EINVAL);
        json_decref(claim);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_row),        cmocka_unit_test(test_plain),   cmocka_unit_test(test_requests),
                cmocka_unit_test(test_shared),     cmocka_unit_test(test_outside), cmocka_unit_test(test_amounts),
                cmocka_unit_test(test_quantities), cmocka_unit_test(test_pods),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
