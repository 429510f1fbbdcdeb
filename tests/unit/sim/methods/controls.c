/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

static void an_unknown_control_and_a_wrong_size_have_their_own_answers(void **state)
{
        struct rig *rig = *state;
        unsigned char params[1028] = { 0 };

        assert_int_equal(rig_control(rig, SUBDEVICE, 0x20801399, params, 4), RM_STATUS_NOT_SUPPORTED);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, params, 436), RM_STATUS_INVALID_PARAM_STRUCT);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, NULL, 1028), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_control(rig, 0x77, RM_FB_GET_INFO_V2, params, 1028), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(rig_control(rig, DEVICE, RM_FB_GET_INFO_V2, params, 1028), RM_STATUS_NOT_SUPPORTED);
        rm_put32(params, sizeof(params), 0, 129);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, params, 1028), RM_STATUS_INVALID_ARGUMENT);
}

static void a_foreign_client_is_invalid(void **state)
{
        struct rig *rig = *state, other = *rig;
        unsigned char params[8] = { 0 };

        rig_begin(&other, 0);
        (void)rig_channel(&other, GROUP, CHANNEL);
        other.ctl = rig->ctl; /* its handles, our descriptor */
        assert_int_equal(rig_control(&other, GROUP, RM_SET_TIMESLICE, params, 8), RM_STATUS_INVALID_CLIENT);
}

static void the_size_of_memory_info_is_the_releases(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig->layout.fb_info_size, 1028);
        assert_int_equal(rig->layout.schedule_size, 3);
}

static void devices_are_listed_by_id(void **state)
{
        struct rig *rig = *state;
        unsigned char ids[128], probed[384], info[32] = { 0 }, gid[268] = { 0 }, name[132] = { 0 };
        char expected[UUID_TEXT];

        assert_int_equal(rig_control(rig, rig->client, RM_GET_ATTACHED_IDS, ids, sizeof(ids)), RM_STATUS_OK);
        assert_int_equal(rm_get32(ids, sizeof(ids), 0), 0x100);
        assert_int_equal(rm_get32(ids, sizeof(ids), 4), 0x200);
        assert_int_equal(rm_get32(ids, sizeof(ids), 8), UINT32_MAX);
        assert_int_equal(rig_control(rig, rig->client, RM_GET_PROBED_IDS, probed, sizeof(probed)), RM_STATUS_OK);
        assert_int_equal(rm_get32(probed, sizeof(probed), 4), 0x200);
        assert_int_equal(rm_get32(probed, sizeof(probed), 128), UINT32_MAX);

        rm_put32(info, sizeof(info), 0, 0x200);
        assert_int_equal(rig_control(rig, rig->client, RM_GET_ID_INFO_V2, info, sizeof(info)), RM_STATUS_OK);
        assert_int_equal(rm_get32(info, sizeof(info), 8), 1);
        rm_put32(info, sizeof(info), 0, 0x300);
        assert_int_equal(rig_control(rig, rig->client, RM_GET_ID_INFO_V2, info, sizeof(info)),
                         RM_STATUS_INVALID_ARGUMENT);

        assert_int_equal(rig_control(rig, SUBDEVICE, 0x2080014a, gid, sizeof(gid)), RM_STATUS_OK);
        gpu_uuid_format(0, expected);
        assert_string_equal((char *)gid + 12, expected);
        assert_int_equal(rm_get32(gid, sizeof(gid), 8), UUID_TEXT);
        rm_put32(gid, sizeof(gid), 4, 2);
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x2080014a, gid, sizeof(gid)), RM_STATUS_OK);
        assert_int_equal(rm_get32(gid, sizeof(gid), 8), 16);
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x20800110, name, sizeof(name)), RM_STATUS_OK);
        assert_string_equal((char *)name + 4, "NVIDIA H200");
}

static void the_device_table_and_the_version_are_told(void **state)
{
        struct rig *rig = *state;
        unsigned char infos[2304], version[72] = { 0 };

        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CARD_INFO, infos, sizeof(infos)), 0);
        assert_int_equal(infos[0], 1);
        assert_int_equal(infos[72], 1);
        assert_int_equal(infos[144], 0);
        assert_int_equal(rm_get32(infos, sizeof(infos), 72 + 16), 0x200);
        assert_int_equal(rm_get32(infos, sizeof(infos), 72 + 56), 1);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CARD_INFO, infos, 72), -EINVAL); /* two devices */

        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CHECK_VERSION, version, sizeof(version)), -EINVAL);
        strcpy((char *)version + 8, MACHINE_RELEASE);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CHECK_VERSION, version, sizeof(version)), 0);
        assert_int_equal(rm_get32(version, sizeof(version), 4), 1);
        memset(version, 0, sizeof(version));
        version[0] = '2';
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CHECK_VERSION, version, sizeof(version)), 0);
        assert_string_equal((char *)version + 8, MACHINE_RELEASE);
}

/* ---- accounting by process ------------------------------------------------------------------- */

struct usage {
        uint64_t own, shared, dup;
};

static struct usage usage_of(const struct rig *rig, pid_t pid)
{
        static unsigned char params[14408];

        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, 1);
        rm_put32(params, sizeof(params), 8, (uint32_t)pid);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_GET_PID_INFO, params, sizeof(params)), RM_STATUS_OK);
        assert_int_equal(rm_get32(params, sizeof(params), 16), RM_STATUS_OK);
        return (struct usage){ rm_get64(params, sizeof(params), 24), rm_get64(params, sizeof(params), 32),
                               rm_get64(params, sizeof(params), 40) };
}

static void memory_is_accounted_to_the_process_that_made_the_client(void **state)
{
        struct rig *rig = *state;
        uint32_t second = rig_client(rig, rig->ctl, 0);
        struct usage usage;

        assert_int_equal(rig_memory(rig, MEMORY, 10 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 20 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory_as(rig, MEMORY + 2, RM_CLASS_HOST_MEMORY, MIB, ATTR_HOST), RM_STATUS_OK);
        usage = usage_of(rig, getpid());
        assert_int_equal(usage.own, 30 * MIB);
        assert_int_equal(usage.shared + usage.dup, 0);

        assert_int_equal(rig_dup(rig, rig->ctl, second, DEVICE, MEMORY, rig->client, MEMORY), RM_STATUS_OK);
        usage = usage_of(rig, getpid());
        assert_int_equal(usage.own, 20 * MIB);
        assert_int_equal(usage.shared, 10 * MIB);
        assert_int_equal(usage.dup, 10 * MIB);
        assert_int_equal(usage_of(rig, 1).own, 0);
}

static void processes_are_listed_once_by_what_they_have(void **state)
{
        struct rig *rig = *state, other = *rig;
        static unsigned char params[3812];
        int pair[2];
        pid_t child;
        char byte;
        uint32_t pids[2];

        (void)rig_client(rig, rig->ctl, 0);
        assert_return_code(pipe(pair), errno);
        child = fork();
        if (child == 0) {
                close(pair[0]);
                rig_begin(&other, 0);
                if (write(pair[1], "", 1) == 1)
                        (void)pause();
                _exit(0);
        }
        close(pair[1]);
        assert_int_equal(read(pair[0], &byte, 1), 1);
        rm_put32(params, sizeof(params), 4, RM_CLASS_SUBDEVICE);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_GET_PIDS, params, sizeof(params)), RM_STATUS_OK);
        assert_int_equal(rm_get32(params, sizeof(params), 8), 2);
        pids[0] = rm_get32(params, sizeof(params), 12);
        pids[1] = rm_get32(params, sizeof(params), 16);
        assert_int_equal(pids[0] + pids[1], (uint32_t)getpid() + (uint32_t)child);
        rm_put32(params, sizeof(params), 4, RM_CLASS_GROUP);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_GET_PIDS, params, sizeof(params)), RM_STATUS_OK);
        assert_int_equal(rm_get32(params, sizeof(params), 8), 0);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        close(pair[0]);
}

static void memory_of_the_video_kind_is_told_from_hosts(void **state)
{
        struct rig *rig = *state;
        unsigned char params[12] = { 0 }, info[16] = { 0 };
        uint32_t list[2] = { 7, 0 };

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        rm_put32(params, sizeof(params), 0, MEMORY);
        assert_int_equal(rig_control(rig, rig->client, 0xd01, params, sizeof(params)), RM_STATUS_OK);
        assert_int_equal(rm_get32(params, sizeof(params), 8), 2);
        rm_put32(info, sizeof(info), 0, 1);
        rm_put64(info, sizeof(info), 8, (uintptr_t)list);
        assert_int_equal(rig_control(rig, MEMORY, 0x410110, info, sizeof(info)), RM_STATUS_OK);
        assert_int_equal(list[1], 512);
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x410110, info, sizeof(info)), RM_STATUS_NOT_SUPPORTED);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(an_unknown_control_and_a_wrong_size_have_their_own_answers),
                RIG_TEST(a_foreign_client_is_invalid),
                RIG_TEST(the_size_of_memory_info_is_the_releases),
                RIG_TEST(devices_are_listed_by_id),
                RIG_TEST(the_device_table_and_the_version_are_told),
                RIG_TEST(memory_is_accounted_to_the_process_that_made_the_client),
                RIG_TEST(processes_are_listed_once_by_what_they_have),
                RIG_TEST(memory_of_the_video_kind_is_told_from_hosts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
