/* SPDX-License-Identifier: Apache-2.0 */
/* The filter is run here as the kernel runs it, over registers that a tenant might have. */
#include "rm/releases.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/caught.h"
#include "gate/policy/filter.h"
#include "rm/call.h"
#include "rm/numbers.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
        I386_IOCTL = 54,
        I386_MMAP = 90,
        I386_MMAP2 = 192,
        I386_REMAP = 257,
        X32_BIT = 0x40000000,
        X32_IOCTL = 514,
};

/* What classic BPF can do in a seccomp program: Documentation/networking/filter.rst. */
static uint32_t filter_run(const struct sock_fprog *program, const struct seccomp_data *data)
{
        uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = { 0 };

        for (size_t pc = 0; pc < program->len; pc++) {
                const struct sock_filter *i = &program->filter[pc];
                uint32_t operand = BPF_SRC(i->code) == BPF_X ? x : i->k;

                switch (BPF_CLASS(i->code)) {
                case BPF_LD:
                case BPF_LDX: {
                        uint32_t value = i->k;

                        if (BPF_MODE(i->code) == BPF_ABS) {
                                assert_true(i->k % 4 == 0 && i->k < sizeof(*data));
                                memcpy(&value, (const uint8_t *)data + i->k, 4);
                        } else if (BPF_MODE(i->code) == BPF_MEM) {
                                value = memory[i->k];
                        } else {
                                assert_int_equal(BPF_MODE(i->code), BPF_IMM);
                        }
                        *(BPF_CLASS(i->code) == BPF_LD ? &a : &x) = value;
                        break;
                }
                case BPF_ST:
                        memory[i->k] = a;
                        break;
                case BPF_STX:
                        memory[i->k] = x;
                        break;
                case BPF_ALU:
                        switch (BPF_OP(i->code)) {
                        case BPF_AND:
                                a &= operand;
                                break;
                        case BPF_OR:
                                a |= operand;
                                break;
                        case BPF_RSH:
                                a >>= operand;
                                break;
                        case BPF_LSH:
                                a <<= operand;
                                break;
                        default:
                                fail_msg("instruction 0x%x", i->code);
                        }
                        break;
                case BPF_JMP: {
                        bool is = false;

                        switch (BPF_OP(i->code)) {
                        case BPF_JA:
                                pc += i->k;
                                continue;
                        case BPF_JEQ:
                                is = a == operand;
                                break;
                        case BPF_JGT:
                                is = a > operand;
                                break;
                        case BPF_JGE:
                                is = a >= operand;
                                break;
                        case BPF_JSET:
                                is = a & operand;
                                break;
                        default:
                                fail_msg("instruction 0x%x", i->code);
                        }
                        pc += is ? i->jt : i->jf;
                        break;
                }
                case BPF_RET:
                        return BPF_RVAL(i->code) == BPF_A ? a : i->k;
                case BPF_MISC:
                        if (BPF_MISCOP(i->code) == BPF_TAX)
                                x = a;
                        else
                                a = x;
                        break;
                }
        }
        fail_msg("the program has no end");
        return 0;
}

/* Built once: it is the same for every release. */
static struct sock_fprog program;
static struct rm_layout layouts[N_RELEASES];

static int build_all(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++)
                layouts[i] = layout_of_release(i);
        return filter_build(&program);
}

static int free_all(void **state)
{
        (void)state;
        free(program.filter);
        return 0;
}

static uint32_t filter_ask(uint32_t arch, int nr, uint64_t arg1, uint64_t arg3, uint64_t arg5)
{
        struct seccomp_data data = { .nr = nr, .arch = arch, .args = { 7, arg1, 0x7f0000001000, arg3, 9, arg5 } };

        return filter_run(&program, &data);
}

static uint32_t ioctl_of(uint64_t request)
{
        return filter_ask(AUDIT_ARCH_X86_64, SYS_ioctl, request, 0, 0);
}

static bool is_notified(uint64_t request)
{
        uint32_t answer = ioctl_of(request);

        assert_true(answer == SECCOMP_RET_USER_NOTIF || answer == SECCOMP_RET_ALLOW);
        return answer == SECCOMP_RET_USER_NOTIF;
}

/* F1 */

static void require_seen(uint32_t nr, uint32_t size)
{
        static const uint64_t upper[] = { 0, 1, 0xffffffff, 0x80000000 };

        for (uint32_t direction = 0; direction < 4; direction++)
                for (uint32_t type = 0; type < 256; type++) {
                        uint32_t request = direction << 30 | size << 16 | type << 8 | nr;

                        assert_true(is_notified(upper[(type + direction) % 4] << 32 | request));
                }
}

static void every_request_is_seen_however_it_is_spelt(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                const struct rm_layout *layout = &layouts[i];

#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        if (RM_NODE_##node == RM_NODE_CTL && (size) != RM_ABSENT && (size) != 0)                                       \
                require_seen(nr, size);
#include "rm/requests.def"
#undef REQUEST
                for (uint32_t n = 1; n <= 32; n++)
                        require_seen(RM_NR_CARD_INFO, n * 72);
        }
}

/* Whatever the driver would decode, the filter sees. */
static void what_the_driver_takes_is_seen(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++)
                for (uint32_t nr = 0; nr < 256; nr++)
                        for (uint32_t size = 0; size < 0x4000; size += size < 200 ? 1 : 97) {
                                uint32_t request = size << 16 | (uint32_t)'T' << 8 | nr;

                                if (caught_is_drivers(&layouts[i], request) && !is_notified(request))
                                        fail_msg("nr 0x%x of %u bytes is not seen", nr, size);
                        }
}

static void every_size_but_0_is_seen(void **state)
{
        (void)state;
        for (uint32_t size = 1; size < 0x4000; size += size < 64 ? 1 : 61)
                require_seen(size * 7 % 256, size);
        for (uint32_t bit = 0; bit < 14; bit++)
                require_seen(0x70, 1u << bit);
        for (uint32_t nr = 0; nr < 256; nr++)
                if (nr >> 1 != 0x18)
                        require_seen(nr, 4);
        for (uint32_t size = 1; size < 0x4000; size += size < 64 ? 1 : 61)
                if (size != 4)
                        require_seen(0x30, size);
        assert_true(is_notified(0x80045330) && is_notified(0x80045530) && is_notified(0xc004d430));
}

/* C1: the driver takes nothing of size 0; the types that others ask all the time are spared. */
static void a_request_without_size_is_seen_but_for_a_few_types(void **state)
{
        static const uint8_t types[] = { 0x12, 0x24, 0x54, 0x89, 0xae };

        (void)state;
        for (uint32_t request = 0x100; request < 0x10000; request++)
                assert_int_equal(is_notified(request), !memchr(types, (int)(request >> 8), sizeof(types)));
}

static void what_is_asked_all_the_time_is_not_touched(void **state)
{
        static const uint32_t others[] = {
                0x5401,     0x5402,     0x5413, 0x5410, 0x540f, /* TCGETS, TCSETS, TIOCGWINSZ, TIOC?PGRP */
                0x541b,     0x5421,     0x5450, 0x5451, 0x5452, /* FIONREAD, FIONBIO, FION?CLEX, FIOASYNC */
                0x80045430, 0x40045431,                         /* TIOCGPTN, TIOCSPTLCK */
                1,          2,          3,                      /* FIBMAP, FIGETBSZ: no UVM number since 525 */
                0x8912,     0x8915,     0x8927, 0x8933,         /* SIOCGIFCONF and such */
                0x1260,     0x127d,     0x2400, 0x2401, 0x2403, /* block devices, perf */
                0xae00,     0xae01,     0xae80,                 /* KVM_RUN and such */
        };

        (void)state;
        for (size_t k = 0; k < ARRAY_SIZE(others); k++)
                if (is_notified(others[k]))
                        fail_msg("0x%x is taken from its owner", others[k]);
}

/* C3: of another file they go on. */
static void ordinary_requests_are_not_the_drivers(void **state)
{
        static const uint32_t others[] = {
                0x40045431, 0x80045430, 0x5401,     0x541b,     /* TIOCSPTLCK, TIOCGPTN, TCGETS, FIONREAD */
                0x80081272, 0x1260,     0x40049409, 0x4020940d, /* BLKGETSIZE64, BLKGETSIZE, FICLONE, FICLONERANGE */
                0xc020660b, 0x80086601, 0x40086602, 0x801c581f, /* FS_IOC_FIEMAP, FS_IOC_?ETFLAGS, FSGETXATTR */
                0x40042406, 0x80082407, 0x2400,                 /* perf */
                0x4600,     0x4601,     0x4602,     0x4611,     /* a frame buffer's: type 'F' */
                0x4020ae46, 0x4090ae82, 0xae80,     0xc008ae05, /* KVM */
                0x400454ca, 0x800454d2, 0x400454d9,             /* TUNSETIFF and such */
                0xc0206440, 0xc0406400, 0x6444,     0xc0106446, /* DRM */
                0xc0181b01, 0x00003b64, 0x5201,                 /* InfiniBand, VFIO, random */
                0x40086200, 0xc0306201, 0xc028aa03, 0xc018aa3f, /* binder, userfaultfd */
                0x80044501, 0x81004506, 0x80184540,             /* input devices */
                0xc0502100, 0x40082102, 0xc0109207, 0xc0c8561a, /* seccomp, autofs, video */
        };

        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++)
                for (size_t k = 0; k < ARRAY_SIZE(others); k++)
                        if (caught_is_drivers(&layouts[i], others[k]))
                                fail_msg("0x%x is taken from its owner", others[k]);
}

/* C3: what the driver takes without a row of ours, however it is spelt, is not let through for another file. */
static void what_the_driver_takes_is_the_drivers(void **state)
{
        static const uint32_t taken[][2] = {
                { 0x28, 20 },  { 0x39, 32 }, { 0x41, 56 },   { 0x4d, 72 }, { 0x54, 56 }, { 0x59, 16 }, { 0x5f, 100 },
                { 0xc8, 100 }, { 0xc8, 73 }, { 0xc8, 2376 }, { 0xd1, 12 }, { 0xd4, 4 },  { 0xd4, 8 },  { 0xd4, 256 },
                { 0xd5, 8 },   { 0xd5, 64 }, { 0xd8, 4 },    { 0x2b, 32 }, { 0x2a, 32 }, { 0xd3, 16 }, { 0x29, 16 },
        };

        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                for (size_t k = 0; k < ARRAY_SIZE(taken); k++)
                        for (uint32_t type = 0; type < 1024; type++)
                                assert_true(caught_is_drivers(&layouts[i], type << 30 | taken[k][1] << 16 |
                                                                                   (type >> 2) << 8 | taken[k][0]));
                for (uint32_t number = 4; number < 330; number++)
                        assert_true(caught_is_drivers(&layouts[i], number));
                assert_true(caught_is_drivers(&layouts[i], UVM_INITIALIZE));
        }
}

/* F2 */

static void every_uvm_number_is_seen(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                const struct rm_layout *layout = &layouts[i];

#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        if (RM_NODE_##node == RM_NODE_UVM && (size) != RM_ABSENT) {                                                    \
                assert_true(is_notified(nr));                                                                          \
                assert_true(is_notified(0xffffffff00000000u | (nr)));                                                  \
        }
#include "rm/requests.def"
#undef REQUEST
                for (uint32_t number = 4; number < 0x800; number++)
                        assert_true(is_notified(number));
        }
}

/* F3 */

static bool mmap_is_notified(uint64_t flags, uint64_t offset)
{
        return filter_ask(AUDIT_ARCH_X86_64, SYS_mmap, 4096, flags, offset) == SECCOMP_RET_USER_NOTIF;
}

static void a_shared_mapping_of_a_file_at_an_offset_is_seen(void **state)
{
        (void)state;
        assert_true(mmap_is_notified(MAP_SHARED, 4096));
        assert_true(mmap_is_notified(MAP_SHARED | MAP_FIXED, 0x7f0000000000));
        assert_true(mmap_is_notified(MAP_SHARED_VALIDATE, (uint64_t)1 << 32)); /* low half 0 */
        assert_true(mmap_is_notified(MAP_SHARED | 0xffffffff00000000, 0x200000));
        assert_true(mmap_is_notified(MAP_SHARED | MAP_NORESERVE | MAP_POPULATE, 0x200000));
}

static void other_mappings_are_not_touched(void **state)
{
        (void)state;
        assert_false(mmap_is_notified(MAP_PRIVATE | MAP_ANONYMOUS, 0));
        assert_false(mmap_is_notified(MAP_SHARED | MAP_ANONYMOUS, 0));
        assert_false(mmap_is_notified(MAP_SHARED | MAP_ANONYMOUS, 4096));
        assert_false(mmap_is_notified(MAP_PRIVATE, 4096));
        assert_false(mmap_is_notified(MAP_SHARED, 0)); /* every file from its beginning */
}

/* F4 */

static void the_other_tables_carry_no_driver_call(void **state)
{
        static const uint32_t requests[] = { 0xc030462b, 0x5401, UVM_MAP_EXTERNAL, UVM_INITIALIZE };
        const uint32_t refused = SECCOMP_RET_ERRNO | EPERM;

        (void)state;
        for (size_t k = 0; k < ARRAY_SIZE(requests); k++) {
                assert_int_equal(filter_ask(AUDIT_ARCH_I386, I386_IOCTL, requests[k], 0, 0), refused);
                assert_int_equal(filter_ask(AUDIT_ARCH_X86_64, X32_BIT | X32_IOCTL, requests[k], 0, 0), refused);
        }
        assert_int_equal(filter_ask(AUDIT_ARCH_I386, I386_MMAP, 0, 0, 0), refused);
        assert_int_equal(filter_ask(AUDIT_ARCH_I386, I386_MMAP2, 4096, MAP_SHARED, 1), refused);
        assert_int_equal(filter_ask(AUDIT_ARCH_X86_64, X32_BIT | SYS_mmap, 4096, MAP_SHARED, 4096), refused);
        assert_int_equal(filter_ask(AUDIT_ARCH_I386, I386_REMAP, 4096, 1, 0), refused);
        assert_int_equal(filter_ask(AUDIT_ARCH_X86_64, X32_BIT | SYS_remap_file_pages, 4096, 1, 0), refused);
        assert_int_equal(filter_ask(AUDIT_ARCH_I386, I386_MMAP2, 4096, MAP_PRIVATE | MAP_ANONYMOUS, 0),
                         SECCOMP_RET_ALLOW);
}

static void a_table_that_no_kernel_of_this_machine_has_is_not_let_through(void **state)
{
        (void)state;
        assert_int_not_equal(filter_ask(AUDIT_ARCH_AARCH64, 29, 0xc030462b, 0, 0), SECCOMP_RET_ALLOW);
}

/* F5 */

static void other_calls_are_not_touched(void **state)
{
        (void)state;
        for (int nr = 0; nr < 512; nr++)
                if (nr != SYS_ioctl && nr != SYS_mmap && nr != SYS_remap_file_pages)
                        assert_int_equal(filter_ask(AUDIT_ARCH_X86_64, nr, 0xc030462b, MAP_SHARED, 4096),
                                         SECCOMP_RET_ALLOW);
        assert_int_equal(filter_ask(AUDIT_ARCH_I386, 3, 0, 0, 0), SECCOMP_RET_ALLOW); /* read */
}

/* A kernel launch is no call; but a program makes thousands of others per second. */
static void the_program_is_short_enough_for_the_kernel(void **state)
{
        (void)state;
        assert_true(program.len > 20 && program.len < BPF_MAXINSNS);
}

static void the_kernel_takes_the_program(void **state)
{
        struct err err = { 0 };

        (void)state;
        if (filter_check(&err) < 0) {
                print_message("# %s\n", err.text);
                skip();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_request_is_seen_however_it_is_spelt),
                cmocka_unit_test(what_the_driver_takes_is_seen),
                cmocka_unit_test(every_size_but_0_is_seen),
                cmocka_unit_test(a_request_without_size_is_seen_but_for_a_few_types),
                cmocka_unit_test(what_is_asked_all_the_time_is_not_touched),
                cmocka_unit_test(ordinary_requests_are_not_the_drivers),
                cmocka_unit_test(what_the_driver_takes_is_the_drivers),
                cmocka_unit_test(every_uvm_number_is_seen),
                cmocka_unit_test(a_shared_mapping_of_a_file_at_an_offset_is_seen),
                cmocka_unit_test(other_mappings_are_not_touched),
                cmocka_unit_test(the_other_tables_carry_no_driver_call),
                cmocka_unit_test(a_table_that_no_kernel_of_this_machine_has_is_not_let_through),
                cmocka_unit_test(other_calls_are_not_touched),
                cmocka_unit_test(the_program_is_short_enough_for_the_kernel),
                cmocka_unit_test(the_kernel_takes_the_program),
        };

        return cmocka_run_group_tests_name("gate/policy/filter", tests, build_all, free_all);
}
