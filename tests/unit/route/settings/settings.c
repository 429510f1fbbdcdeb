/* SPDX-License-Identifier: Apache-2.0 */
#include "route/settings/settings.h"

#include "base/err.h"
#include "conf/file.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct err err;
static struct settings settings;

static int parse(const char *text)
{
        json_t *file = NULL;
        int r;

        memset(&err, 0, sizeof(err));
        r = conf_parse("x.yaml", text, strlen(text), &file, NULL, &err);
        if (r == 0)
                r = route_settings_parse("x.yaml", file, NULL, &settings, &err);
        json_decref(file);
        return r;
}

static void refuses(const char *text, const char *complaint)
{
        assert_int_equal(parse(text), -EINVAL);
        assert_string_equal(err.text, complaint);
}

static void nothing_said_is_the_presets(void **state)
{
        (void)state;
        assert_int_equal(parse("{}"), 0);
        assert_int_equal(settings.listen.n, 1);
        assert_string_equal(settings.listen.at[0], "8080");
        assert_int_equal(settings.health_every, 500 * NSEC_PER_MSEC);
        assert_int_equal(settings.body, 64 * MIB);
        assert_int_equal(settings.retries, 100);
        assert_string_equal(settings.policy, "cost");
        assert_int_equal(settings.daemons.n, 0);
        assert_true(settings.defaults.hold);
        assert_int_equal(settings.defaults.wake.kind, WAKE_NONE);
}

static void a_replica_has_what_defaults_say_but_for_its_own(void **state)
{
        (void)state;
        assert_int_equal(
                parse("defaults: {rate: 22000, capacity: 8, models: [m], wake: engine}\n"
                      "replicas:\n- {name: a, address: h:1}\n"
                      "- {name: b, address: 'unix:/x', capacity: 9, share: 12.5%, models: [n, o], wake: run-it now}\n"),
                0);
        assert_int_equal(settings.n_replicas, 2);
        assert_int_equal(settings.replicas[0].config.capacity, 8);
        assert_int_equal(settings.replicas[0].config.wake.kind, WAKE_ENGINE);
        assert_int_equal(settings.replicas[1].config.rate, 22000);
        assert_int_equal(settings.replicas[1].config.share, 125);
        assert_int_equal(settings.replicas[1].config.models.n, 2);
        assert_string_equal(settings.replicas[1].config.models.at[1], "o");
        assert_int_equal(settings.replicas[1].config.wake.kind, WAKE_COMMAND);
        assert_string_equal(settings.replicas[1].config.wake.command, "run-it now");
}

static void keys_and_services_are_read(void **state)
{
        (void)state;
        assert_int_equal(parse("keys:\n- {name: a, key: sk-12345678, rate: 600/m, concurrent: 8, tokens: 90000}\n"
                               "kubernetes:\n- {service: chat, port: 8000, capacity: 3, drain: true}\n"),
                         0);
        assert_int_equal(settings.keys[0].rate.n, 600);
        assert_true(settings.keys[0].rate.is_per_minute);
        assert_int_equal(settings.keys[0].burst, 20);
        assert_int_equal(settings.keys[0].concurrent, 8);
        assert_int_equal(settings.keys[0].tokens, 90000);
        assert_string_equal(settings.services[0].port, "8000");
        assert_int_equal(settings.services[0].config.capacity, 3);
        assert_true(settings.services[0].config.is_draining);
}

static void a_complaint_names_the_place_and_what_is_wanted(void **state)
{
        (void)state;
        refuses("hold: soon", "x.yaml: hold: expected a duration such as 500ms, 10s or 5m");
        refuses("listen: ':80'",
                "x.yaml: listen: expected PORT, ADDRESS:PORT or unix:/PATH"); /* nginx has none without */
        refuses("speed: 1", "x.yaml: speed: there is no such key here ('sublet route --settings')");
        refuses("replicas:\n- {name: a, address: nowhere}",
                "x.yaml: replica 'a': expected an address: HOST:PORT, unix:/PATH or https://HOST:PORT");
        refuses("replicas:\n- {name: a, address: h:1}\n- {name: a, address: h:2}",
                "x.yaml: replica 'a': another replica has this name");
        refuses("replicas:\n- {address: h:1}", "x.yaml: replicas, number 1: each replica needs a name");
        refuses("policy: best", "x.yaml: policy: there is no policy of this name (docs/router-policy.md)");
        refuses("certificate: a.pem", "x.yaml: certificate and certificate_key must be given together");
        refuses("keys: [{name: a}]", "x.yaml: keys, number 1: each key needs a name and a key");
        refuses("keys: [{name: a, key: sk-12345678}, {name: b, key: sk-12345678}]",
                "x.yaml: keys, number 2: an earlier key has this name or value");
        refuses("keys: [{name: a, key: sk-12345678, concurrent: 65535}]",
                "x.yaml: keys, number 1: concurrent: expected at most 65534");
        refuses("origins: app.example", "x.yaml: origins: expected https://HOST of each, or *");
        refuses("origins: ['https://app.example/']", "x.yaml: origins: expected https://HOST of each, or *");
        refuses("origins: 'null'", "x.yaml: origins: expected https://HOST of each, or *");
        refuses("zone: 1M", "x.yaml: zone: must be at least 8M");
        refuses("[]", "x.yaml: expected settings of the form 'key: value'");
        refuses("replicas: 3", "x.yaml: replicas: expected a list of at most 64");
}

static void refuses_at(size_t line, const char *text)
{
        char place[32];
        struct conf_lines lines = { 0 };
        json_t *file = NULL;

        memset(&err, 0, sizeof(err));
        assert_int_equal(conf_parse("x.yaml", text, strlen(text), &file, &lines, &err), 0);
        assert_int_equal(route_settings_parse("x.yaml", file, &lines, &settings, &err), -EINVAL);
        (void)snprintf(place, sizeof(place), "x.yaml:%zu: ", line);
        assert_memory_equal(err.text, place, strlen(place));
        conf_lines_done(&lines);
        json_decref(file);
}

static void a_complaint_has_the_line_of_what_is_wrong(void **state)
{
        (void)state;
        refuses_at(2, "queue: 3\nhold: soon\n");
        refuses_at(3, "# a remark\n\nspeed: 1\n");
        refuses_at(2, "zone: 16M\npolicy: best\n");
        refuses_at(1, "zone: 1M\npolicy: cost\n");
        refuses_at(2, "workers: 1\nreplicas: 3\n");
        refuses_at(3, "replicas:\n- {name: a, address: h:1}\n- {name: a, address: h:2}\n");
        refuses_at(4, "replicas:\n- name: a\n  capacity: 3\n  address: nowhere\n");
        refuses_at(3, "replicas:\n- name: a\n  hold: 5\n  address: h:1\n");
        refuses_at(2, "replicas:\n- name: a\n  hold: true\n");
        refuses_at(3, "defaults:\n  hold: true\n  drain: maybe\n");
        refuses_at(3, "keys:\n- {name: a, key: sk-12345678}\n- {name: b}\n");
        refuses_at(2, "kubernetes:\n- {port: 3}\n");
        refuses_at(2, "queue: 7\ncertificate: a.pem\n");
}

static void an_address_is_a_place_or_a_base_url(void **state)
{
        static const struct {
                const char *text, *address;
                bool is_tls;
        } rows[] = {
                { "h:80", "h:80", false },
                { "unix:/x", "unix:/x", false },
                { "http://h", "h:80", false },
                { "https://h.example/v1/", "h.example:443", true },
                { "http://[::1]:8000/", "[::1]:8000", false },
                { "https://[::1]", "[::1]:443", true },
                { "http://h:8000/v2", NULL, false },
                { "http://", NULL, false },
                { "http://:80", NULL, false },
                { "http://me@h", NULL, false },
                { "https://h:0", NULL, false },
                { "h", NULL, false },
                { "h/v1:80", NULL, false },
                { "http://h?x", NULL, false },
                { "ftp://h:21", NULL, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char address[SETTINGS_WORD];
                bool is_tls;

                assert_int_equal(route_address_parse(rows[i].text, address, &is_tls), rows[i].address != NULL);
                if (!rows[i].address)
                        continue;
                assert_string_equal(address, rows[i].address);
                assert_int_equal(is_tls, rows[i].is_tls);
        }
}

static void what_nginx_cannot_verify_is_refused(void **state)
{
        (void)state;
        refuses("replicas:\n- {name: a, address: 'https://10.0.0.1:443'}",
                "x.yaml: replica 'a': its address is not a name: give the server_name of its certificate");
        assert_int_equal(parse("replicas:\n- {name: a, address: 'https://10.0.0.1', server_name: engine.example}"), 0);
        assert_true(settings.replicas[0].config.is_tls && route_settings_has_tls(&settings));
        assert_int_equal(parse("replica_verify: false\nreplicas:\n- {name: a, address: 'https://10.0.0.1'}"), 0);
        assert_int_equal(parse("defaults: {tls: true}\nreplicas:\n- {name: a, address: 'h:443'}"), 0);
        assert_true(settings.replicas[0].config.is_tls);
        assert_int_equal(parse("replicas:\n- {name: a, address: 'h:443'}"), 0);
        assert_false(route_settings_has_tls(&settings));
        refuses("replica_certificate: c.pem",
                "x.yaml: replica_certificate and replica_certificate_key must be given together");
}

static void replicas_may_be_named_without_a_file(void **state)
{
        char a[] = "http://10.0.0.5:8000/v1", b[] = "https://engine.example", c[] = "http://[::1]:1";
        char file[] = "config.yaml";
        char *urls[] = { a, b, c }, *mixed[] = { a, file };

        (void)state;
        memset(&err, 0, sizeof(err));
        assert_int_equal(route_settings_of_urls(urls, 3, &settings, &err), 0);
        assert_int_equal(settings.n_replicas, 3);
        assert_string_equal(settings.replicas[0].name, "10.0.0.5:8000");
        assert_string_equal(settings.replicas[0].address, "10.0.0.5:8000");
        assert_string_equal(settings.replicas[1].address, "engine.example:443");
        assert_true(settings.replicas[1].config.is_tls);
        assert_string_equal(settings.replicas[2].name, "_::1_:1");
        assert_int_equal(route_settings_of_urls(mixed, 2, &settings, &err), -EINVAL);
        assert_string_equal(err.text, "config.yaml: expected the base URL of a replica, such as http://HOST:8000 (a "
                                      "file must be alone)");
        assert_int_equal(route_settings_listen("127.0.0.1:1", &settings, &err), 0);
        assert_string_equal(settings.listen.at[0], "127.0.0.1:1");
        assert_int_equal(route_settings_listen("x y", &settings, &err), -EINVAL);
}

static void a_key_at_the_top_is_taken_only_by_its_whole_name(void **state)
{
        static const char *const bad[] = { "key", "def", "s", "", "replicas keys", "kubernetes " };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char text[64], complaint[128];

                (void)snprintf(text, sizeof(text), "'%s': []", bad[i]);
                (void)snprintf(complaint, sizeof(complaint),
                               "x.yaml: %s: there is no such key here ('sublet route --settings')", bad[i]);
                refuses(text, complaint);
        }
        assert_int_equal(parse("keys: []\nreplicas: []\ndefaults: {}\nkubernetes: []"), 0);
}

static void no_text_can_end_a_directive_of_nginx(void **state)
{
        static const char *const bad[] = { "listen: '80; x'",
                                           "certificate: 'a\"b'",
                                           "log: '/a b'",
                                           "log: '/a$b'",
                                           "user: 'x;'",
                                           "health: '/h{'",
                                           "keys: [{name: 'a\"', key: sk-12345678}]",
                                           "keys: [{name: a, key: 'sk-1234567(8'}]",
                                           "keys: [{name: a, key: 'sk-1234567\\8'}]" };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(parse(bad[i]), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_said_is_the_presets),
                cmocka_unit_test(a_replica_has_what_defaults_say_but_for_its_own),
                cmocka_unit_test(keys_and_services_are_read),
                cmocka_unit_test(a_complaint_names_the_place_and_what_is_wanted),
                cmocka_unit_test(a_complaint_has_the_line_of_what_is_wrong),
                cmocka_unit_test(an_address_is_a_place_or_a_base_url),
                cmocka_unit_test(what_nginx_cannot_verify_is_refused),
                cmocka_unit_test(replicas_may_be_named_without_a_file),
                cmocka_unit_test(a_key_at_the_top_is_taken_only_by_its_whole_name),
                cmocka_unit_test(no_text_can_end_a_directive_of_nginx),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
