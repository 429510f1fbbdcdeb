/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods reach the processes or the sockets of their node. */
#include "unit.h"

#include "kube/client/reach.h"

#include <stdio.h>
#include <string.h>

/* Whether a pod with this in its spec does; `says` is in what is said then. */
static void check(const char *text, const char *says)
{
        json_t *spec = json_loads(text, 0, NULL);
        char why[160] = "";

        assert_non_null(spec);
        if (reach_is_wide(spec, why, sizeof(why)) != (says != NULL))
                fail_msg("%s: '%s'", text, why);
        if (says && !strstr(why, says))
                fail_msg("%s: '%s' is not in '%s'", text, says, why);
        json_decref(spec);
}

static void check_path(const char *path, bool is_wide)
{
        char text[256];

        (void)snprintf(
                text, sizeof(text),
                "{\"volumes\":[{\"name\":\"a\",\"emptyDir\":{}},{\"name\":\"b\",\"hostPath\":{\"path\":\"%s\"}}]}",
                path);
        check(text, is_wide ? path : NULL);
}

static void the_nodes_process_numbers_are_wide(void **state)
{
        (void)state;
        check("{\"hostPID\":true}", "hostPID");
        check("{\"hostPID\":false,\"hostNetwork\":true}", NULL);
        check("{}", NULL);
}

static void so_are_folders_with_sockets_whatever_is_above_or_below(void **state)
{
        static const char *const wide[] = { "/run/sublet",
                                            "/run/dbus",
                                            "/var/lib/rancher",
                                            "/run/sublet/sublet.sock",
                                            "/run",
                                            "/",
                                            "/var/run/sublet/",
                                            "/var/run",
                                            "//run/./sublet",
                                            "/var/lib/sublet",
                                            "/var/lib",
                                            "/var",
                                            "/run/containerd",
                                            "/var/run/docker.sock",
                                            "/proc/1/root",
                                            "/var/lib/kubelet/device-plugins" };
        static const char *const others[] = { "/data",    "/var/lib/models", "/running",
                                              "/dev/shm", "/var/running",    "/home/run/sublet" };

        (void)state;
        for (size_t i = 0; i < sizeof(wide) / sizeof(*wide); i++)
                check_path(wide[i], true);
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
                check_path(others[i], false);
}

static void what_is_no_spec_is_not(void **state)
{
        (void)state;
        check("{\"volumes\":7}", NULL);
        check("{\"volumes\":[7,{\"hostPath\":7},{\"hostPath\":{\"path\":7}},{\"hostPath\":{}}]}", NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_nodes_process_numbers_are_wide),
                cmocka_unit_test(so_are_folders_with_sockets_whatever_is_above_or_below),
                cmocka_unit_test(what_is_no_spec_is_not),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
