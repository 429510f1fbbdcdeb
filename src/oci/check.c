/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P4: runs the profile's program on requests and compares its decisions with the gate's rules. The requests: every
 * number with every size that a rule names and the neighbouring sizes, under several types, directions and upper halves
 * of the register; every number without a size; and mappings around the borders.
 */
#include "oci/profile.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/caught.h"
#include "oci/program.h"

#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/syscall.h>

struct check {
        struct sock_fprog program;
        struct caught caught[CAUGHT_MAX];
        size_t n;
        uint64_t wrong; /* the first request with another decision */
};

static void program_donep(struct sock_fprog *program)
{
        free(program->filter);
}

static bool should_notify(const struct check *check, uint32_t request)
{
        for (size_t i = 0; i < check->n; i++)
                if ((request & check->caught[i].mask) == check->caught[i].value)
                        return true;
        return false;
}

static uint32_t check_run(const struct check *check, int nr, uint64_t arg1, uint64_t arg3, uint64_t arg5)
{
        struct seccomp_data call = { .nr = nr,
                                     .arch = AUDIT_ARCH_X86_64,
                                     .args = { 7, arg1, 0x7f0000001000, arg3, 9, arg5 } };

        return program_run(&check->program, &call);
}

static bool is_right(struct check *check, uint64_t request)
{
        bool is = check_run(check, SYS_ioctl, request, 0, 0) == SECCOMP_RET_USER_NOTIF;

        check->wrong = request;
        return is == should_notify(check, (uint32_t)request);
}

static bool is_right_in_all_spellings(struct check *check, uint32_t nr, uint32_t size)
{
        static const uint32_t types[] = { 0, 'F', 'T', 0xff };
        static const uint64_t uppers[] = { 0, 1, 0xffffffff, 0x80000000 };

        for (uint64_t i = 0; i < ARRAY_SIZE(types); i++)
                if (!is_right(check, uppers[i] << 32 | i << 30 | size << 16 | types[i] << 8 | nr))
                        return false;
        return true;
}

/* Without size, what counts is the type. */
static bool types_are_right(struct check *check)
{
        static const uint32_t numbers[] = { 0, 1, 0x2b, 0xff };

        for (uint32_t type = 0; type < 256; type++)
                for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                        if (!is_right(check, type << 8 | numbers[i]))
                                return false;
        return true;
}

static uint32_t size_of(const struct caught *caught)
{
        return caught->value >> 16 & 0x3fff;
}

/* Many rules name the same few sizes. */
static bool is_first_of_its_size(const struct check *check, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (size_of(&check->caught[k]) == size_of(&check->caught[i]))
                        return false;
        return true;
}

static bool requests_are_right(struct check *check)
{
        if (!types_are_right(check))
                return false;
        for (uint32_t nr = 0; nr < 256; nr++) {
                if (!is_right_in_all_spellings(check, nr, 0))
                        return false;
                for (size_t i = 0; i < check->n; i++) {
                        uint32_t size = size_of(&check->caught[i]);

                        if (!is_first_of_its_size(check, i))
                                continue;
                        if (!is_right_in_all_spellings(check, nr, size) ||
                            !is_right_in_all_spellings(check, nr, size + 1) ||
                            !is_right_in_all_spellings(check, nr, (size - 1) & 0x3fff))
                                return false;
                }
        }
        for (uint64_t number = 0x2ffffff0; number < 0x30000010; number++)
                if (!is_right(check, number) || !is_right(check, number | 1ull << 63))
                        return false;
        return true;
}

static bool mappings_are_right(const struct check *check)
{
        static const uint64_t offsets[] = { 0, 1, 4095, 4096, 4097, 0x7f0000000000, 1ull << 32, UINT64_MAX },
                              uppers[] = { 0, 1ull << 32 };

        for (uint64_t flags = 0; flags < 0x80; flags++)
                for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
                        for (size_t k = 0; k < ARRAY_SIZE(uppers); k++) {
                                bool is = check_run(check, SYS_mmap, 4096, flags | uppers[k], offsets[i]) ==
                                          SECCOMP_RET_USER_NOTIF;

                                if (is != ((flags & CAUGHT_MMAP_MASK) == CAUGHT_MMAP_FLAGS &&
                                           offsets[i] >= CAUGHT_MMAP_OFFSET))
                                        return false;
                        }
        return check_run(check, SYS_remap_file_pages, 0, 0, 0) == SECCOMP_RET_USER_NOTIF;
}

/* A process that computes needs both calls: neither may be refused altogether. */
static bool is_usable(const struct check *check)
{
        return check_run(check, SYS_ioctl, 0x5401, 0, 0) == SECCOMP_RET_ALLOW &&
               check_run(check, SYS_mmap, 4096, MAP_PRIVATE | MAP_ANONYMOUS, 0) == SECCOMP_RET_ALLOW;
}

int profile_check(const json_t *profile, struct err *err)
{
        _cleanup_(program_donep) struct sock_fprog program = { 0 };
        struct check check = { 0 };
        int r;

        r = program_make(profile, &program, err);
        if (r < 0)
                return err_while(err, "checking the profile");
        check.program = program;
        check.n = caught_requests(check.caught);
        if (!is_usable(&check))
                return err_say(err, -EINVAL, "the base profile refuses ioctl or mmap: no program would start under it");
        if (!requests_are_right(&check))
                return err_say(err, -EINVAL,
                               "the libseccomp of this machine makes another filter of these rules (request 0x%llx): "
                               "use release 2.5.4, with which they were tested",
                               (unsigned long long)check.wrong);
        if (!mappings_are_right(&check))
                return err_say(err, -EINVAL,
                               "the libseccomp of this machine makes another filter of these rules (mmap): "
                               "use release 2.5.4, with which they were tested");
        return 0;
}
