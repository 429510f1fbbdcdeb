/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/engine.h"

#include "base/cleanup.h"

#include <errno.h>

const struct engine_model ENGINE_MODEL_DEFAULT = {
        .overhead = 8e-3,
        .rate = 22000,
        .attention = 1.6e-9,
        .per_sequence = 30e-6,
        .per_context = 40e-9,
        .budget = 8192,
        .sequences = 256,
        .block = 512,
};

int engine_init(struct engine *engine, const struct engine_model *model, uint32_t blocks,
                const struct engine_calls *calls, void *context)
{
        *engine = (struct engine){ .model = model, .calls = *calls, .context = context, .speed = 1 };
        engine->waiting_end = &engine->waiting;
        engine->prefilling_end = &engine->prefilling;
        engine->decoding = calloc(model->sequences, sizeof(struct engine_request *));
        if (!engine->decoding || cache_init(&engine->cache, blocks) < 0) {
                engine_done(engine);
                return -ENOMEM;
        }
        return 0;
}

void engine_done(struct engine *engine)
{
        cache_done(&engine->cache);
        free(engine->decoding);
        engine->decoding = NULL;
}

static uint32_t n_full(const struct engine *engine, const struct engine_request *request)
{
        return request->input / engine->model->block;
}

/* Blocks that are this request's alone: the rest of its prompt, and its answer. */
static uint32_t n_private(const struct engine *engine, const struct engine_request *request)
{
        uint32_t block = engine->model->block;

        return (request->input + request->output + block - 1) / block - n_full(engine, request);
}

bool engine_fits(const struct engine *engine, const struct engine_request *request)
{
        return n_full(engine, request) + n_private(engine, request) <= engine->cache.capacity;
}

uint32_t engine_kv_permille(const struct engine *engine)
{
        uint64_t used = engine->cache.n_pinned + engine->cache.n_reserved;

        return (uint32_t)(used * 1000 / engine->cache.capacity);
}

void engine_submit(struct engine *engine, struct engine_request *request)
{
        request->position = request->matched = request->pinned = request->reserved = 0;
        request->phase = ENGINE_WAITING;
        request->next = NULL;
        *engine->waiting_end = request;
        engine->waiting_end = &request->next;
        engine->n_waiting++;
}

static void release(struct engine *engine, struct engine_request *request)
{
        while (request->pinned > 0) /* the last first: it becomes the least recent */
                cache_unpin(&engine->cache, request->keys[--request->pinned]);
        cache_unreserve(&engine->cache, request->reserved);
        request->reserved = 0;
}

/* Pins what is cached and reserves the rest; false: it does not fit now. */
static bool admit(struct engine *engine, struct engine_request *request)
{
        uint32_t full = n_full(engine, request), need;

        while (request->pinned < full && cache_pin(&engine->cache, request->keys[request->pinned]))
                request->pinned++;
        need = full - request->pinned + n_private(engine, request);
        if (!cache_reserve(&engine->cache, need)) {
                release(engine, request);
                return false;
        }
        request->reserved = need;
        request->matched = request->pinned * engine->model->block;
        if (request->matched >= request->input)
                request->matched = request->input - 1; /* the last token is computed in any case */
        request->position = request->matched;
        request->phase = ENGINE_PREFILL;
        engine->n_hit += request->matched;
        engine->n_prompt += request->input;
        return true;
}

static struct engine_request *admit_next(struct engine *engine)
{
        struct engine_request *request = engine->waiting;

        if (!request || engine->n_running >= engine->model->sequences || !admit(engine, request))
                return NULL;
        engine->waiting = request->next;
        if (!engine->waiting)
                engine->waiting_end = &engine->waiting;
        request->next = NULL;
        *engine->prefilling_end = request;
        engine->prefilling_end = &request->next;
        engine->n_waiting--;
        engine->n_running++;
        return request;
}

/* One chunk of one prompt; its cost in seconds. */
static double prefill(struct engine *engine, struct engine_request *request, uint32_t *budget)
{
        uint32_t left = request->input - request->position, chunk = left < *budget ? left : *budget;
        double position = request->position, n = chunk;

        request->position += chunk;
        *budget -= chunk;
        while (request->pinned < request->position / engine->model->block) {
                cache_fill(&engine->cache, request->keys[request->pinned++]);
                request->reserved--;
        }
        return n / engine->model->rate + engine->model->attention * (n * position + n * n / 2);
}

nsec engine_begin(struct engine *engine)
{
        const struct engine_model *m = engine->model;
        uint32_t budget = m->budget > engine->n_decoding ? m->budget - engine->n_decoding : 0;
        struct engine_request *request = engine->prefilling;
        double span = m->overhead + engine->n_decoding * (1 / m->rate + m->per_sequence) +
                      (double)engine->n_context * m->per_context;

        while (budget > 0 && (request || (request = admit_next(engine)) != NULL)) {
                span += prefill(engine, request, &budget);
                request = request->next;
        }
        engine->is_busy = engine->n_running > 0;
        return engine->is_busy ? (nsec)(span / engine->speed * NSEC_PER_SEC) + 1 : 0;
}

static void heap_place(struct engine *engine, struct engine_request *request, uint32_t slot)
{
        engine->decoding[slot] = request;
        request->slot = slot;
}

static void heap_sift(struct engine *engine, struct engine_request *request, uint32_t slot)
{
        while (slot > 0 && engine->decoding[(slot - 1) / 2]->ends > request->ends) {
                heap_place(engine, engine->decoding[(slot - 1) / 2], slot);
                slot = (slot - 1) / 2;
        }
        for (;;) {
                uint32_t child = 2 * slot + 1;

                if (child + 1 < engine->n_decoding && engine->decoding[child + 1]->ends < engine->decoding[child]->ends)
                        child++;
                if (child >= engine->n_decoding || engine->decoding[child]->ends >= request->ends)
                        break;
                heap_place(engine, engine->decoding[child], slot);
                slot = child;
        }
        heap_place(engine, request, slot);
}

static void heap_take(struct engine *engine, struct engine_request *request)
{
        struct engine_request *last = engine->decoding[--engine->n_decoding];

        if (last != request)
                heap_sift(engine, last, request->slot);
}

/* Its context now: the prompt, and the answer so far. */
static uint64_t context_of(const struct engine *engine, const struct engine_request *request)
{
        return request->input + request->output - (request->ends - engine->n_iterations);
}

static void over(struct engine *engine, struct engine_request *request)
{
        request->phase = ENGINE_OVER;
        release(engine, request);
        engine->n_running--;
}

static void give_first(struct engine *engine, struct engine_request *request)
{
        engine->calls.first(request, engine->context);
        if (request->output <= 1) {
                over(engine, request);
                engine->calls.end(request, engine->context);
                return;
        }
        request->phase = ENGINE_DECODE;
        request->ends = engine->n_iterations + request->output - 1;
        engine->n_context += context_of(engine, request);
        engine->n_decoding++;
        heap_sift(engine, request, engine->n_decoding - 1);
}

void engine_finish(struct engine *engine)
{
        struct engine_request *request;

        engine->is_busy = false;
        engine->n_iterations++;
        engine->n_context += engine->n_decoding;
        while (engine->n_decoding > 0 && (request = engine->decoding[0])->ends <= engine->n_iterations) {
                engine->n_context -= context_of(engine, request);
                heap_take(engine, request);
                over(engine, request);
                engine->calls.end(request, engine->context);
        }
        while ((request = engine->prefilling) != NULL && request->position == request->input) {
                engine->prefilling = request->next;
                if (!engine->prefilling)
                        engine->prefilling_end = &engine->prefilling;
                give_first(engine, request);
        }
}

static void list_take(struct engine_request **list, struct engine_request ***end, struct engine_request *request)
{
        struct engine_request **at = list;

        while (*at && *at != request)
                at = &(*at)->next;
        if (!*at)
                return;
        *at = request->next;
        if (!*at)
                *end = at;
}

void engine_abort(struct engine *engine, struct engine_request *request)
{
        switch (request->phase) {
        case ENGINE_WAITING:
                list_take(&engine->waiting, &engine->waiting_end, request);
                engine->n_waiting--;
                request->phase = ENGINE_OVER;
                break;
        case ENGINE_PREFILL:
                list_take(&engine->prefilling, &engine->prefilling_end, request);
                over(engine, request);
                break;
        case ENGINE_DECODE:
                engine->n_context -= context_of(engine, request);
                heap_take(engine, request);
                over(engine, request);
                break;
        case ENGINE_OVER:
                break;
        }
}
