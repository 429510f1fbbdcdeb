/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of an inference engine: chunked prefill in order of arrival, decode beside it, a prefix cache
 * of blocks. It has no clock: it returns how long an iteration takes, and its caller (the simulator on virtual time,
 * the test replica on real time) waits that long and calls engine_finish().
 *
 *      engine_submit(&engine, request);
 *      if (!engine.is_busy && (span = engine_begin(&engine)) > 0)
 *              ... after span: engine_finish(&engine); begin again
 *
 * One iteration: each decoding request gives one token; what is left of the token budget goes to the
 * prompts, first come first served, in chunks. A request is admitted when there is a sequence slot
 * and its uncached full blocks and private blocks (the rest of the prompt, the answer) fit beside
 * what is in use. It takes
 *
 *      (overhead + tokens / rate + attention * sum(prefill token x its position)
 *                + per_sequence * decoding + per_context * their context tokens) / speed.
 *
 * A block is cached as soon as its chunk is scheduled; released blocks are evicted least recent
 * first, the end of a prompt before its beginning. Not thread-safe.
 */
#pragma once

#include "base/clock.h"
#include "simulator/cache.h"

struct engine_model {
        double overhead;     /* seconds per iteration */
        double rate;         /* prefill tokens per second */
        double attention;    /* seconds per prefill token and token of context */
        double per_sequence; /* seconds per decoding request */
        double per_context;  /* seconds per token of context of the decoding requests */
        uint32_t budget;     /* tokens per iteration */
        uint32_t sequences;  /* requests at once */
        uint32_t block;      /* tokens per block */
};

extern const struct engine_model ENGINE_MODEL_DEFAULT; /* a mid-size model on one data-centre GPU */

/* Owned by the caller, who keeps it from submit to its end (or engine_abort). */
struct engine_request {
        const uint64_t *keys;   /* of its full prompt blocks: input / block of them; not copied */
        uint32_t input, output; /* tokens, output >= 1 */
        void *owner;
        /* the engine's: */
        uint32_t position; /* prompt tokens prefilled, or taken from the cache */
        uint32_t matched;  /* of those, from the cache */
        uint32_t pinned;   /* blocks of keys that it pins */
        uint32_t reserved; /* blocks still to come */
        uint32_t slot;     /* in `decoding` */
        uint64_t ends;     /* iteration that gives its last token */
        enum { ENGINE_WAITING, ENGINE_PREFILL, ENGINE_DECODE, ENGINE_OVER } phase;
        struct engine_request *next;
};

struct engine_calls {
        void (*first)(struct engine_request *request, void *context); /* its first token */
        void (*end)(struct engine_request *request, void *context);   /* its last token; after first() */
};

struct engine {
        const struct engine_model *model;
        struct engine_calls calls;
        void *context;
        double speed; /* share of the device, 1 is all; may change between iterations */
        struct cache cache;
        bool is_busy;
        uint64_t n_iterations;
        struct engine_request *waiting, **waiting_end;       /* not admitted */
        struct engine_request *prefilling, **prefilling_end; /* admitted, prompt not complete */
        struct engine_request **decoding;                    /* heap by `ends`; `sequences` slots */
        uint32_t n_decoding, n_running, n_waiting;
        uint64_t n_context;       /* tokens of context of the decoding requests */
        uint64_t n_hit, n_prompt; /* tokens, since ever */
};

int engine_init(struct engine *engine, const struct engine_model *model, uint32_t blocks,
                const struct engine_calls *calls, void *context);
void engine_done(struct engine *engine); /* requests are not freed */

/* Whether it can ever run: an engine refuses a request that is larger than its cache. */
bool engine_fits(const struct engine *engine, const struct engine_request *request);

void engine_submit(struct engine *engine, struct engine_request *request);
void engine_abort(struct engine *engine, struct engine_request *request); /* between iterations or within one */

/* Schedules an iteration. Returns how long it takes; 0: there is nothing to do. */
nsec engine_begin(struct engine *engine);
void engine_finish(struct engine *engine); /* gives the tokens; calls first() and end() */

uint32_t engine_kv_permille(const struct engine *engine); /* pinned and reserved, of all blocks */
