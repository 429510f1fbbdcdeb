#include "kube/extend.h"

#include <stdio.h>
#include <string.h>

static struct place_request request_of(const struct object_pod *pod)
{
        return (struct place_request){ pod->wants, pod->n_wants, pod->is_together };
}

/* ---- why not ----------------------------------------------------------------------------------- */

static void largest(const struct cluster_node *node, bytes *ret_total, bytes *ret_free, size_t *ret_at)
{
        *ret_total = *ret_free = 0;
        *ret_at = 0;
        for (size_t i = 0; i < node->n_devices; i++) {
                bytes free = place_free(&node->devices[i]);

                if (!node->devices[i].is_sick && node->devices[i].total > *ret_total)
                        *ret_total = node->devices[i].total;
                if (free > *ret_free) {
                        *ret_free = free;
                        *ret_at = i;
                }
        }
}

static void wanted(const struct object_pod *pod, bytes *ret_most, unsigned int *ret_share)
{
        *ret_most = 0;
        *ret_share = 0;
        for (size_t i = 0; i < pod->n_wants; i++) {
                if (pod->is_together)
                        *ret_most += pod->wants[i].memory;
                else if (pod->wants[i].memory > *ret_most)
                        *ret_most = pod->wants[i].memory;
                if (pod->wants[i].share > *ret_share)
                        *ret_share = pod->wants[i].share;
        }
}

static void say_why(const struct cluster_node *node, const struct object_pod *pod, int outcome,
                    char why[static EXTEND_WHY])
{
        char a[BYTES_TEXT], b[BYTES_TEXT];
        bytes most, total, free;
        unsigned int share;
        size_t at;

        wanted(pod, &most, &share);
        largest(node, &total, &free, &at);
        switch (outcome) {
        case PLACE_E_NONE:
                (void)snprintf(why, EXTEND_WHY, "%s", node->problem ? node->problem : "it has no GPU memory to rent");
                break;
        case PLACE_E_LARGE:
                (void)snprintf(why, EXTEND_WHY,
                               "%s of GPU memory asked for on one device, its largest healthy one has %s",
                               bytes_format(most, a), bytes_format(total, b));
                break;
        case PLACE_E_FULL:
                (void)snprintf(why, EXTEND_WHY,
                               "%s of GPU memory asked for on one device, the most free is %s (device %zu)",
                               bytes_format(most, a), bytes_format(free, b), at);
                break;
        case PLACE_E_SHARE:
                (void)snprintf(why, EXTEND_WHY, "no device has both %s of GPU memory and %u %% of its time free",
                               bytes_format(most, a), share / (PLACE_WHOLE / 100));
                break;
        default:
                (void)snprintf(why, EXTEND_WHY, "each of its %zu GPU containers would fit, all of them do not",
                               pod->n_wants);
                break;
        }
}

int extend_pick(const struct extend *extend, const char *name, const struct object_pod *pod, struct place *ret,
                char why[static EXTEND_WHY])
{
        const struct place_request request = request_of(pod);
        const struct cluster_node *node = cluster_node(&extend->cluster, name);
        int outcome = PLACE_E_NONE;

        why[0] = '\0';
        if (pod->problem) {
                (void)snprintf(why, EXTEND_WHY, "%s", pod->problem);
                return PLACE_E_LARGE;
        }
        if (!pod->n_wants) {
                *ret = (struct place){ 0 };
                return PLACE_OK;
        }
        if (node)
                outcome = place_pick(&(struct place_node){ node->devices, node->n_devices }, &request, extend->policy,
                                     &extend->cluster.mix, ret);
        if (!node)
                (void)snprintf(why, EXTEND_WHY, "the node is not known yet");
        else if (outcome != PLACE_OK)
                say_why(node, pod, outcome, why);
        return outcome;
}

/* ---- filter, prioritize ------------------------------------------------------------------------ */

/* The nodes of ExtenderArgs, by name or whole. */
struct names {
        const json_t *names, *items;
        size_t n;
};

static struct names names_of(const json_t *args)
{
        struct names names = { json_object_get(args, "NodeNames"),
                               json_object_get(json_object_get(args, "Nodes"), "items"), 0 };

        if (!json_is_array(names.names))
                names.names = NULL;
        names.n = json_array_size(names.names ? names.names : names.items);
        return names;
}

static const char *name_at(const struct names *names, size_t i)
{
        const json_t *item = json_array_get(names->names ? names->names : names->items, i);

        if (!names->names)
                item = json_object_get(json_object_get(item, "metadata"), "name");
        return json_string_value(item);
}

static json_t *filter_error(const char *text)
{
        return json_pack("{s:n,s:[],s:{},s:s}", "Nodes", "NodeNames", "FailedNodes", "Error", text);
}

struct verdict {
        json_t *passed, *items, *failed, *final;
};

/* What is final is in both maps: older schedulers read only one, newer ones let the other win. */
static void judge(const struct extend *extend, const struct object_pod *pod, const struct names *names, size_t i,
                  struct verdict *to)
{
        const char *name = name_at(names, i);
        char why[EXTEND_WHY];
        struct place place;
        int outcome;

        if (!name)
                return;
        outcome = extend_pick(extend, name, pod, &place, why);
        if (outcome == PLACE_OK) {
                (void)json_array_append_new(to->passed, json_string_nocheck(name));
                if (!names->names)
                        (void)json_array_append(to->items, json_array_get(names->items, i));
                return;
        }
        (void)json_object_set_new(to->failed, name, json_string(why));
        if (outcome == PLACE_E_NONE || outcome == PLACE_E_LARGE)
                (void)json_object_set_new(to->final, name, json_string(why));
}

json_t *extend_filter(const struct extend *extend, const json_t *args)
{
        struct names names = names_of(args);
        struct object_pod pod;
        struct verdict verdict;

        if (object_pod_read(json_object_get(args, "Pod"), extend->cluster.unit, &pod) < 0)
                return filter_error("the request has no Pod");
        verdict = (struct verdict){ json_array(), json_array(), json_object(), json_object() };
        for (size_t i = 0; i < names.n; i++)
                judge(extend, &pod, &names, i, &verdict);
        if (names.names) {
                json_decref(verdict.items);
                verdict.items = NULL;
        }
        return json_pack("{s:o,s:o,s:o,s:o,s:s}", "Nodes",
                         verdict.items ? json_pack("{s:o}", "items", verdict.items) : json_null(), "NodeNames",
                         verdict.passed, "FailedNodes", verdict.failed, "FailedAndUnresolvableNodes", verdict.final,
                         "Error", "");
}

static unsigned int score(const struct extend *extend, const struct object_pod *pod, const char *name)
{
        const struct cluster_node *node = cluster_node(&extend->cluster, name);
        const struct place_request request = request_of(pod);
        struct place_node view;
        struct place place;

        if (!node || !pod->n_wants || pod->problem)
                return 0;
        view = (struct place_node){ node->devices, node->n_devices };
        if (place_pick(&view, &request, extend->policy, &extend->cluster.mix, &place) != PLACE_OK)
                return 0;
        return place_score(&view, &request, extend->policy, &extend->cluster.mix, &place);
}

/* A name that stands in JSON as it is; node names are such. */
static bool is_plain(const char *name)
{
        return name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")];
}

/* Written as text: 5,000 objects made and dumped would cost more than all the rest. */
char *extend_prioritize(const struct extend *extend, const json_t *args)
{
        struct names names = names_of(args);
        struct object_pod pod;
        size_t size, n = 0;
        char *text = NULL;
        FILE *to = open_memstream(&text, &size);
        bool is_pod = object_pod_read(json_object_get(args, "Pod"), extend->cluster.unit, &pod) == 0;

        if (!to)
                return NULL;
        (void)fputc('[', to);
        for (size_t i = 0; is_pod && i < names.n; i++) {
                const char *name = name_at(&names, i);

                if (!is_plain(name))
                        continue;
                (void)fputs(n++ ? ",{\"Host\":\"" : "{\"Host\":\"", to);
                (void)fputs(name, to);
                (void)fprintf(to, "\",\"Score\":%u}", score(extend, &pod, name));
        }
        (void)fputc(']', to);
        return fclose(to) == 0 ? text : NULL;
}

/* ---- preempt ----------------------------------------------------------------------------------- */

enum {
        VICTIMS = 256,
};

struct victims {
        const char *uids[VICTIMS]; /* borrowed of the request, or of the cluster */
        size_t n;
};

static void take_victims(const json_t *node, struct victims *victims)
{
        const json_t *pod;
        size_t i;

        json_array_foreach(json_object_get(node, "Pods"), i, pod)
        {
                const char *uid = json_string_value(json_object_get(pod, "UID"));

                if (!uid)
                        uid = json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid"));
                if (uid && victims->n < VICTIMS)
                        victims->uids[victims->n++] = uid;
        }
}

static bool fits_without(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod,
                         const struct victims *victims)
{
        const struct place_request request = request_of(pod);
        struct place_device devices[PLACE_DEVICES];
        struct place_node view = { devices, cluster_devices_without(node, victims->uids, victims->n, devices) };
        struct place place;

        return !pod->problem &&
               (!pod->n_wants || place_pick(&view, &request, extend->policy, &extend->cluster.mix, &place) == PLACE_OK);
}

static bool is_victim(const struct victims *victims, const struct cluster_pod *pod)
{
        for (size_t i = 0; i < victims->n; i++)
                if (!strcmp(victims->uids[i], pod->uid))
                        return true;
        return false;
}

/* The least important pod of lower priority that has not been named; with equals, the one that holds most. */
static const struct cluster_pod *next_victim(const struct cluster_node *node, const struct object_pod *pod,
                                             const struct victims *victims)
{
        const struct cluster_pod *best = NULL;

        for (const struct cluster_pod *p = node->pods; p; p = p->next_here)
                if (p->priority < pod->priority && !is_victim(victims, p) &&
                    (!best || p->priority < best->priority ||
                     (p->priority == best->priority && p->wants[0].memory > best->wants[0].memory)))
                        best = p;
        return best;
}

/* The scheduler added up memory over the node; on one device it may take other pods. Those that turn out not to be
 * needed, of ours, stay. */
static bool find_victims(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod,
                         struct victims *victims)
{
        size_t given = victims->n;

        while (!fits_without(extend, node, pod, victims)) {
                const struct cluster_pod *one = next_victim(node, pod, victims);

                if (!one || victims->n == VICTIMS)
                        return false;
                victims->uids[victims->n++] = one->uid;
        }
        for (size_t i = given; i < victims->n;) {
                struct victims fewer = *victims;

                fewer.uids[i] = fewer.uids[--fewer.n];
                if (fits_without(extend, node, pod, &fewer))
                        *victims = fewer;
                else
                        i++;
        }
        return true;
}

static json_t *victims_json(const struct victims *victims, const json_t *given)
{
        json_t *pods = json_array();

        for (size_t i = 0; i < victims->n; i++)
                (void)json_array_append_new(pods, json_pack("{s:s}", "UID", victims->uids[i]));
        return json_pack("{s:o,s:I}", "Pods", pods, "NumPDBViolations",
                         json_integer_value(json_object_get(given, "NumPDBViolations")));
}

json_t *extend_preempt(const struct extend *extend, const json_t *args)
{
        json_t *given = json_object_get(args, "NodeNameToMetaVictims"), *kept = json_object(), *one;
        const char *name;
        struct object_pod pod;

        if (!json_object_size(given))
                given = json_object_get(args, "NodeNameToVictims");
        if (object_pod_read(json_object_get(args, "Pod"), extend->cluster.unit, &pod) < 0)
                return json_pack("{s:o}", "NodeNameToMetaVictims", kept);
        json_object_foreach(given, name, one)
        {
                const struct cluster_node *node = cluster_node(&extend->cluster, name);
                struct victims victims = { 0 };

                take_victims(one, &victims);
                if (!pod.n_wants || (node && find_victims(extend, node, &pod, &victims)))
                        (void)json_object_set_new(kept, name, victims_json(&victims, one));
        }
        return json_pack("{s:o}", "NodeNameToMetaVictims", kept);
}

/* ---- inspect ----------------------------------------------------------------------------------- */

static bytes held_on(const struct cluster_pod *pod, size_t device)
{
        bytes sum = 0;

        for (size_t i = 0; i < pod->n_wants; i++)
                if (!pod->is_placed || pod->devices[i] == device)
                        sum += pod->wants[i].memory;
        return sum;
}

static json_t *device_json(const struct extend *extend, const struct cluster_node *node, size_t i)
{
        bytes unit = extend->cluster.unit;
        json_t *pods = json_array();

        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here) {
                bytes held = held_on(pod, i);

                if (held)
                        (void)json_array_append_new(pods, json_pack("{s:s,s:s,s:I}", "name", pod->name, "namespace",
                                                                    pod->space, "usedGPU", (json_int_t)(held / unit)));
        }
        return json_pack("{s:i,s:s,s:I,s:I,s:i,s:b,s:o}", "id", (int)i, "uuid", node->uuids[i], "totalGPU",
                         (json_int_t)(node->devices[i].total / unit), "usedGPU",
                         (json_int_t)(node->devices[i].used / unit), "usedShare",
                         (int)(node->devices[i].share_used / (PLACE_WHOLE / 100)), "healthy",
                         (int)!node->devices[i].is_sick, "pods", pods);
}

static json_t *node_json(const struct extend *extend, const struct cluster_node *node)
{
        json_t *devices = json_array();
        bytes total = 0, used = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                total += node->devices[i].total;
                used += node->devices[i].used;
                (void)json_array_append_new(devices, device_json(extend, node, i));
        }
        return json_pack("{s:s,s:I,s:I,s:o}", "name", node->name, "totalGPU",
                         (json_int_t)(total / extend->cluster.unit), "usedGPU",
                         (json_int_t)(used / extend->cluster.unit), "devs", devices);
}

json_t *extend_inspect(const struct extend *extend, const char *name)
{
        const struct cluster_node *node = name ? cluster_node(&extend->cluster, name) : NULL;
        json_t *nodes = json_array();

        if (name && !node) {
                json_decref(nodes);
                return json_pack("{s:[],s:s}", "nodes", "error", "there is no such node");
        }
        if (node)
                (void)json_array_append_new(nodes, node_json(extend, node));
        for (size_t i = 0; !name && (node = map_next(&extend->cluster.nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->is_known && node->n_devices)
                                (void)json_array_append_new(nodes, node_json(extend, node));
        return json_pack("{s:o}", "nodes", nodes);
}
