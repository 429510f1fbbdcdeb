/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of config.toml: others' bytes stay, ours go in once and come out whole, and odd texts are refused. */
#include "unit.h"

#include "base/err.h"
#include "oci/node/containerd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spec_paths paths = {
        .program = "/opt/sublet/bin/sublet", .dir = "/run/sublet", .name = "sublet", .file = "/opt/sublet/spec.json"
};
static struct containerd_change change;
static struct err err;

static void drop(void)
{
        free(change.text);
        free(change.drop_in);
        change = (struct containerd_change){ 0 };
}

/* Puts our runtime in, requires that a second time changes nothing and that taking it back gives the text; `change` is
 * left for the test. */
static void with(const char *text)
{
        struct containerd_change again;
        char *plain;

        drop();
        err = (struct err){ 0 };
        if (containerd_with(text, &paths, &change, &err) < 0)
                fail_msg("%s", err.text);
        assert_int_equal(containerd_with(change.text, &paths, &again, &err), 0);
        assert_string_equal(again.text, change.text);
        assert_int_equal(!again.drop_in, !change.drop_in);
        assert_int_equal(containerd_without(change.text, &plain, &err), 0);
        assert_string_equal(plain, text);
        free(plain);
        free(again.text);
        free(again.drop_in);
}

static void refused(const char *text, const char *why)
{
        err = (struct err){ 0 };
        assert_int_equal(containerd_with(text, &paths, &change, &err), -EINVAL);
        if (!strstr(err.text, why))
                fail_msg("'%s' does not say '%s'", err.text, why);
}

static bool begins(const char *text)
{
        return !strncmp(change.text, text, strlen(text));
}

static void version_2_gets_the_tables_at_its_end(void **state)
{
        static const char text[] =
                "# mine\nversion = 2\r\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = true\n";

        (void)state;
        with(text);
        assert_true(begins(text));
        assert_null(change.drop_in);
        assert_false(change.may_lose);
        assert_non_null(strstr(change.text, "\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.sublet]\n"));
        assert_null(strstr(change.text, "SystemdCgroup"));
        with("version = 2"); /* without a line end */
        assert_true(begins("version = 2\n# "));
        with("version = 2\nimports = ['/a/*.toml']\n");
        assert_true(change.may_lose);
        drop();
}

static void version_3_gets_a_drop_in_and_an_import_of_it(void **state)
{
        (void)state;
        with("version = 3\n");
        assert_true(begins("imports = [\"/etc/containerd/conf.d/sublet*.toml\"] # "));
        assert_int_equal(strncmp(change.drop_in, "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"", 45), 0);
        with("\xef\xbb\xbfversion = 3\n[grpc]\naddress = '/run/s'\n");
        assert_true(begins("\xef\xbb\xbfimports = ["));
        with("version = 3\nimports = [ # mine\n '''/a/*.toml''', ]\n");
        assert_true(begins("version = 3\nimports = [\n  \"/etc/containerd/conf.d/sublet*.toml\", # "));
        with("imports=[]\nversion=3");
        assert_non_null(strstr(change.text, "remove'\n]\nversion=3"));
        drop();
}

static void an_import_that_covers_the_drop_in_leaves_the_text_as_it_is(void **state)
{
        static const char *const covers[] = {
                "version = 3\nimports = [\"/a.toml\", \"/etc/containerd/conf.d/*.toml\"]\n",
                "'version' = 3\n\"imports\" = ['conf.d/*.toml']\n",
                "version = 3\nimports = [ # \"]\n\t\"\"\"/etc/containerd/conf.d/sublet.toml\"\"\",\n]",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(covers) / sizeof(covers[0]); i++) {
                with(covers[i]);
                assert_string_equal(change.text, covers[i]);
                assert_non_null(change.drop_in);
        }
        with("version = 3\n# imports = [\"/etc/containerd/conf.d/*.toml\"]\n[x]\nimports = [\"conf.d/*.toml\"]\n");
        assert_true(begins("imports = ["));
        drop();
}

static void cgroups_are_made_as_runc_has_them(void **state)
{
        (void)state;
        with("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\nSystemdCgroup = "
             "true\n");
        assert_non_null(strstr(change.text, "runtimes.sublet.options]\n  SystemdCgroup = true\n"));
        with("version = "
             "3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\noptions.SystemdCgroup=true #\n");
        assert_non_null(strstr(change.drop_in, "runtimes.sublet.options]\n  SystemdCgroup = true\n"));
        with("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\nSystemdCgroup = "
             "false\n");
        assert_null(strstr(change.text, "SystemdCgroup = true"));
        drop();
}

static void what_is_written_behind_ours_stays_and_so_does_ours(void **state)
{
        char *later, *plain;

        (void)state;
        for (int joined = 0; joined < 2; joined++) {
                with(joined ? "version = 2" : "version = 2\n");
                assert_true(asprintf(&later, "%s[grpc]\n", change.text) > 0);
                drop();
                assert_int_equal(containerd_with(later, &paths, &change, &err), 0);
                assert_string_equal(change.text, later);
                assert_int_equal(containerd_without(later, &plain, &err), 0);
                assert_string_equal(plain, "version = 2\n[grpc]\n");
                free(plain);
                free(later);
        }
        drop();
}

static void what_would_keep_containerd_from_starting_is_refused(void **state)
{
        (void)state;
        refused("", "version 1");
        refused("version = 1\n", "version 1");
        refused("version = 4\n", "version 4");
        refused("disabled_plugins = [\"cri\"]\n", "version 1");
        refused("[a]\nversion = 2\n", "version 1");
        refused("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.sublet]\n", "there already");
        refused("version = 2\n[plugins]\n'io.containerd.grpc.v1.cri'.containerd.runtimes.\"sublet\".runtime_type = "
                "'x'\n",
                "there already");
        refused("version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes]\nsublet = {a = 1}\n",
                "there already");
        refused("version = 2\n[plugins]\n\"io.containerd.grpc.v1.cri\" = { containerd = {} }\n", "inline table");
        refused("version = 2\nplugins = {}\n", "inline table");
        refused("version = 2\n[[plugins]]\n", "inline table");
}

static void what_is_not_understood_is_refused_with_its_line(void **state)
{
        (void)state;
        refused("version = 2\nimports = 'x'\n", "imports in line 2");
        refused("version = 2\nimports = ['a', 1]\n", "imports in line 2");
        refused("version = 2\n\nname = \"open\n", "line 3");
        refused("version = 2\nname = '''open\n", "line 2");
        refused("version = 2\n[open\n", "line 2");
        refused("version = 2\n[a]]\n", "line 2");
        refused("version = 2\na = [1, {]}\n", "line 2");
        refused("version = 2\na =\n", "line 2");
        refused("version = 2\na b = 1\n", "line 2");
        refused("version = 2\n\"\\u0070lugins\" = {}\n", "line 2");
        refused("version = 2\n# begins: by 'sublet node install', for 'sublet node remove'\n", "is missing");
}

static void texts_that_look_like_keys_are_none(void **state)
{
        (void)state;
        with("version = 2\nnote = '''\nversion = 3\n[plugins]\n'''\n");
        assert_null(change.drop_in);
        with("version = 2\nnote = \"\"\"a \\\"\"\" \n\"io.containerd.grpc.v1.cri\" = {}\n\"\"\"\"\"\n[plugins] # [[\n");
        assert_null(change.drop_in);
        with("version = 2\nlist = [ # ]\n [ '[', \"]\" ], {a = '}'} ]\n");
        drop();
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(version_2_gets_the_tables_at_its_end),
                cmocka_unit_test(version_3_gets_a_drop_in_and_an_import_of_it),
                cmocka_unit_test(an_import_that_covers_the_drop_in_leaves_the_text_as_it_is),
                cmocka_unit_test(cgroups_are_made_as_runc_has_them),
                cmocka_unit_test(what_is_written_behind_ours_stays_and_so_does_ours),
                cmocka_unit_test(what_would_keep_containerd_from_starting_is_refused),
                cmocka_unit_test(what_is_not_understood_is_refused_with_its_line),
                cmocka_unit_test(texts_that_look_like_keys_are_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
