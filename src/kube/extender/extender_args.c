/*
 * A scheduler that keeps its own copy of the nodes (nodeCacheCapable) sends a pod and thousands of names. Making a value
 * of each would take longer than to answer. So there is a short way: the three members are found in the text, the pod's
 * bytes alone are parsed, and names stay where they are. It takes only what Go's encoder writes: plain names, no
 * member twice, "Nodes" null. Anything else, valid or not, goes the long way, through jansson; who is wrong there is wrong.
 */
#include "kube/extender/extender_args.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

enum {
        NAMES_FIRST = 64,
};

/* ---- the short way ----------------------------------------------------------------------------- */

struct scan {
        const char *at; /* the text ends with a NUL, at which every step stops */
        const char *pod, *pod_end;
        bool has_names, has_nodes;
        struct node_name *names;
        size_t n_names, room;
};

static void skip_blanks(struct scan *scan)
{
        while (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r' || *scan->at == '\n')
                scan->at++;
}

static bool skip(struct scan *scan, const char *text)
{
        size_t n = strlen(text);

        skip_blanks(scan);
        if (strncmp(scan->at, text, n) != 0)
                return false;
        scan->at += n;
        return true;
}

/* Past a string that began before; what is in it is jansson's to judge. */
static bool skip_string(struct scan *scan)
{
        for (;; scan->at += 2) {
                scan->at += strcspn(scan->at, "\"\\");
                if (*scan->at == '"') {
                        scan->at++;
                        return true;
                }
                if (!*scan->at || !scan->at[1])
                        return false;
        }
}

/* Past an object: braces outside of strings are counted, no more. */
static bool skip_object(struct scan *scan)
{
        unsigned int depth = 0;

        for (;;) {
                scan->at += strcspn(scan->at, "\"{}");
                switch (*scan->at++) {
                case '"':
                        if (!skip_string(scan))
                                return false;
                        break;
                case '{':
                        depth++;
                        break;
                case '}':
                        if (--depth == 0)
                                return true;
                        break;
                default:
                        return false;
                }
        }
}

static bool take_name(struct scan *scan, const char *text, size_t size)
{
        if (scan->n_names == scan->room) {
                size_t room = scan->room ? scan->room * 2 : NAMES_FIRST;
                struct node_name *names = reallocarray(scan->names, room, sizeof(*names));

                if (!names)
                        return false;
                scan->names = names;
                scan->room = room;
        }
        scan->names[scan->n_names++] = (struct node_name){ text, size };
        return true;
}

/* What may be in a name that is taken as it is: nothing that JSON would have written otherwise. */
static bool is_plain(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || (c >= 'A' && c <= 'Z') ||
               c == '_';
}

static bool scan_name(struct scan *scan)
{
        const char *text;

        if (!skip(scan, "\""))
                return false;
        for (text = scan->at; is_plain(*scan->at); scan->at++)
                ;
        return *scan->at == '"' && take_name(scan, text, (size_t)(scan->at++ - text));
}

static bool scan_names(struct scan *scan)
{
        scan->has_names = true;
        if (!skip(scan, "["))
                return false;
        if (skip(scan, "]"))
                return true;
        do
                if (!scan_name(scan))
                        return false;
        while (skip(scan, ","));
        return skip(scan, "]");
}

static bool scan_pod(struct scan *scan)
{
        skip_blanks(scan);
        scan->pod = scan->at;
        if (*scan->at != '{' || !skip_object(scan))
                return false;
        scan->pod_end = scan->at;
        return true;
}

static bool scan_member(struct scan *scan)
{
        if (!scan->pod && skip(scan, "\"Pod\""))
                return skip(scan, ":") && scan_pod(scan);
        if (!scan->has_names && skip(scan, "\"NodeNames\""))
                return skip(scan, ":") && scan_names(scan);
        if (!scan->has_nodes && skip(scan, "\"Nodes\"")) {
                scan->has_nodes = true;
                return skip(scan, ":") && skip(scan, "null");
        }
        return false;
}

static bool scan_all(struct scan *scan, const char *end)
{
        if (!skip(scan, "{"))
                return false;
        do
                if (!scan_member(scan))
                        return false;
        while (skip(scan, ","));
        if (!skip(scan, "}"))
                return false;
        skip_blanks(scan);
        return scan->at == end && scan->pod && scan->has_names;
}

/* ---- either way -------------------------------------------------------------------------------- */

static void read_pod(const json_t *json, bytes unit, struct extender_args *args)
{
        args->has_pod = object_pod_read(json, unit, &args->pod) == 0;
}

/* false: not this way, and nothing is taken. */
static bool read_short(const char *body, size_t size, bytes unit, struct extender_args *args)
{
        struct scan scan = { .at = body };
        json_t *pod = NULL;

        if (scan_all(&scan, body + size))
                pod = json_loadb(scan.pod, (size_t)(scan.pod_end - scan.pod), 0, NULL);
        if (!pod) {
                free(scan.names);
                return false;
        }
        read_pod(pod, unit, args);
        json_decref(pod);
        args->names = scan.names;
        args->n_names = scan.n_names;
        return true;
}

static const json_t *name_of(const json_t *one, bool is_whole)
{
        return is_whole ? json_object_get(json_object_get(one, "metadata"), "name") : one;
}

int extender_args_read_whole(const char *body, size_t size, bytes unit, struct extender_args *ret)
{
        _cleanup_(extender_args_done) struct extender_args args = { .args = json_loadb(body, size, 0, NULL) };
        const json_t *names = json_object_get(args.args, "NodeNames"), *one;
        size_t i;

        if (!json_is_object(args.args))
                return -EINVAL;
        if (!json_is_array(names))
                names = args.items = json_object_get(json_object_get(args.args, "Nodes"), "items");
        args.names = calloc(json_array_size(names) + 1, sizeof(*args.names));
        if (!args.names)
                return -ENOMEM;
        json_array_foreach(names, i, one)
        {
                const json_t *name = name_of(one, args.items != NULL);

                args.names[args.n_names++] = (struct node_name){ json_string_value(name), json_string_length(name) };
        }
        read_pod(json_object_get(args.args, "Pod"), unit, &args);
        *ret = TAKE(args);
        return 0;
}

int extender_args_read(const char *body, size_t size, bytes unit, struct extender_args *ret)
{
        struct extender_args args = { 0 };

        if (!read_short(body, size, unit, &args))
                return extender_args_read_whole(body, size, unit, ret);
        *ret = args;
        return 0;
}

void extender_args_done(struct extender_args *args)
{
        free(args->names);
        json_decref(args->args);
        *args = (struct extender_args){ 0 };
}
