/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes what a running pod has, by annotations that the device plugin of its node applies
 * (kube/plugin/resize/resize.h): so whoever may change the pod may do it, and it outlasts every part of Sublet. What is
 * known to be refused is not written.
 */
#include "kube/kubectl/kubectl_pod.h"

#include "base/err.h"
#include "base/when.h"
#include "kube/client/names.h"
#include "kube/client/sleep_after.h"
#include "kube/extender/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        WORDS = 8,
        WORD = 80,
};

static const char usage[] =
        "usage: kubectl sublet set POD [mem=SIZE] [share=PERCENT] [cap=PERCENT] [class=CLASS] [latency=TIME] "
        "[sleep-after=TIME] [host-swap=SIZE] [OPTION-OF-KUBECTL...]\n"
        "Changes what a running pod has of its GPU: memory and share up to what it was given when it was made, and\n"
        "back; cap, class (latency, normal, batch), goal of latency, and after how long idle it is suspended (if a\n"
        "router wakes it), and the host memory that it may have then, freely; cap=none, latency=none, "
        "sleep-after=none\n"
        "and host-swap=none take them away. The pod's events say what became of it.\n";

static int read_pod(const struct kubectl *kubectl, const char *name, bytes unit, struct object_pod *ret,
                    struct err *err)
{
        const char *head[] = { "get", "pod", name, "-o", "json", NULL };
        struct kubectl_call call;
        json_t *json = NULL;
        int r = kubectl_begin(kubectl, head, NULL, false, &call);

        r = r < 0 ? r : kubectl_end(&call, &json);
        if (r < 0)
                return err_say(err, -EIO, "kubectl get pod %.100s failed", name);
        r = object_pod_read(json, unit, ret);
        json_decref(json);
        if (r < 0)
                return err_say(err, -EINVAL, "%.100s is not a pod", name);
        if (!ret->n_wants)
                return err_say(err, -EINVAL, "pod %.100s rents no GPU memory", name);
        if (ret->is_over || !ret->node[0])
                return err_say(err, -EINVAL, "pod %.100s %s", name,
                               ret->is_over ? "has ended" : "is on no node yet: change what it asks for");
        return 0;
}

static int check_memory(const struct object_pod *pod, const char *value, struct err *err)
{
        char wrong[BYTES_WRONG], size[BYTES_TEXT];

        for (size_t i = 0; i < pod->n_wants; i++) {
                bytes memory, most = pod->wants[i].memory;

                if (bytes_parse(value, most, &memory) < 0)
                        return err_say(err, -EINVAL, "mem=%.40s: %s", value,
                                       bytes_wrong(value, "not a size such as 8G, 512M or 25%", wrong));
                if (memory > most)
                        return err_say(err, -EINVAL, "mem=%.40s: container %s was given %s; more takes a new pod",
                                       value, pod->containers[i], bytes_format(most, size));
        }
        return 0;
}

static int check_share(const struct object_pod *pod, const char *value, struct err *err)
{
        char most[WHEN_TEXT];
        unsigned int share;

        if (permille_parse(value, &share) < 0)
                return err_say(err, -EINVAL, "share=%.40s: percent of the device's time, such as 30 or 12.5%%", value);
        for (size_t i = 0; i < pod->n_wants; i++) {
                if (!pod->wants[i].share)
                        return err_say(err, -EINVAL, "share=%.40s: container %s was given no share (" NAME_SHARE ")",
                                       value, pod->containers[i]);
                if (share > pod->wants[i].share)
                        return err_say(err, -EINVAL, "share=%.40s: container %s was given %s; more takes a new pod",
                                       value, pod->containers[i], permille_format(pod->wants[i].share, most));
        }
        return 0;
}

static int check(const struct object_pod *pod, const char *word, struct err *err)
{
        const char *value = strchr(word, '=') + 1;
        unsigned int cap;
        nsec goal, after;
        bytes size;

        if (strlen(word) >= WORD - strlen("sublet.dev/"))
                return err_say(err, -EINVAL, "%.40s...: too long", word);
        if (!strncmp(word, "mem=", 4))
                return check_memory(pod, value, err);
        if (!strncmp(word, "share=", 6))
                return check_share(pod, value, err);
        if (!strncmp(word, "cap=", 4) && strcmp(value, "none") != 0 && permille_parse(value, &cap) < 0)
                return err_say(err, -EINVAL, "cap=%.40s: percent of the device's time, such as 50, or none", value);
        if (!strncmp(word, "class=", 6) && strcmp(value, "latency") != 0 && strcmp(value, "normal") != 0 &&
            strcmp(value, "batch") != 0)
                return err_say(err, -EINVAL, "class=%.40s: latency, normal or batch", value);
        if (!strncmp(word, "latency=", 8) && strcmp(value, "none") != 0 &&
            (duration_parse(value, &goal) < 0 || goal < NSEC_PER_MSEC || goal > 10 * NSEC_PER_SEC))
                return err_say(err, -EINVAL, "latency=%.40s: a time from 1ms to 10s, or none", value);
        if (!strncmp(word, "sleep-after=", 12) && sleep_after_parse(value, &after) < 0)
                return err_say(err, -EINVAL, "sleep-after=%.40s: " SLEEP_AFTER_WORDS, value);
        if (!strncmp(word, "host-swap=", 10) && strcmp(value, "none") != 0 &&
            (bytes_parse(value, 0, &size) < 0 || !size))
                return err_say(err, -EINVAL, "host-swap=%.40s: a size such as 8G, or none", value);
        return 0;
}

static int annotate(const struct kubectl_words *words, struct err *err)
{
        const char *head[6 + WORDS + 1] = { "annotate", "pod", words->pod, "--overwrite", "-o", "json" };
        char notes[WORDS][WORD];
        struct kubectl_call call;
        json_t *json = NULL;
        size_t n = 6;
        int r;

        for (size_t i = 0; i < words->n_words; i++) {
                (void)snprintf(notes[i], WORD, "sublet.dev/%s", words->words[i]);
                head[n++] = notes[i];
        }
        head[n] = NULL;
        r = kubectl_begin(&words->kubectl, head, NULL, false, &call);
        r = r < 0 ? r : kubectl_end(&call, &json);
        json_decref(json);
        return r < 0 ? err_say(err, -EIO, "kubectl annotate pod %.100s failed", words->pod) : 0;
}

int kubectl_set(int argc, char **argv, bytes unit)
{
        struct kubectl_words words;
        struct object_pod pod;
        struct err err = { 0 };
        int r;

        kubectl_words(argc, argv, true, &words);
        if (!words.pod || !words.n_words) {
                (void)fputs(usage, stderr);
                return 1;
        }
        r = read_pod(&words.kubectl, words.pod, unit, &pod, &err);
        for (size_t i = 0; i < words.n_words && r == 0; i++)
                r = check(&pod, words.words[i], &err);
        r = r < 0 ? r : annotate(&words, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        else
                (void)printf("pod/%s: asked of node %s; its events say what became of it\n", words.pod, pod.node);
        return r < 0;
}
