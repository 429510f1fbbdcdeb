/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine calls a runtime with is read as runc and crun read it; what is not certain is refused. */
#include "unit.h"

#include "base/err.h"
#include "oci/runtime.h"

#include <errno.h>
#include <string.h>

static struct runtime_call call;
static struct err err;

#define READ(...) runtime_call_read((const char *const[]){ __VA_ARGS__, NULL }, &call, &err)

static void docker_creates_a_container(void **state)
{
        (void)state;
        assert_int_equal(READ("--root", "/run/r", "--log", "/b/log.json", "--log-format", "json", "--systemd-cgroup",
                              "create", "--bundle", "/b", "--pid-file", "/b/init.pid", "id"),
                         0);
        assert_true(call.is_start);
        assert_string_equal(call.bundle, "/b");
        assert_string_equal(call.log, "/b/log.json");
        assert_true(call.is_log_json);
}

static void options_have_all_forms(void **state)
{
        (void)state;
        assert_int_equal(READ("-root=/r", "--debug", "--log=/l", "--log-format=text", "run", "-d", "-b=/x", "id"), 0);
        assert_true(call.is_start);
        assert_string_equal(call.bundle, "/x");
        assert_string_equal(call.log, "/l");
        assert_false(call.is_log_json);
        assert_int_equal(READ("run", "--console-socket", "--bundle", "-bundle", "/y", "id"), 0);
        assert_string_equal(call.bundle, "/y");
        assert_int_equal(READ("--", "create", "id"), 0);
        assert_true(call.is_start);
        assert_string_equal(call.bundle, ".");
        assert_int_equal(READ("create", "--bundle"), 0);
        assert_string_equal(call.bundle, "");
}

/* A value that looks like a verb is none: create is what follows --root. */
static void other_verbs_start_nothing(void **state)
{
        (void)state;
        assert_int_equal(READ("--root", "create", "state", "run"), 0);
        assert_false(call.is_start);
        assert_int_equal(READ("exec", "--process", "p.json", "id"), 0);
        assert_false(call.is_start);
        assert_int_equal(READ("--version"), 0);
        assert_false(call.is_start);
        assert_int_equal(READ("--root", "/r", "--log"), 0);
        assert_null(call.log);
}

static void what_is_not_certain_is_refused(void **state)
{
        (void)state;
        assert_int_equal(READ("--log", "/l", "--unknown", "word", "create", "id"), -EINVAL);
        assert_non_null(strstr(err.text, "--unknown"));
        assert_string_equal(call.log, "/l");
        assert_int_equal(READ("run", "--config", "/other.json", "id"), -EINVAL);
        assert_int_equal(READ("create", "-f", "/other.json", "id"), -EINVAL);
        assert_int_equal(READ("restore", "-b", "/b", "id"), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(docker_creates_a_container),
                cmocka_unit_test(options_have_all_forms),
                cmocka_unit_test(other_verbs_start_nothing),
                cmocka_unit_test(what_is_not_certain_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
