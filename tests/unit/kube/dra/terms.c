/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a claim and of its class: on what terms a container has its device. */
#include "unit.h"

#include "base/err.h"
#include "kube/dra/terms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "'apiVersion':'gpu.sublet.dev/v1','kind':'Terms'"
#define ENTRY(requests, parameters)                                                                                    \
        "{'requests':[" requests "],'opaque':{'driver':'gpu.sublet.dev','parameters':{" HEAD parameters "}}}"

/* The terms of request "gpu" with these entries, as text with ' for "; or what is wrong. */
static const char *terms_of(const char *entries)
{
        static struct err err;
        static char text[4096];
        json_t *allocation, *found = NULL;
        char *dumped;

        (void)snprintf(text, sizeof(text), "{'devices':{'config':[%s]}}", entries);
        for (char *at = text; (at = strchr(at, '\'')) != NULL;)
                *at = '"';
        allocation = json_loads(text, 0, NULL);
        assert_non_null(allocation);
        err = (struct err){ 0 };
        if (terms_judge(allocation, &err) < 0 || terms_read(allocation, "gpu", &found, &err) < 0) {
                json_decref(allocation);
                return err.text;
        }
        dumped = json_dumps(found, JSON_COMPACT | JSON_SORT_KEYS);
        (void)snprintf(text, sizeof(text), "%s", dumped);
        for (char *at = text; (at = strchr(at, '"')) != NULL;)
                *at = '\'';
        free(dumped);
        json_decref(found);
        json_decref(allocation);
        return text;
}

static void terms_are_texts_of_a_row(void **state)
{
        (void)state;
        assert_string_equal(terms_of(""), "{}");
        assert_string_equal(terms_of(ENTRY("", ",'cap':50,'class':'batch','capabilities':['compute','utility']")),
                            "{'cap':'50','capabilities':'compute,utility','class':'batch'}");
        assert_string_equal(terms_of(ENTRY("'gpu'", ",'latency':'10ms'")), "{'latency':'10ms'}");
        assert_string_equal(terms_of(ENTRY("", ",'swap':true")), "{'swap':'true'}");
        assert_string_equal(terms_of(ENTRY("", ",'swap':false")), "{'swap':'false'}");
        /* Another request's, another driver's. */
        assert_string_equal(terms_of(ENTRY("'big'", ",'cap':50") "," ENTRY("'gpu','big'", ",'class':'normal'")),
                            "{'class':'normal'}");
        assert_string_equal(terms_of("{'opaque':{'driver':'gpu.nvidia.com','parameters':{'sharing':{}}}}"), "{}");
}

static void a_claim_cannot_lift_what_its_class_bounds(void **state)
{
        (void)state;
        assert_string_equal(terms_of(ENTRY("", ",'cap':50") "," ENTRY("'gpu'", ",'cap':100")),
                            "parameter cap for gpu.sublet.dev: class and claim say it differently");
        assert_string_equal(terms_of(ENTRY("", ",'cap':50") "," ENTRY("'gpu'", ",'cap':50,'class':'latency'")),
                            "{'cap':'50','class':'latency'}");
}

static void what_is_not_known_is_refused_wherever_it_stands(void **state)
{
        static const struct {
                const char *entries, *why;
        } rows[] = {
                { "{'opaque':{'driver':'gpu.sublet.dev','parameters':{}}}",
                  "apiVersion gpu.sublet.dev/v1, kind Terms" },
                { "{'opaque':{'driver':'gpu.sublet.dev'}}", "apiVersion gpu.sublet.dev/v1, kind Terms" },
                { ENTRY("'other'", ",'gpus':2"), "parameter gpus for gpu.sublet.dev: cap, class, latency, swap and" },
                { ENTRY("", ",'share':30"), "parameter share for gpu.sublet.dev: ask for it by capacity" },
                { ENTRY("", ",'cap':0"), "1 to 100" },
                { ENTRY("", ",'cap':101"), "1 to 100" },
                { ENTRY("", ",'cap':'50'"), "1 to 100" },
                { ENTRY("", ",'class':'urgent'"), "latency, normal or batch" },
                { ENTRY("", ",'latency':'11'"), "1ms to 10s" },
                { ENTRY("", ",'latency':'1us'"), "1ms to 10s" },
                { ENTRY("", ",'latency':10"), "1ms to 10s" },
                { ENTRY("", ",'swap':'true'"), "true or false" },
                { ENTRY("", ",'capabilities':['profile']"), "a list of compute" },
                { ENTRY("", ",'capabilities':'compute'"), "a list of compute" },
                { ENTRY("", ",'capabilities':[]"), "a list of compute" },
                { ENTRY("", ",'latency':'10ms','cap':50"), "neither cap nor class" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                const char *said = terms_of(rows[i].entries);

                if (!strstr(said, rows[i].why))
                        fail_msg("'%s' is not in '%s'", rows[i].why, said);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(terms_are_texts_of_a_row),
                cmocka_unit_test(a_claim_cannot_lift_what_its_class_bounds),
                cmocka_unit_test(what_is_not_known_is_refused_wherever_it_stands),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
