/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/resize/resize.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"
#include "kube/client/names.h"
#include "kube/client/sleep_after.h"

#include <errno.h>
#include <string.h>

#define GOAL_LEAST NSEC_PER_MSEC
#define GOAL_MOST (10 * NSEC_PER_SEC)

static int set_memory(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        char wrong[BYTES_WRONG], size[BYTES_TEXT];
        bytes memory;

        if (bytes_parse(text, row->memory, &memory) < 0)
                return err_say(err, -EINVAL, "mem=%.40s: %s", text,
                               bytes_wrong(text, "not a size such as 8G, 512M or 25%", wrong));
        if (memory > row->memory)
                return err_say(err, -EINVAL,
                               "mem=%.40s: %s are allocated to it (" NAME_MEMORY "); more takes a new pod", text,
                               bytes_format(row->memory, size));
        return json_object_set_new(to, "mem", json_integer((json_int_t)memory));
}

static int set_share(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        char share[WHEN_TEXT];
        unsigned int asked;

        if (permille_parse(text, &asked) < 0)
                return err_say(err, -EINVAL, "share=%.40s: percent of the device's time, such as 30 or 12.5%%", text);
        if (!row->share)
                return err_say(err, -EINVAL,
                               "share=%.40s: no share is allocated to it: a new pod can ask for " NAME_SHARE, text);
        if (asked > row->share)
                return err_say(err, -EINVAL,
                               "share=%.40s: %s are allocated to it (" NAME_SHARE "); more takes a new pod", text,
                               permille_format(row->share, share));
        return json_object_set_new(to, "share_permille", json_integer(asked));
}

static int set_cap(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        unsigned int cap;

        (void)row;
        if (!strcmp(text, "none"))
                return json_object_set_new(to, "cap_permille", json_null());
        if (permille_parse(text, &cap) < 0)
                return err_say(err, -EINVAL, "cap=%.40s: percent of the device's time, such as 50, or none", text);
        return json_object_set_new(to, "cap_permille", json_integer(cap));
}

static int set_class(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        (void)row;
        if (strcmp(text, "latency") != 0 && strcmp(text, "normal") != 0 && strcmp(text, "batch") != 0)
                return err_say(err, -EINVAL, "class=%.40s: latency, normal or batch", text);
        return json_object_set_new(to, "class", json_string(text));
}

static int set_goal(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        nsec goal;

        (void)row;
        if (!strcmp(text, "none"))
                return json_object_set_new(to, "latency_us", json_null());
        if (duration_parse(text, &goal) < 0 || goal < GOAL_LEAST || goal > GOAL_MOST)
                return err_say(err, -EINVAL, "latency=%.40s: a time from 1ms to 10s, or none", text);
        return json_object_set_new(to, "latency_us", json_integer(goal / NSEC_PER_USEC));
}

static int set_sleep(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        nsec after;

        (void)row;
        if (sleep_after_parse(text, &after) < 0)
                return err_say(err, -EINVAL, "sleep-after=%.40s: " SLEEP_AFTER_WORDS, text);
        return json_object_set_new(to, "sleep_after_us", after ? json_integer(after / NSEC_PER_USEC) : json_null());
}

static int set_host_swap(json_t *to, const char *text, const struct resize_row *row, struct err *err)
{
        bytes size;

        (void)row;
        if (!strcmp(text, "none"))
                return json_object_set_new(to, "host_swap_bytes", json_null());
        if (bytes_parse(text, 0, &size) < 0 || !size)
                return err_say(err, -EINVAL, "host-swap=%.40s: a size such as 8G, or none", text);
        return json_object_set_new(to, "host_swap_bytes", json_integer((json_int_t)size));
}

static const struct {
        const char *annotation, *name;
        int (*set)(json_t *to, const char *text, const struct resize_row *row, struct err *err);
} settings[] = {
        { ANNOTATION_SET_MEMORY, "mem", set_memory },
        { ANNOTATION_SET_SHARE, "share", set_share },
        { ANNOTATION_SET_CAP, "cap", set_cap },
        { ANNOTATION_SET_CLASS, "class", set_class },
        { ANNOTATION_SET_GOAL, "latency", set_goal },
        { ANNOTATION_SET_SLEEP, "sleep-after", set_sleep },
        { ANNOTATION_SET_HOST_SWAP, "host-swap", set_host_swap },
};

json_t *resize_read(const json_t *annotations)
{
        json_t *asked = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
                const char *text = json_string_value(json_object_get(annotations, settings[i].annotation));

                if (!text)
                        continue;
                if (!asked)
                        asked = json_object();
                (void)json_object_set_new(asked, settings[i].name, json_string(text));
        }
        return asked;
}

int resize_make(const json_t *asked, const struct resize_row *row, json_t **ret, struct err *err)
{
        json_t *body = json_object();
        int r = body ? 0 : err_set(err, -ENOMEM, "changing a pod");

        for (size_t i = 0; i < ARRAY_SIZE(settings) && r == 0; i++) {
                const char *text = json_string_value(json_object_get(asked, settings[i].name));

                if (text && (r = settings[i].set(body, text, row, err)) < 0 && r != -EINVAL)
                        r = err_set(err, -ENOMEM, "changing a pod");
        }
        if (r == 0)
                *ret = body;
        else
                json_decref(body);
        return r;
}
