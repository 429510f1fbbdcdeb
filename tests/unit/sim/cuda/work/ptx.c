/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/work/module.h"

#include <stdlib.h>
#include <string.h>

static CUresult read_text(const char *text, CUmodule module)
{
        memset(module, 0, sizeof(*module));
        return ptx_read(text, module);
}

static CUfunction named(CUmodule module, const char *name)
{
        for (CUfunction f = module->functions; f; f = f->next)
                if (f->name && strcmp(f->name, name) == 0)
                        return f;
        return NULL;
}

static void done(CUmodule module)
{
        while (module->functions) {
                CUfunction f = module->functions;

                module->functions = f->next;
                free(f->name);
                free(f);
        }
}

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static void an_entry_and_its_parameters_are_read(void **state)
{
        struct CUmod_st module;
        CUfunction f;

        (void)state;
        assert_int_equal(read_text(HEAD ".visible .entry e(.param .u64 p,.param .u32 n, .param "
                                        ".align 8 .b8 s[20],\n"
                                        " .param .u8 c) { ret; }",
                                   &module),
                         CUDA_SUCCESS);
        f = named(&module, "e");
        assert_non_null(f);
        assert_int_equal(f->n_params, 4);
        assert_int_equal(f->at[0], 0);
        assert_int_equal(f->at[1], 8);
        assert_int_equal(f->at[2], 16);
        assert_int_equal(f->length[2], 20);
        assert_int_equal(f->at[3], 36);
        assert_int_equal(f->size, 37);
        done(&module);
}

static void pointers_that_say_what_they_point_to_are_parameters(void **state)
{
        struct CUmod_st module;
        CUfunction f;

        (void)state;
        assert_int_equal(
                read_text(HEAD ".entry e(.param .u64 .ptr .global .align 16 p, .param .f32 x) { ret; }", &module),
                CUDA_SUCCESS);
        f = named(&module, "e");
        assert_int_equal(f->n_params, 2);
        assert_int_equal(f->at[1], 8);
        assert_int_equal(f->size, 12);
        done(&module);
}

static void an_entry_may_have_no_parameters(void **state)
{
        struct CUmod_st module;

        (void)state;
        assert_int_equal(read_text(HEAD ".visible .entry nop(){ret;}\n.visible .entry other { ret; }", &module),
                         CUDA_SUCCESS);
        assert_int_equal(named(&module, "nop")->n_params, 0);
        assert_non_null(named(&module, "other"));
        done(&module);
}

static void a_directive_belongs_to_the_entry_that_follows_or_holds_it(void **state)
{
        struct CUmod_st module;

        (void)state;
        assert_int_equal(read_text(HEAD "// sublet.sim: duration_ns=5000\n.entry a() { ret; }\n"
                                        ".entry b() {\n // sublet.sim: duration_ns=70\n ret; }\n"
                                        ".entry c() { ret; }\n",
                                   &module),
                         CUDA_SUCCESS);
        assert_int_equal(named(&module, "a")->duration, 5000);
        assert_int_equal(named(&module, "b")->duration, 70);
        assert_int_equal(named(&module, "c")->duration, 0);
        done(&module);
}

static void comments_are_not_code(void **state)
{
        struct CUmod_st module;

        (void)state;
        assert_int_equal(read_text(HEAD "/* .entry x() { */ // .entry y(\n.entry z() { /* } */ ret; }", &module),
                         CUDA_SUCCESS);
        assert_null(named(&module, "x"));
        assert_null(named(&module, "y"));
        assert_non_null(named(&module, "z"));
        done(&module);
}

static void what_is_no_ptx_is_refused(void **state)
{
        static const char *const texts[] = {
                "",
                "hello",
                HEAD ".entry",
                HEAD ".entry e(",
                HEAD ".entry e(.param",
                HEAD ".entry e(.param .u64 p",
                HEAD ".entry e(.param .what p) { }",
                HEAD ".entry e(.u64 p) { }",
                HEAD ".entry e() {",
                HEAD ".entry e() { { }",
                HEAD "/* .entry",
        };
        struct CUmod_st module;

        (void)state;
        for (size_t i = 0; i + 1 < sizeof(texts) / sizeof(*texts); i++) {
                assert_int_equal(read_text(texts[i], &module), CUDA_ERROR_INVALID_PTX);
                done(&module);
        }
        assert_int_equal(read_text(texts[10], &module), CUDA_SUCCESS); /* an unfinished comment holds nothing */
        done(&module);
}

static void too_many_parameters_are_refused(void **state)
{
        char text[4096] = HEAD ".entry e(.param .u32 a";
        struct CUmod_st module;

        (void)state;
        for (int i = 0; i < PARAMS_MAX; i++)
                strcat(text, ", .param .u32 a");
        strcat(text, ") { ret; }");
        assert_int_equal(read_text(text, &module), CUDA_ERROR_INVALID_PTX);
        done(&module);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_entry_and_its_parameters_are_read),
                cmocka_unit_test(pointers_that_say_what_they_point_to_are_parameters),
                cmocka_unit_test(an_entry_may_have_no_parameters),
                cmocka_unit_test(a_directive_belongs_to_the_entry_that_follows_or_holds_it),
                cmocka_unit_test(comments_are_not_code),
                cmocka_unit_test(what_is_no_ptx_is_refused),
                cmocka_unit_test(too_many_parameters_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
