/* SPDX-License-Identifier: Apache-2.0 */
/* What a description of devices holds; and the driver's libraries are found as the loader would, links and all. */
#include "unit.h"

#include "base/err.h"
#include "oci/cdi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct machine machine;
static struct err err;
static char root[64];

static void shell(const char *format)
{
        char line[4096];

        (void)snprintf(line, sizeof(line), "set -e; cd '%s'; %s", root, format);
        assert_int_equal(system(line), 0);
}

static int make_root(void **state)
{
        (void)state;
        (void)snprintf(root, sizeof(root), "/tmp/sublet-unit-cdi-XXXXXX");
        machine = (struct machine){ .n_devices = 0 };
        return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
        (void)state;
        shell("cd /; rm -rf \"$OLDPWD\"");
        return 0;
}

static const char *host_of(const char *container)
{
        for (size_t i = 0; i < machine.n_mounts; i++)
                if (!strcmp(machine.mounts[i].container, container))
                        return machine.mounts[i].host + strlen(root);
        return "";
}

static void libraries_are_found_where_the_loader_looks(void **state)
{
        (void)state;
        shell("mkdir -p etc/ld.so.conf.d opt/driver usr/lib/x86_64-linux-gnu usr/bin;"
              "echo 'include /etc/ld.so.conf.d/*.conf' > etc/ld.so.conf; echo '# ours' > etc/ld.so.conf.d/a.conf;"
              "echo /opt/driver/ >> etc/ld.so.conf.d/a.conf; cd opt/driver;"
              "touch libcuda.so.580.1.2 libnvidia-gpucomp.so.580.1.2 libnvidia-ml.so.580.1.2 libcuda.so.570.1;"
              "ln -s libcuda.so.580.1.2 libcuda.so.1; ln -s /opt/driver/libnvidia-ml.so.580.1.2 libnvidia-ml.so.1");
        assert_int_equal(machine_libraries(root, "580.1.2", &machine, &err), 0);
        assert_int_equal(machine.n_mounts, 5);
        assert_string_equal(host_of("/opt/driver/libcuda.so.1"), "/opt/driver/libcuda.so.580.1.2");
        assert_string_equal(host_of("/opt/driver/libcuda.so.580.1.2"), "/opt/driver/libcuda.so.580.1.2");
        assert_string_equal(host_of("/opt/driver/libnvidia-ml.so.1"), "/opt/driver/libnvidia-ml.so.580.1.2");
        assert_string_equal(host_of("/opt/driver/libnvidia-gpucomp.so.580.1.2"),
                            "/opt/driver/libnvidia-gpucomp.so.580.1.2");
}

static void another_releases_library_is_not_taken(void **state)
{
        (void)state;
        shell("mkdir -p usr/lib64; touch usr/lib64/libcuda.so.570.1; ln -s libcuda.so.570.1 usr/lib64/libcuda.so.1");
        assert_int_equal(machine_libraries(root, "580.1.2", &machine, &err), -ENODEV);
        assert_non_null(strstr(err.text, "--driver-root"));
}

static void a_link_in_a_circle_is_no_library(void **state)
{
        (void)state;
        shell("mkdir -p usr/lib64; ln -s libcuda.so.1 usr/lib64/libcuda.so.580.1.2;"
              "ln -s /usr/lib64/libcuda.so.580.1.2 usr/lib64/libcuda.so.1; echo 'include /etc/ld.so.conf' > ld.so.conf;"
              "mkdir etc; mv ld.so.conf etc");
        assert_int_equal(machine_libraries(root, "580.1.2", &machine, &err), -ENODEV);
}

static const char *text_at(const json_t *object, const char *key)
{
        return json_string_value(json_object_get(object, key));
}

static void a_device_is_described_by_index_uuid_and_all(void **state)
{
        static const struct spec_paths paths = { .program = "/usr/bin/sublet", .dir = "/run/sublet" };
        json_t *made, *devices, *edits;

        (void)state;
        machine.n_devices = 2;
        machine.devices[0].minor = 1;
        machine.devices[1].minor = 0;
        (void)snprintf(machine.devices[0].uuid, sizeof(machine.devices[0].uuid), "GPU-a");
        made = cdi_write(&machine, &paths);
        devices = json_object_get(made, "devices");
        assert_string_equal(text_at(made, "kind"), "sublet.dev/gpu");
        assert_int_equal(json_array_size(devices), 4); /* 0, GPU-a, 1, all */
        assert_string_equal(text_at(json_array_get(devices, 1), "name"), "GPU-a");
        edits = json_object_get(json_array_get(devices, 0), "containerEdits");
        assert_string_equal(text_at(json_array_get(json_object_get(edits, "deviceNodes"), 0), "path"), "/dev/nvidia1");
        edits = json_object_get(json_array_get(devices, 3), "containerEdits");
        assert_int_equal(json_array_size(json_object_get(edits, "deviceNodes")), 2);
        edits = json_object_get(made, "containerEdits");
        assert_int_equal(json_array_size(json_object_get(edits, "deviceNodes")),
                         2); /* ctl and uvm; no tools, no caps */
        assert_string_equal(text_at(json_array_get(json_object_get(edits, "hooks"), 0), "hookName"), "createRuntime");
        assert_string_equal(text_at(json_array_get(json_object_get(edits, "hooks"), 0), "path"), "/usr/bin/sublet");
        json_decref(made);
}

static void a_hook_of_ours_stands_in_a_specification_once(void **state)
{
        static const struct spec_paths paths = { .program = "/opt/sublet", .dir = "/run/other" };
        json_t *spec = json_loads(
                       "{\"ociVersion\":\"1.0.2\",\"linux\":{},\"hooks\":{\"createRuntime\":[{\"path\":\"/x\"},"
                       "{\"path\":\"/usr/bin/sublet\",\"args\":[\"sublet\",\"hook\",\"--dir\",\"/run\"]}]}}",
                       0, NULL),
               *profile = json_object(), *made, *hooks;

        (void)state;
        assert_int_equal(spec_make(spec, profile, &paths, &made, &err), 0);
        hooks = json_object_get(json_object_get(made, "hooks"), "createRuntime");
        assert_int_equal(json_array_size(hooks), 2);
        assert_string_equal(text_at(json_array_get(hooks, 0), "path"), "/x");
        assert_string_equal(text_at(json_array_get(hooks, 1), "path"), "/opt/sublet");
        assert_non_null(json_object_get(json_object_get(made, "linux"), "seccomp"));
        json_decref(made);
        (void)json_object_del(spec, "linux");
        assert_int_equal(spec_make(spec, profile, &paths, &made, &err), -EINVAL);
        json_decref(profile);
        json_decref(spec);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(libraries_are_found_where_the_loader_looks, make_root, remove_root),
                cmocka_unit_test_setup_teardown(another_releases_library_is_not_taken, make_root, remove_root),
                cmocka_unit_test_setup_teardown(a_link_in_a_circle_is_no_library, make_root, remove_root),
                cmocka_unit_test_setup_teardown(a_device_is_described_by_index_uuid_and_all, make_root, remove_root),
                cmocka_unit_test(a_hook_of_ours_stands_in_a_specification_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
