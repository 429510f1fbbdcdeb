/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's configuration file: what is offered is read, what is not is refused by key and line. */
#include "unit.h"

#include "kube/nvidia/nvidia.h"

#include "base/err.h"
#include "conf/file.h"

#include <errno.h>
#include <string.h>

static int read(const char *text, struct nvidia_config *ret, struct err *err)
{
        struct conf_lines lines = { 0 };
        json_t *root = NULL;
        int r = conf_parse("f", text, strlen(text), &root, &lines, err);

        if (r == 0)
                r = nvidia_config_read("f", root, &lines, ret, err);
        json_decref(root);
        conf_lines_done(&lines);
        return r;
}

#define SLICING(rest)                                                                                                  \
        "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 10}]\n" rest

static void what_nvidia_s_examples_say_is_offered(void **state)
{
        static const struct {
                const char *text;
                struct nvidia_config config;
        } rows[] = {
                { "version: v1\n", { .replicas = 1, .name = "nvidia.com/gpu" } },
                { SLICING(""), { .replicas = 10, .name = "nvidia.com/gpu" } },
                { SLICING("    renameByDefault: true\n"), { .replicas = 10, .name = "nvidia.com/gpu.shared" } },
                { SLICING("    failRequestsGreaterThanOne: true\n"),
                  { .replicas = 10, .name = "nvidia.com/gpu", .is_single = true } },
                { "version: v1\nsharing: {mps: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}\n",
                  { .replicas = 2, .name = "nvidia.com/gpu.shared", .is_mps = true, .is_single = true } },
                { "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, rename: a, "
                  "replicas: 2}]}}\n",
                  { .replicas = 2, .name = "nvidia.com/a" } },
                { "version: v1\nflags: {migStrategy: none, nvidiaDriverRoot: /, plugin: {passDeviceSpecs: true, "
                  "deviceListStrategy: 'cdi-annotations,cdi-cri', deviceIDStrategy: uuid}}\n",
                  { .replicas = 1,
                    .name = "nvidia.com/gpu",
                    .has_cdi = true,
                    .has_annotation = true,
                    .has_nodes = true } },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct nvidia_config config;
                struct err err = { 0 };

                if (read(rows[i].text, &config, &err) < 0)
                        fail_msg("%s: %s", rows[i].text, err.text);
                assert_int_equal(config.replicas, rows[i].config.replicas);
                assert_string_equal(config.name, rows[i].config.name);
                assert_int_equal(config.is_mps, rows[i].config.is_mps);
                assert_int_equal(config.is_single, rows[i].config.is_single);
                assert_int_equal(config.has_cdi, rows[i].config.has_cdi);
                assert_int_equal(config.has_annotation, rows[i].config.has_annotation);
                assert_int_equal(config.has_nodes, rows[i].config.has_nodes);
        }
}

static void what_is_not_offered_is_refused_in_one_line_with_its_place(void **state)
{
        static const struct {
                const char *text, *why;
        } rows[] = {
                { "flags: {}\n", "f: version is missing: v1 is known" },
                { "version: v2\n", "f:1: version: v1 is known" },
                { "version: v1\nshearing: {}\n", "f:2: shearing: not a key of version v1 that is known here" },
                { "version: v1\n\"a\\n\\tb\": {}\n", "f:2: a??b: not a key of version v1 that is known here" },
                { "version: v1\nflags:\n  migStrategy: mixed\n", "f:3: migStrategy: none is offered" },
                { "version: v1\nflags: {plugin: {deviceListStrategy: volume-mounts}}\n",
                  "f:2: deviceListStrategy: envvar, cdi-annotations and cdi-cri are offered" },
                { "version: v1\nflags: {plugin: {deviceIDStrategy: index}}\n",
                  "f:2: deviceIDStrategy: uuid is offered" },
                { "version: v1\nflags: {nvidiaDriverRoot: /run/nvidia/driver}\n", "f:2: nvidiaDriverRoot: / is known" },
                { "version: v1\nflags: {gdsEnabled: true}\n", "f:2: gdsEnabled: false is known" },
                { "version: v1\nimex: {channelIDs: [0]}\n", "f:2: channelIDs: an empty list is known" },
                { "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}\n",
                  "f:2: name: nvidia.com/gpu is what can be shared" },
                { SLICING("  mps: {}\n"), "f:5: mps: timeSlicing or mps, not both" },
                { SLICING("    failRequestsGreaterThanOne: 1\n"),
                  "f:5: failRequestsGreaterThanOne: true or false is expected" },
                { "version: v1\nsharing: {mps: {failRequestsGreaterThanOne: false}}\n",
                  "f:2: failRequestsGreaterThanOne: a container under MPS has one part" },
                { "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 0}]}}\n",
                  "f:2: replicas: a number of 1 to 1024 is expected" },
                { "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu}]}}\n",
                  "f:2: resources: a resource has a name and replicas" },
                { "version: v1\nresources: {gpus: [{pattern: A100*, name: gpu}]}\n", "f:2: gpus: the pattern *" },
                { "version: v1\nsharing: []\n", "f:2: sharing: a mapping is expected" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct nvidia_config config;
                struct err err = { 0 };

                assert_int_equal(read(rows[i].text, &config, &err), -EINVAL);
                if (strncmp(err.text, rows[i].why, strlen(rows[i].why)) != 0)
                        fail_msg("'%s' does not begin with '%s'", err.text, rows[i].why);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_nvidia_s_examples_say_is_offered),
                cmocka_unit_test(what_is_not_offered_is_refused_in_one_line_with_its_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
