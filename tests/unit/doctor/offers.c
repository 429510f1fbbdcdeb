/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu/find.h"
#include "doctor/offers.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct findings findings;

/* What the last judgement was; nothing of an offer may keep tenants from being run. */
static const struct finding *judged(void)
{
        const struct finding *found = &findings.items[findings.n - 1];

        assert_int_equal(findings.n, 1);
        assert_true(findings_can_run(&findings));
        assert_true(found->status == FINDING_OK || found->next[0]);
        findings.n = 0;
        return found;
}

static const struct finding *mps(struct offers_mps is)
{
        offers_judge_mps(&findings, &is);
        return judged();
}

static void an_mps_that_the_daemon_did_not_start_is_a_limit(void **state)
{
        (void)state;
        assert_int_equal(mps((struct offers_mps){ .has_program = true })->status, FINDING_OK);
        assert_int_equal(mps((struct offers_mps){ .has_program = true, .is_ours = true })->status, FINDING_OK);
        assert_int_equal(mps((struct offers_mps){ .has_program = true, .has_process = true })->status, FINDING_LIMITED);
        assert_int_equal(mps((struct offers_mps){ .has_program = true, .has_pipe = true })->status, FINDING_UNKNOWN);
}

static void without_the_program_there_is_no_spatial_mode(void **state)
{
        const struct finding *found = mps((struct offers_mps){ 0 });

        (void)state;
        assert_int_equal(found->status, FINDING_LIMITED);
        assert_non_null(strstr(found->text, "--mode spatial"));
        assert_non_null(strstr(found->next, "nvidia-cuda-mps"));
}

static const struct finding *mig(struct gpu_device device, unsigned int n)
{
        offers_judge_mig(&findings, &device, n);
        return judged();
}

static void mig_is_reported_for_each_device(void **state)
{
        (void)state;
        assert_int_equal(mig((struct gpu_device){ .index = 3 }, 0)->status, FINDING_UNKNOWN);
        assert_non_null(
                strstr(mig((struct gpu_device){ .index = 3, .has_nvml = true }, 0)->text, "device 3: it cannot"));
        assert_non_null(
                strstr(mig((struct gpu_device){ .has_nvml = true, .can_mig = true }, 0)->text, "off; it could"));
        assert_non_null(strstr(mig((struct gpu_device){ .has_nvml = true, .can_mig = true, .has_mig = true }, 2)->text,
                               "2 instances"));
        assert_int_equal(mig((struct gpu_device){ .has_nvml = true, .can_mig = true, .has_mig = true }, 0)->status,
                         FINDING_LIMITED);
}

static const struct finding *green(unsigned int branch, bool has_library, bool has_call)
{
        offers_judge_green(&findings, branch, has_library, has_call);
        return judged();
}

static void green_contexts_need_driver_and_library(void **state)
{
        (void)state;
        assert_int_equal(green(580, true, true)->status, FINDING_OK);
        assert_int_equal(green(550, true, true)->status, FINDING_OK);
        assert_non_null(strstr(green(535, true, true)->text, "driver 535"));
        assert_int_equal(green(580, true, false)->status, FINDING_LIMITED);
        assert_int_equal(green(580, false, false)->status, FINDING_UNKNOWN);
}

static const struct finding *attach(int filter, int listener, bool has_daemon)
{
        offers_judge_attach(&findings, filter, listener, has_daemon);
        return judged();
}

static void self_attach_names_what_prevents_it(void **state)
{
        (void)state;
        assert_int_equal(attach(0, 0, true)->status, FINDING_OK);
        assert_non_null(strstr(attach(0, 0, false)->text, "no daemon"));
        assert_non_null(strstr(attach(0, EBUSY, true)->text, "already under a listener"));
        assert_non_null(strstr(attach(0, EACCES, true)->text, "Permission denied"));
        assert_non_null(strstr(attach(ENOSYS, 0, true)->next, "5.19"));
}

static const struct finding *directory(int error, mode_t mode)
{
        offers_judge_directory(&findings, &(struct offers_daemon){ .dir = "/d", .error = error, .mode = mode });
        return judged();
}

static void a_directory_that_others_may_write_to_is_a_limit(void **state)
{
        (void)state;
        assert_int_equal(directory(0, S_IFDIR | 0755)->status, FINDING_OK);
        assert_int_equal(directory(ENOENT, 0)->status, FINDING_OK);
        assert_string_equal(directory(0, S_IFDIR | 01777)->next, "chmod go-w /d");
        assert_int_equal(directory(0, S_IFDIR | 0775)->status, FINDING_LIMITED);
        assert_int_equal(directory(0, S_IFREG | 0644)->status, FINDING_LIMITED);
        assert_int_equal(directory(EACCES, 0)->status, FINDING_UNKNOWN);
}

static void containers_need_a_daemon_with_an_agent(void **state)
{
        struct offers_daemon daemon = { .dir = "/d" };

        (void)state;
        offers_judge_containers(&findings, &daemon);
        assert_non_null(strstr(judged()->text, "no daemon"));
        daemon.answers = true;
        offers_judge_containers(&findings, &daemon);
        assert_non_null(strstr(judged()->text, "no seccomp.sock"));
        daemon.has_agent = true;
        offers_judge_containers(&findings, &daemon);
        assert_int_equal(judged()->status, FINDING_OK);
        offers_judge_daemon(&findings, &daemon);
        assert_int_equal(judged()->status, FINDING_OK);
}

static void cdi_specifications_of_others_do_not_count(void **state)
{
        (void)state;
        offers_judge_cdi(&findings, 3, 1);
        assert_int_equal(judged()->status, FINDING_OK);
        offers_judge_cdi(&findings, 3, 0);
        assert_int_equal(judged()->status, FINDING_LIMITED);
        offers_judge_cdi(&findings, 0, 0);
        assert_string_equal(judged()->text, "no specification in /etc/cdi and /run/cdi: no devices by name");
}

static void the_router_needs_nginx_and_the_module(void **state)
{
        (void)state;
        offers_judge_router(&findings, "/usr/sbin/nginx", "/m.so");
        assert_int_equal(judged()->status, FINDING_OK);
        offers_judge_router(&findings, "/usr/sbin/nginx", "");
        assert_non_null(strstr(judged()->text, "no Sublet module"));
        offers_judge_router(&findings, "", "/m.so");
        assert_non_null(strstr(judged()->text, "no nginx"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_mps_that_the_daemon_did_not_start_is_a_limit),
                cmocka_unit_test(without_the_program_there_is_no_spatial_mode),
                cmocka_unit_test(mig_is_reported_for_each_device),
                cmocka_unit_test(green_contexts_need_driver_and_library),
                cmocka_unit_test(self_attach_names_what_prevents_it),
                cmocka_unit_test(a_directory_that_others_may_write_to_is_a_limit),
                cmocka_unit_test(containers_need_a_daemon_with_an_agent),
                cmocka_unit_test(cdi_specifications_of_others_do_not_count),
                cmocka_unit_test(the_router_needs_nginx_and_the_module),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
