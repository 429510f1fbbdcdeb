/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of a module's text: entries, their parameters, and directives to the simulator.
 *
 *      // sublet.sim: duration_ns=5000000
 *      .visible .entry slow(.param .u64 p) { ... }
 *
 * A directive precedes its entry or is in its body, and gives the duration of a launch on an otherwise
 * idle device. Real PTX compilers see a comment.
 */
#include "sim/cuda/work/module.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char directive[] = "sublet.sim:";

static bool is_word(char c)
{
        return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

/* The next token from *at: a word, or one character. NULL: the end. Comments are skipped. */
static const char *token(const char **at, size_t *ret_length)
{
        const char *p = *at, *begin;

        for (;;) {
                while (isspace((unsigned char)*p))
                        p++;
                if (p[0] == '/' && p[1] == '/') {
                        p += strcspn(p, "\n");
                } else if (p[0] == '/' && p[1] == '*') {
                        const char *end = strstr(p + 2, "*/");

                        if (!end)
                                return NULL;
                        p = end + 2;
                } else {
                        break;
                }
        }
        if (!*p)
                return NULL;
        begin = p++;
        if (is_word(*begin))
                while (is_word(*p))
                        p++;
        *ret_length = (size_t)(p - begin);
        *at = p;
        return begin;
}

static bool is(const char *token, size_t length, const char *text)
{
        return token && length == strlen(text) && memcmp(token, text, length) == 0;
}

/* ".u64", ".b8": bytes; 0: not a type. */
static uint32_t type_size(const char *token, size_t length)
{
        static const struct {
                const char *name;
                uint32_t size;
        } types[] = {
                { ".u8", 1 },  { ".s8", 1 },  { ".b8", 1 },  { ".u16", 2 },  { ".s16", 2 },   { ".b16", 2 },
                { ".f16", 2 }, { ".u32", 4 }, { ".s32", 4 }, { ".b32", 4 },  { ".f32", 4 },   { ".u64", 8 },
                { ".s64", 8 }, { ".b64", 8 }, { ".f64", 8 }, { ".pred", 1 }, { ".f16x2", 4 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (is(token, length, types[i].name))
                        return types[i].size;
        return 0;
}

/* One parameter, after ".param": up to the comma or the bracket, which is the token returned. */
static const char *read_param(CUfunction function, const char **at, size_t *length)
{
        uint32_t size = 0, align = 0, n = 1;
        const char *t;

        while ((t = token(at, length)) && !is(t, *length, ",") && !is(t, *length, ")")) {
                if (is(t, *length, ".align")) {
                        uint32_t value;

                        t = token(at, length);
                        value = t ? (uint32_t)strtoul(t, NULL, 10) : 0;
                        if (!size) /* of the parameter; later it is about what a pointer points to */
                                align = value;
                } else if (is(t, *length, "[")) {
                        t = token(at, length);
                        n = t ? (uint32_t)strtoul(t, NULL, 10) : 0;
                } else if (!size) {
                        size = type_size(t, *length);
                }
        }
        if (!t || !size || !n || function->n_params == PARAMS_MAX)
                return NULL;
        if (align < size)
                align = size;
        function->size = round_up(function->size, align);
        function->at[function->n_params] = (uint32_t)function->size;
        function->length[function->n_params] = size * n;
        function->n_params++;
        function->size += (size_t)size * n;
        return t;
}

static CUresult read_params(CUfunction function, const char **at)
{
        size_t length;
        const char *before = *at, *t = token(at, &length);

        if (!is(t, length, "(")) {
                *at = before;
                return CUDA_SUCCESS;
        }
        t = token(at, &length);
        while (t && !is(t, length, ")")) {
                if (!is(t, length, ".param"))
                        return CUDA_ERROR_INVALID_PTX;
                t = read_param(function, at, &length);
                if (is(t, length, ","))
                        t = token(at, &length);
        }
        return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

/* Behind the body's last bracket; NULL: it has none. */
static const char *skip_body(const char *at)
{
        size_t length, depth = 0;
        const char *t;

        while ((t = token(&at, &length))) {
                if (is(t, length, "{"))
                        depth++;
                if (is(t, length, "}") && --depth == 0)
                        return at;
                if (is(t, length, ";") && depth == 0)
                        return at; /* a declaration */
        }
        return NULL;
}

static uint64_t find_duration(const char *begin, const char *end)
{
        uint64_t duration = 0;

        for (const char *p = begin; (p = strstr(p, directive)) && p < end;) {
                const char *value = strstr(p, "duration_ns=");

                p += strlen(directive);
                if (value && value < end && !memchr(p, '\n', (size_t)(value - p)))
                        duration = strtoull(value + strlen("duration_ns="), NULL, 10);
        }
        return duration;
}

static CUresult read_entry(CUmodule module, const char *begin, const char **at)
{
        CUfunction function = calloc(1, sizeof(*function));
        const char *name, *end;
        size_t length;
        CUresult r;

        if (!function)
                return CUDA_ERROR_OUT_OF_MEMORY;
        function->module = module;
        function->next = module->functions;
        module->functions = function; /* the module frees it, also on failure */
        name = token(at, &length);
        if (!name || !is_word(*name))
                return CUDA_ERROR_INVALID_PTX;
        function->name = strndup(name, length);
        if (!function->name)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = read_params(function, at);
        if (r != CUDA_SUCCESS)
                return r;
        end = skip_body(*at);
        if (!end)
                return CUDA_ERROR_INVALID_PTX;
        function->duration = find_duration(begin, end);
        function->kernel = kernel_named(function->name);
        *at = end;
        return CUDA_SUCCESS;
}

CUresult ptx_read(const char *text, CUmodule module)
{
        const char *at = text, *begin = text, *t;
        bool has_version = false;
        size_t length;

        while ((t = token(&at, &length))) {
                CUresult r;

                has_version = has_version || is(t, length, ".version");
                if (!is(t, length, ".entry"))
                        continue;
                r = read_entry(module, begin, &at);
                if (r != CUDA_SUCCESS)
                        return r;
                begin = at;
        }
        return has_version ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}
