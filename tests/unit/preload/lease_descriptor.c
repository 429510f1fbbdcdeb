/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/releases.h"

#include "preload/lease_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct lease_descriptor descriptor;

static int begin(void **state)
{
        (void)state;
        descriptor = (struct lease_descriptor){ .uvm_major = 511,
                                                .lease = { .tenant = "chat-1", .n_devices = 2 },
                                                .layout = layout_of(580, 159, 4) };
        descriptor.lease.devices[1].quota.size = 8 * GIB;
        return 0;
}

/* A lease descriptor with one byte changed, under these seals. */
static int forged(size_t at, int change, size_t size, int seals)
{
        struct lease_descriptor wrong;
        int good, fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_int_equal(lease_descriptor_new(&descriptor, &good), 0);
        assert_int_equal(pread(good, &wrong, sizeof(wrong), 0), sizeof(wrong));
        (void)close(good);
        ((unsigned char *)&wrong)[at] ^= (unsigned char)change;
        assert_int_equal(write(fd, &wrong, size), size);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

enum {
        ALL = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL,
};

static int read_and_close(int fd)
{
        struct lease_descriptor got;
        int r = lease_descriptor_read(fd, LEASE_DESCRIPTOR_INHERITED, &got);

        (void)close(fd);
        return r;
}

static void a_sealed_descriptor_is_read_back(void **state)
{
        struct lease_descriptor got;
        int fd;

        (void)state;
        assert_int_equal(lease_descriptor_new(&descriptor, &fd), 0);
        assert_int_equal(lease_descriptor_read(fd, LEASE_DESCRIPTOR_INHERITED, &got), 0);
        assert_string_equal(got.lease.tenant, "chat-1");
        assert_int_equal(got.uvm_major, 511);
        assert_int_equal(got.lease.devices[1].quota.size, 8 * GIB);
        (void)close(fd);
}

static void a_sealed_descriptor_cannot_be_changed(void **state)
{
        int fd;

        (void)state;
        assert_int_equal(lease_descriptor_new(&descriptor, &fd), 0);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
        assert_int_equal(ftruncate(fd, 0), -1);
        assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        (void)close(fd);
}

static void a_missing_descriptor_is_not_a_damaged_one(void **state)
{
        struct lease_descriptor got;

        (void)state;
        assert_int_equal(lease_descriptor_read(-1, LEASE_DESCRIPTOR_INHERITED, &got), -EBADF);
}

static void a_descriptor_that_could_change_is_refused(void **state)
{
        (void)state;
        assert_int_equal(read_and_close(forged(0, 0, sizeof(descriptor), ALL)), 0);
        assert_int_equal(read_and_close(forged(0, 0, sizeof(descriptor), ALL & ~F_SEAL_WRITE)), -EPROTO);
        assert_int_equal(read_and_close(forged(0, 0, sizeof(descriptor), F_SEAL_WRITE)), -EPROTO);
        assert_int_equal(read_and_close(open("/bin/sh", O_RDONLY | O_CLOEXEC)), -EPROTO);
}

static void damage_anywhere_is_refused(void **state)
{
        (void)state;
        for (size_t at = 0; at < sizeof(descriptor); at += 7)
                assert_int_equal(read_and_close(forged(at, 1, sizeof(descriptor), ALL)), -EPROTO);
        assert_int_equal(read_and_close(forged(0, 0, sizeof(descriptor) - 1, ALL)), -EPROTO);
}

/* The sum is right, but the values are not. */
static void implausible_values_are_refused(void **state)
{
        int fd;

        (void)state;
        descriptor.lease.n_devices = LEASE_DEVICES_MAX + 1;
        assert_int_equal(lease_descriptor_new(&descriptor, &fd), 0);
        assert_int_equal(read_and_close(fd), -EPROTO);
        descriptor.lease.n_devices = 1;
        memset(descriptor.lease.tenant, 'x', sizeof(descriptor.lease.tenant));
        assert_int_equal(lease_descriptor_new(&descriptor, &fd), 0);
        assert_int_equal(read_and_close(fd), -EPROTO);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_sealed_descriptor_is_read_back, begin),
                cmocka_unit_test_setup(a_sealed_descriptor_cannot_be_changed, begin),
                cmocka_unit_test_setup(a_missing_descriptor_is_not_a_damaged_one, begin),
                cmocka_unit_test_setup(a_descriptor_that_could_change_is_refused, begin),
                cmocka_unit_test_setup(damage_anywhere_is_refused, begin),
                cmocka_unit_test_setup(implausible_values_are_refused, begin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
