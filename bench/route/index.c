/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of a decision cost, one thread: look-ups and updates of the index, and for a request of
 * 1 KB and of 220 KB the scan, the hashes, the match and the whole decision. One line of JSON each.
 *
 *      bench/route/index
 */
#include "base/clock.h"
#include "route/index.h"
#include "route/pool.h"
#include "route/prefix.h"
#include "route/request/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
        CHAIN = 128,
        N_CHAINS = 8192, /* 1 Mi blocks in all */
        N_FINDS = 20000,
        REPLICAS_OF_A_BLOCK = 2,
        N_SLOTS = 1 << 21, /* half full with 1 Mi blocks */
        RING = 32768,
};

static uint64_t random_state = 1;

static uint64_t random_next(void)
{
        uint64_t x = random_state += 0x9e3779b97f4a7c15u;

        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
}

static double seconds_since(nsec from)
{
        return (double)(clock_now() - from) / (double)NSEC_PER_SEC;
}

static long resident_kib(void)
{
        long pages = 0, resident = 0;
        FILE *f = fopen("/proc/self/statm", "re");

        if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
                resident = 0;
        if (f)
                fclose(f);
        return resident * 4;
}

static int compare_values(const void *a, const void *b)
{
        nsec x = *(const nsec *)a, y = *(const nsec *)b;

        return x < y ? -1 : x > y;
}

static uint64_t find_all(const struct index *index, const uint64_t *keys, nsec *spans)
{
        uint32_t depth[INDEX_REPLICAS];
        uint64_t found = 0;

        for (size_t i = 0; i < N_FINDS; i++) {
                const uint64_t *chain = keys + random_next() % N_CHAINS * CHAIN;
                nsec began = clock_now();

                found += index_match(index, chain, CHAIN, UINT64_MAX, depth) != 0;
                spans[i] = clock_now() - began;
        }
        return found;
}

static void bench_index(void)
{
        size_t size = index_size(N_SLOTS, RING), n_keys = (size_t)N_CHAINS * CHAIN;
        void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
        uint64_t *keys = malloc(n_keys * sizeof(*keys)), found;
        nsec *spans = malloc(N_FINDS * sizeof(*spans)), began;
        long before;
        struct index *index;
        double put, find;

        memset(memory, 0, 4096);
        before = resident_kib();
        memset(memory, 0, size); /* all of it is there: no page faults are measured */
        index = index_init(memory, N_SLOTS, RING);
        for (size_t i = 0; i < n_keys; i++)
                keys[i] = random_next();
        began = clock_now();
        for (size_t i = 0; i < N_CHAINS; i++)
                for (unsigned int k = 0; k < REPLICAS_OF_A_BLOCK; k++)
                        index_put(index, (unsigned int)(i + k * 31) % INDEX_REPLICAS, keys + i * CHAIN, CHAIN);
        put = seconds_since(began);
        began = clock_now();
        found = find_all(index, keys, spans);
        find = seconds_since(began);
        qsort(spans, N_FINDS, sizeof(*spans), compare_values);
        printf("{\"part\":\"index\",\"blocks\":%zu,\"held\":%zu,\"mib\":%.1f,\"puts_per_s\":%.0f,\"lookups_per_s\":%."
               "0f,"
               "\"find128_p50_us\":%.2f,\"find128_p99_us\":%.2f,\"found\":%.4f,\"resident_mib\":%.1f}\n",
               n_keys, n_keys * REPLICAS_OF_A_BLOCK, (double)size / 0x1p20, (double)n_keys * REPLICAS_OF_A_BLOCK / put,
               (double)N_FINDS * CHAIN / find, (double)spans[N_FINDS / 2] / 1e3,
               (double)spans[N_FINDS - N_FINDS / 100] / 1e3, (double)found / N_FINDS,
               (double)(resident_kib() - before) / 1024);
        free(memory);
        free(keys);
        free(spans);
}

/* ---- a request --------------------------------------------------------------------------------------- */

static struct scan scan;
static struct prefix prefix;

static size_t write_chat(char *to, size_t bytes)
{
        size_t n =
                (size_t)sprintf(to, "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"");
        size_t end = n + bytes;

        while (n < end) {
                to[n] = (char)(n % 80 == 78 ? '\\' : n % 80 == 79 ? 'n' : 'a' + random_next() % 26);
                n++;
        }
        if (to[n - 1] == '\\')
                to[n - 1] = 'x';
        return n + (size_t)sprintf(to + n, "\"}],\"max_tokens\":100}");
}

static struct pool *pool_of_eight(void)
{
        size_t size = (size_t)64 << 20;
        void *memory = aligned_alloc(64, size);
        struct pool *pool;

        memset(memory, 0, size);
        if (pool_init(memory, size, 1, &pool) < 0)
                abort();
        for (int i = 0; i < 8; i++) {
                struct pool_config config = { .rate = 22000, .state = PICK_UP };

                sprintf(config.name, "r%d", i);
                (void)pool_set(pool, &config, clock_now());
        }
        return pool;
}

static void bench_request(size_t bytes, size_t rounds)
{
        char *body = malloc(bytes + 200);
        size_t size = write_chat(body, bytes);
        struct pool *pool = pool_of_eight();
        struct pool_request asks = { .model = 1, .wanted = -1 };
        struct pick verdict;
        nsec began = clock_now();
        double scanned, decided;

        for (size_t i = 0; i < rounds; i++) {
                prefix_begin(&prefix);
                scan_begin(&scan, &prefix);
                (void)scan_feed(&scan, body, size);
                if (scan_end(&scan) != SCAN_OK)
                        abort();
        }
        scanned = seconds_since(began);
        asks.chain = prefix.chain;
        asks.n_blocks = prefix.n_blocks;
        asks.tokens = (uint32_t)(prefix.size / PICK_BYTES_PER_TOKEN);
        began = clock_now();
        for (size_t i = 0; i < rounds; i++) {
                asks.random = i;
                pool_decide(pool, &asks, 0, clock_now(), &verdict);
                index_put(pool->index, verdict.replica, asks.chain, asks.n_blocks);
        }
        decided = seconds_since(began);
        printf("{\"part\":\"request\",\"bytes\":%zu,\"scan_and_hash_us\":%.2f,\"decide_and_put_us\":%.2f,\"gb_per_s\":%"
               ".2f}\n",
               size, scanned / (double)rounds * 1e6, decided / (double)rounds * 1e6,
               (double)size * (double)rounds / scanned / 1e9);
        free(body);
        free(pool);
}

int main(void)
{
        bench_index();
        bench_request(1000, 200000);
        bench_request(220000, 3000);
        return 0;
}
