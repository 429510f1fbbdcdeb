/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra/claim.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/client/reach.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
        THOUSAND = 1000,
        EXPONENT_MAX = 15,
        PERCENT_MAX = 100,
};

const char *claim_text(const json_t *json, const char *key)
{
        const char *text = json_string_value(json_object_get(json, key));

        return text ? text : "";
}

/* ---- quantities ---- */

/* In thousandths; 0: no suffix of a quantity. */
static uint64_t factor_of(const char *suffix)
{
        static const struct {
                char text[3];
                uint64_t factor;
        } rows[] = { { "m", 1 },
                     { "", THOUSAND },
                     { "k", 1000000 },
                     { "M", 1000000000 },
                     { "G", 1000000000000 },
                     { "T", 1000000000000000 },
                     { "Ki", THOUSAND << 10 },
                     { "Mi", THOUSAND << 20 },
                     { "Gi", (uint64_t)THOUSAND << 30 },
                     { "Ti", (uint64_t)THOUSAND << 40 } };
        uint64_t factor = THOUSAND;
        unsigned int exponent;
        int n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (!strcmp(suffix, rows[i].text))
                        return rows[i].factor;
        if ((*suffix != 'e' && *suffix != 'E') || !isdigit((unsigned char)suffix[1]) ||
            sscanf(suffix + 1, "%2u%n", &exponent, &n) != 1 || suffix[1 + n] || exponent > EXPONENT_MAX)
                return 0;
        while (exponent--)
                factor *= 10;
        return factor;
}

int claim_quantity(const char *text, uint64_t *ret_thousandths)
{
        size_t n = strspn(text, "0123456789");
        uint64_t value = 0, factor = factor_of(text + n);

        if (!n || !factor)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
                        return -ERANGE;
        if (__builtin_mul_overflow(value, factor, &value))
                return -ERANGE;
        *ret_thousandths = value;
        return 0;
}

/* ---- what was allocated ---- */

void claim_device_name(const char *uuid, char ret[static CLAIM_DEVICE_NAME])
{
        size_t i;

        for (i = 0; uuid[i] && i < CLAIM_DEVICE_NAME - 1; i++)
                ret[i] = (char)tolower((unsigned char)uuid[i]);
        ret[i] = '\0';
}

static const char *uuid_of(const json_t *devices, const char *name)
{
        char have[CLAIM_DEVICE_NAME];
        const json_t *device;
        size_t i;

        json_array_foreach (devices, i, device) {
                claim_device_name(claim_text(device, "uuid"), have);
                if (*have && !strcmp(have, name))
                        return claim_text(device, "uuid");
        }
        return NULL;
}

/* Of a device's result: memory in bytes, share in permille (0: none asked for). */
static int amounts_of(const json_t *result, bytes *ret_memory, unsigned int *ret_share, struct err *err)
{
        const json_t *consumed = json_object_get(result, "consumedCapacity");
        const char *memory = claim_text(consumed, "memory"), *share = claim_text(consumed, "share");
        uint64_t value = 0;
        int r = claim_quantity(memory, &value);

        if (r < 0 || value < THOUSAND)
                return err_say(err, -EINVAL,
                               "device %.63s was allocated without an amount of memory: the cluster needs the feature "
                               "DRAConsumableCapacity",
                               claim_text(result, "device"));
        *ret_memory = value / THOUSAND;
        value = 0;
        if (*share && (claim_quantity(share, &value) < 0 || value > (uint64_t)PERCENT_MAX * THOUSAND))
                return err_say(err, -EINVAL, "device %.63s: a share of %.32s is not a percentage",
                               claim_text(result, "device"), share);
        *ret_share = (unsigned int)(value / 100);
        return 0;
}

/* ---- who uses it ---- */

int claim_pods(const json_t *claim, struct claim_pod ret[static CLAIM_PODS], struct err *err)
{
        const json_t *list = json_object_get(json_object_get(claim, "status"), "reservedFor"), *one;
        size_t i;

        if (!json_array_size(list))
                return err_say(err, -EINVAL, "the claim is reserved for no pod");
        if (json_array_size(list) > CLAIM_PODS)
                return err_say(err, -E2BIG, "the claim is reserved for %zu pods: one container can have it",
                               json_array_size(list));
        json_array_foreach (list, i, one) {
                ret[i] = (struct claim_pod){ claim_text(one, "name"), claim_text(one, "uid") };
                if (strcmp(claim_text(one, "resource"), "pods") != 0 || !*ret[i].name || !*ret[i].uid)
                        return err_say(err, -EINVAL, "the claim is reserved for something that is no pod");
        }
        return (int)i;
}

/* Whether the pod's entry `name` is this claim. */
static bool is_claim(const json_t *pod, const char *name, const char *claim)
{
        const json_t *one;
        size_t i;

        json_array_foreach (json_object_get(json_object_get(pod, "spec"), "resourceClaims"), i, one)
                if (!strcmp(claim_text(one, "name"), name) && !strcmp(claim_text(one, "resourceClaimName"), claim))
                        return true;
        json_array_foreach (json_object_get(json_object_get(pod, "status"), "resourceClaimStatuses"), i, one)
                if (!strcmp(claim_text(one, "name"), name) && !strcmp(claim_text(one, "resourceClaimName"), claim))
                        return true;
        return false;
}

/* Whether it is the request of a claim that the scheduler made for a plain resource of the container: the class has an
 * extendedResourceName. No one of the pod's own claims is that. */
static bool uses_resource(const json_t *pod, const json_t *container, const char *claim, const char *request)
{
        const json_t *made = json_object_get(json_object_get(pod, "status"), "extendedResourceClaimStatus"), *one;
        size_t i;

        if (strcmp(claim_text(made, "resourceClaimName"), claim) != 0)
                return false;
        json_array_foreach (json_object_get(made, "requestMappings"), i, one)
                if (!strcmp(claim_text(one, "containerName"), claim_text(container, "name")) &&
                    !strcmp(claim_text(one, "requestName"), request))
                        return true;
        return false;
}

static bool uses(const json_t *pod, const json_t *container, const char *claim, const char *request)
{
        const json_t *one;
        size_t i;

        json_array_foreach (json_object_get(json_object_get(container, "resources"), "claims"), i, one)
                if (is_claim(pod, claim_text(one, "name"), claim) &&
                    terms_is_request(request, claim_text(one, "request")))
                        return true;
        return uses_resource(pod, container, claim, request);
}

struct user {
        const json_t *pod;
        const char *container;
        size_t n; /* containers that use it */
};

static struct user user_of(const struct claim_view *view, const char *claim, const char *request)
{
        static const char *const lists[] = { "containers", "initContainers" };
        struct user user = { 0 };

        for (size_t p = 0; p < view->n_pods; p++)
                for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
                        const json_t *container;
                        size_t i;

                        json_array_foreach (json_object_get(json_object_get(view->pods[p], "spec"), lists[k]), i,
                                            container)
                                if (uses(view->pods[p], container, claim, request))
                                        user = (struct user){ view->pods[p], claim_text(container, "name"),
                                                              user.n + 1 };
                }
        return user;
}

/* C3, of one container; `of_pod`: the pod's securityContext. */
static int judge_container(const json_t *container, const json_t *of_pod, struct err *err)
{
        const json_t *context = json_object_get(container, "securityContext"),
                     *own = json_object_get(context, "seccompProfile"),
                     *profile = own ? own : json_object_get(of_pod, "seccompProfile");
        const char *type = claim_text(profile, "type"), *name = claim_text(container, "name");

        if (json_is_true(json_object_get(context, "privileged")))
                return err_say(err, -EPERM, "container %.63s is privileged: no seccomp filter reaches it", name);
        if (*type && strcmp(type, "Unconfined") != 0)
                return err_say(err, -EPERM, "container %.63s has another seccomp profile: leave seccompProfile unset",
                               name);
        return 0;
}

static int judge_pod(const struct claim_view *view, const json_t *pod, struct err *err)
{
        static const char *const lists[] = { "containers", "initContainers", "ephemeralContainers" };
        const json_t *spec = json_object_get(pod, "spec"), *container;
        char reached[160];
        size_t i;

        if (strcmp(claim_text(spec, "nodeName"), view->node) != 0)
                return err_say(err, -EINVAL, "pod %.100s is not on node %.100s",
                               claim_text(json_object_get(pod, "metadata"), "name"), view->node);
        if (strcmp(claim_text(spec, "runtimeClassName"), view->runtime_class) != 0)
                return err_say(err, -EPERM, "a pod with a claim of " DRA_DRIVER " runs in runtime class %.63s",
                               view->runtime_class);
        if (reach_is_wide(spec, reached, sizeof(reached)))
                return err_say(err, -EPERM, "a pod with a claim of " DRA_DRIVER " may not have %s", reached);
        for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
                json_array_foreach (json_object_get(spec, lists[k]), i, container)
                        if (judge_container(container, json_object_get(spec, "securityContext"), err) < 0)
                                return -EPERM;
        return 0;
}

/* ---- rows ---- */

static int add_result(const struct claim_view *view, const char *claim, const json_t *result, json_t *ret,
                      struct err *err)
{
        const char *request = claim_text(result, "request"), *device = claim_text(result, "device"),
                   *uuid = uuid_of(view->devices, device);
        const struct user user = user_of(view, claim, request);
        const json_t *of_pod = json_object_get(user.pod, "metadata");
        unsigned int share = 0;
        json_t *terms = NULL, *row;
        bytes memory = 0;
        int r;

        if (strcmp(claim_text(result, "pool"), view->node) != 0 || !uuid)
                return err_say(err, -ENOENT, "device %.63s of pool %.100s is none of this node's", device,
                               claim_text(result, "pool"));
        if (user.n != 1) /* C2 */
                return err_say(err, -EBUSY, "request %.63s is used by %zu containers: it is for exactly one", request,
                               user.n);
        r = amounts_of(result, &memory, &share, err);
        if (r < 0)
                return r;
        r = terms_read(json_object_get(json_object_get(view->claim, "status"), "allocation"), request, &terms, err);
        if (r < 0)
                return r;
        r = json_array_append_new(json_object_get(ret, "devices"),
                                  json_pack("{s:s, s:s, s:s}", "request", request, "device", device, "uuid", uuid));
        row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "pod", claim_text(of_pod, "uid"), "namespace",
                        claim_text(of_pod, "namespace"), "name", claim_text(of_pod, "name"), "container",
                        user.container, "uuid", uuid, "mem_bytes", (json_int_t)memory, "share_permille", (int)share);
        if (r == 0)
                r = json_object_update(row, terms);
        json_decref(terms);
        if (json_array_append_new(json_object_get(ret, "rows"), row) < 0 || r < 0)
                return err_say(err, -ENOMEM, "no memory");
        return 0;
}

int claim_read(const struct claim_view *view, json_t **ret, struct err *err)
{
        const json_t *allocation = json_object_get(json_object_get(view->claim, "status"), "allocation"), *result;
        const char *claim = claim_text(json_object_get(view->claim, "metadata"), "name");
        json_t *made;
        size_t i;
        int r;

        if (!allocation)
                return err_say(err, -EINVAL, "the claim is not allocated");
        r = terms_judge(allocation, err);
        for (size_t p = 0; r == 0 && p < view->n_pods; p++)
                r = judge_pod(view, view->pods[p], err);
        if (r < 0)
                return r;
        made = json_pack("{s:[], s:[]}", "devices", "rows");
        if (!made)
                return err_say(err, -ENOMEM, "no memory");
        json_array_foreach (json_object_get(json_object_get(allocation, "devices"), "results"), i, result)
                if (r == 0 && !strcmp(claim_text(result, "driver"), DRA_DRIVER))
                        r = add_result(view, claim, result, made, err);
        if (r < 0) {
                json_decref(made);
                return r;
        }
        *ret = made;
        return 0;
}
