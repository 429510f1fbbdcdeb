/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "net/socket.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/rights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/sublet-socket-XXXXXX", path[64];

static int make_dir(void **state)
{
        (void)state;
        (void)snprintf(path, sizeof(path), "%s/s", mkdtemp(dir));
        return 0;
}

static int remove_dir(void **state)
{
        (void)state;
        (void)unlink(path);
        return rmdir(dir);
}

static mode_t mode_of(const char *file)
{
        struct stat status;

        assert_int_equal(stat(file, &status), 0);
        return status.st_mode & 07777;
}

static void a_socket_replaces_what_is_left_there_and_has_its_mode(void **state)
{
        mode_t before = umask(077);

        (void)state;
        for (int i = 0; i < 2; i++) {
                _cleanup_(closep) int fd = socket_listen(SOCK_STREAM, 0666, "%s/%s", dir, "s");

                assert_true(fd >= 0);
                assert_int_equal(mode_of(path), 0666);
        }
        (void)umask(before);
}

static void where_bytes_are_wanted_the_kernel_refuses_descriptors_if_it_can(void **state)
{
        bool refuses = false;
        _cleanup_(closep) int listener = socket_listen_for_bytes(SOCK_STREAM, GROUP_ANY, path, &refuses);
        _cleanup_(closep) int client = socket_connect(SOCK_STREAM, 0, "%s", path);
        struct iovec data = { (char[]){ 'x' }, 1 };
        int in = STDIN_FILENO;

        (void)state;
        assert_true(listener >= 0 && client >= 0);
        assert_int_equal(mode_of(path), 0666);
        assert_int_equal(rights_send(client, &data, 1, &in, 1, MSG_NOSIGNAL), refuses ? -EPERM : 1);
        assert_int_equal(rights_send(client, &data, 1, NULL, 0, MSG_NOSIGNAL), 1);
}

static void a_client_connects_and_is_known(void **state)
{
        _cleanup_(closep) int listener = socket_listen(SOCK_SEQPACKET | SOCK_NONBLOCK, 0600, "%s", path);
        _cleanup_(closep) int client = socket_connect(SOCK_SEQPACKET, 0, "%s", path);
        _cleanup_(closep) int server = accept(listener, NULL, NULL);
        struct ucred peer = { 0 };

        (void)state;
        assert_true(client >= 0 && server >= 0);
        assert_int_equal(socket_peer(server, &peer), 0);
        assert_int_equal(peer.pid, getpid());
        assert_int_equal(peer.uid, getuid());
        assert_int_equal(socket_connect(SOCK_STREAM, 0, "%s", path), -EPROTOTYPE);
}

static void nobody_there_and_a_path_too_long_are_told_apart(void **state)
{
        static const char longest[] = "%0107d", too_long[] = "%0108d";
        _cleanup_(closep) int fd = -1;

        (void)state;
        assert_int_equal(socket_connect(SOCK_STREAM, 0, "%s/none", dir), -ENOENT);
        assert_int_equal(socket_connect(SOCK_STREAM, 0, longest, 0), -ENOENT);
        assert_int_equal(socket_connect(SOCK_STREAM, 0, too_long, 0), -ENAMETOOLONG);
        assert_int_equal(socket_listen(SOCK_STREAM, 0600, too_long, 0), -ENAMETOOLONG);
        fd = socket_listen(SOCK_STREAM, 0600, "%s", path);
        closep(&fd);
        fd = -1;
        assert_int_equal(socket_connect(SOCK_STREAM, 0, "%s", path), -ECONNREFUSED);
}

static void a_tcp_address_is_host_and_port(void **state)
{
        static const struct {
                const char *where, *host;
        } good[] = { { "127.0.0.1:0", "127.0.0.1" }, { "localhost:0", "localhost" }, { ":0", "" } };
        static const char *const bad[] = { "",
                                           "localhost",
                                           "127.0.0.1:",
                                           "[::1:80",
                                           "no such host:1",
                                           "1.2.3.4:http!",
                                           "127.0.0.1:99999",
                                           "127.0.0.1:-1",
                                           "127.0.0.1:http" };
        char host[SOCKET_HOST];
        unsigned int port;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                _cleanup_(closep) int fd = socket_listen_tcp(good[i].where, host, &port, NULL);

                assert_true(fd >= 0);
                assert_string_equal(host, good[i].host);
                assert_in_range(port, 1, 65535);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct err err = { 0 };

                assert_true(socket_listen_tcp(bad[i], host, &port, &err) < 0);
                assert_memory_equal(err.text, "--listen ", 9);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_socket_replaces_what_is_left_there_and_has_its_mode),
                cmocka_unit_test(where_bytes_are_wanted_the_kernel_refuses_descriptors_if_it_can),
                cmocka_unit_test(a_client_connects_and_is_known),
                cmocka_unit_test(nobody_there_and_a_path_too_long_are_told_apart),
                cmocka_unit_test(a_tcp_address_is_host_and_port),
        };

        return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
