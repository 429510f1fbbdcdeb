/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/load.h"

#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void load_done(struct load *load)
{
        free(load->requests);
        free(load->keys);
        *load = (struct load){ 0 };
}

uint64_t load_random(uint64_t *state)
{
        uint64_t x = *state += 0x9e3779b97f4a7c15u;

        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
}

/* Room for one more in an array that doubles; NULL: no memory, the array is as it was. */
static void *grown(void *array, size_t n, size_t size)
{
        if (n & (n - 1)) /* room is the next power of two */
                return array;
        return reallocarray(array, n ? 2 * n : 1, size);
}

int load_add(struct load *load, const struct load_request *request)
{
        struct load_request *requests = grown(load->requests, load->n_requests, sizeof(*requests));

        if (!requests)
                return -ENOMEM;
        load->requests = requests;
        requests[load->n_requests++] = *request;
        return 0;
}

int load_add_key(struct load *load, uint64_t key)
{
        uint64_t *keys = grown(load->keys, load->n_keys, sizeof(*keys));

        if (!keys)
                return -ENOMEM;
        load->keys = keys;
        keys[load->n_keys++] = key;
        return 0;
}

/* The number after "name": in line; -EINVAL: none. */
static int field(const char *line, const char *name, uint64_t *ret)
{
        const char *at = strstr(line, name);

        return at && sscanf(at + strlen(name), "\": %" SCNu64, ret) == 1 ? 0 : -EINVAL;
}

/* The keys of full blocks; the last id may stand for a part of a block. */
static int read_keys(struct load *load, char *line, uint64_t n)
{
        char *at = strchr(line, '[');

        for (uint64_t i = 0; i < n; i++) {
                char *end = NULL;
                uint64_t id = at ? strtoull(at + 1, &end, 10) : 0;

                if (!at || end == at + 1)
                        return -EINVAL;
                if (load_add_key(load, load_random(&id)) < 0) /* hashes, as an index wants them */
                        return -ENOMEM;
                at = end;
        }
        return 0;
}

static int read_line(struct load *load, char *line, double scale)
{
        uint64_t at, input, output;

        if (field(line, "timestamp", &at) < 0 || field(line, "input_length", &input) < 0 ||
            field(line, "output_length", &output) < 0 || !input || input > 10000000 || output > 10000000)
                return -EINVAL;
        if (load_add(load, &(struct load_request){
                                   .at = (nsec)((double)at / scale * (double)NSEC_PER_MSEC),
                                   .input = (uint32_t)input,
                                   .output = output ? (uint32_t)output : 1,
                                   .keys = load->n_keys,
                           }) < 0)
                return -ENOMEM;
        return read_keys(load, line, input / LOAD_BLOCK);
}

/* A group of equal times is spread up to the next time, if the groups are large (a coarse clock). */
static void spread(struct load *load)
{
        size_t n_groups = 0, n = load->n_requests;
        struct load_request *r = load->requests;

        for (size_t i = 0; i < n; i++)
                n_groups += i == 0 || r[i].at != r[i - 1].at;
        if (n < 4 * n_groups)
                return;
        for (size_t i = 0, end; i < n; i = end) {
                nsec at = r[i].at;

                for (end = i; end < n && r[end].at == at; end++)
                        ;
                for (size_t k = i; end < n && k < end; k++)
                        r[k].at = at + (r[end].at - at) * (nsec)(k - i) / (nsec)(end - i);
        }
}

static void fclosep(FILE **file)
{
        if (*file)
                (void)fclose(*file);
}

int load_read(const char *path, double scale, struct load *ret, struct err *err)
{
        _cleanup_(fclosep) FILE *file = fopen(path, "re");
        _cleanup_(load_done) struct load load = { 0 };
        _cleanup_(freep) char *line = NULL;
        size_t size = 0;

        if (!file)
                return err_set(err, -errno, "opening %s", path);
        while (getline(&line, &size, file) > 0) {
                int r = read_line(&load, line, scale);

                if (r < 0)
                        return err_set(err, r, "%s, line %zu", path, load.n_requests + 1);
        }
        if (!load.n_requests)
                return err_say(err, -EINVAL, "%s has no requests", path);
        spread(&load);
        *ret = TAKE(load);
        return 0;
}

double load_uniform(uint64_t *random)
{
        return (double)(load_random(random) >> 11) / 9007199254740992.0;
}

/* Exponential with mean 1, by comparisons only (von Neumann 1951): no logarithm, no libm. */
double load_exponential(uint64_t *random)
{
        for (double whole = 0;; whole++) {
                double first = load_uniform(random), last = first, next;
                bool is_odd = true;

                for (; (next = load_uniform(random)) < last; last = next)
                        is_odd = !is_odd;
                if (is_odd)
                        return whole + first;
        }
}

static int add_shared(struct load *load, const struct load_shared *kind, double at, uint64_t *random)
{
        uint64_t which = load_random(random) % kind->prefixes;
        uint32_t input = kind->prefix + kind->own;

        if (load_add(load, &(struct load_request){ .at = (nsec)(at * NSEC_PER_SEC),
                                                   .input = input,
                                                   .output = kind->output,
                                                   .keys = load->n_keys }) < 0)
                return -ENOMEM;
        for (uint32_t i = 0; i < input / LOAD_BLOCK; i++) {
                bool is_own = (i + 1) * LOAD_BLOCK > kind->prefix;

                uint64_t common = which << 32 | i;

                if (load_add_key(load, load_random(is_own ? random : &common)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int load_shared(const struct load_shared *kind, struct load *ret)
{
        _cleanup_(load_done) struct load load = { 0 };
        uint64_t random = kind->seed;
        double at = 0;

        for (size_t i = 0; i < kind->n; i++) {
                at += load_exponential(&random) / kind->qps;
                if (add_shared(&load, kind, at, &random) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE(load);
        return 0;
}
