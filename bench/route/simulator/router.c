/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modelled router. For each decision it fills the same view as the nginx module does and calls the same policy.
 *
 * The formulas of other routers get at least what they have in reality: the LRU copy of the true capacity (but llm-d's
 * default view), the engine's own waiting count and KV use at most 50 ms old, decode load without counting shared
 * blocks twice.
 */
#include "simulator/router.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define POLL_EVERY (50 * NSEC_PER_MSEC)    /* at the others */
#define SCRAPE_EVERY (500 * NSEC_PER_MSEC) /* by our agent */
#define EXCHANGE_EVERY (100 * NSEC_PER_MSEC)
#define TOLD_AFTER (2 * EXCHANGE_EVERY) /* blocks */
#define PATIENCE (20 * NSEC_PER_SEC)

enum {
        SEEN_4096 = 4096 / LOAD_BLOCK,
        COPY_4096 = 976,
};

static uint32_t n_keys(const struct flight *flight)
{
        return flight->request.input / LOAD_BLOCK;
}

/* Counts blocks that are in use by any request in flight, each once. */
static void hold_blocks(struct known *known, const struct flight *flight, bool is_new)
{
        const struct engine_request *q = &flight->request;
        uint32_t own = q->input % LOAD_BLOCK;

        for (uint32_t i = 0; i < n_keys(flight); i++) {
                uintptr_t n = (uintptr_t)map_take(&known->active, q->keys[i]);

                known->held += is_new && n == 0 ? LOAD_BLOCK : 0;
                known->held -= !is_new && n == 1 ? LOAD_BLOCK : 0;
                n = is_new ? n + 1 : n - 1;
                if (n)
                        (void)map_put(&known->active, q->keys[i], (void *)n); /* reserved by router_send */
        }
        known->held += is_new ? own : 0u - own;
        known->context += is_new ? q->input : 0u - q->input;
}

static void see_first(struct flight *flight, nsec now)
{
        struct known *known = flight->known;

        if (flight->is_first_seen)
                return;
        flight->is_first_seen = true;
        rate_first(&known->rate, &flight->ticket, flight->is_stream, now);
        known->unanswered--;
        known->prefill -= flight->is_stream ? flight->fresh : 0;
}

static void on_first(struct engine_request *request, void *context)
{
        struct flight *flight = request->owner;
        struct router_replica *replica = context;

        flight->first_at = replica->router->now;
        if (flight->is_stream)
                see_first(flight, flight->first_at);
}

static void on_end(struct engine_request *request, void *context)
{
        struct flight *flight = request->owner;
        struct router_replica *replica = context;

        flight->end_at = replica->router->now;
        see_first(flight, flight->end_at);
        flight->known->inflight--;
        rate_end(&flight->known->rate, flight->end_at);
        hold_blocks(flight->known, flight, false);
}

static const struct engine_calls CALLS = { on_first, on_end };

static double seed(const struct sim_setup *setup, double speed)
{
        double error = setup->seed_error > 0 ? setup->seed_error : 1;

        return setup->knows_share ? ENGINE_MODEL_DEFAULT.rate * speed * error : 0;
}

static size_t n_routers(const struct sim_setup *setup)
{
        return setup->n_routers ? setup->n_routers : 1;
}

/*
 * Four slots for each block that any replica can have, and memory for caches of four times the size: the module has
 * more (43,000 blocks a replica in 64 MiB).
 */
static int init_index(struct router *router)
{
        const struct sim_setup *setup = router->setup;
        size_t n_slots = 4096, size;

        while (n_slots < 4 * setup->n_replicas * setup->blocks)
                n_slots *= 2;
        size = (index_size(n_slots, 4 * setup->blocks) + 63) / 64 * 64;
        for (size_t k = 0; k < n_routers(setup); k++) {
                router->index[k] = aligned_alloc(64, size);
                if (!router->index[k])
                        return -ENOMEM;
                memset(router->index[k], 0, size);
                (void)index_init(router->index[k], n_slots, 4 * setup->blocks);
                for (unsigned int i = 0; i < setup->n_replicas; i++)
                        index_resize(router->index[k], i, router->replicas[i].engine.cache.capacity);
        }
        return 0;
}

static int init_replica(struct router_replica *replica, const struct sim_setup *setup, double speed)
{
        uint32_t blocks = (uint32_t)(setup->blocks * speed);
        int r;

        *replica = (struct router_replica){ .busy_until = INT64_MAX, .wakes_at = INT64_MAX };
        r = engine_init(&replica->engine, &ENGINE_MODEL_DEFAULT, blocks, &CALLS, replica);
        if (r < 0)
                return r;
        replica->engine.speed = speed;
        for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                rate_seed(&replica->known[k].rate, (uint64_t)seed(setup, speed));
        return cache_init(&replica->copy, setup->index == INDEX_4096 ? COPY_4096 : blocks);
}

static void init_flights(struct router *router, const struct load *load)
{
        for (size_t i = 0; i < load->n_requests; i++) {
                struct flight *flight = &router->flights[i];
                const struct load_request *r = &load->requests[i];

                flight->request = (struct engine_request){
                        .keys = load->keys + r->keys, .input = r->input, .output = r->output, .owner = flight
                };
                flight->router =
                        n_routers(router->setup) > 1 ? load_random(&router->random) % n_routers(router->setup) : 0;
                flight->is_stream = (double)(load_random(&router->random) >> 40) / 0x1p24 >= router->setup->one_piece;
        }
}

int router_init(struct router *router, const struct sim_setup *setup)
{
        *router = (struct router){ .setup = setup, .random = setup->seed, .polled_at = -SCRAPE_EVERY };
        router->replicas = calloc(setup->n_replicas, sizeof(*router->replicas));
        router->flights = calloc(setup->load->n_requests, sizeof(*router->flights));
        router->held = calloc(setup->load->n_requests, sizeof(struct flight *));
        router->told = calloc(setup->load->n_requests, sizeof(*router->told));
        if (!router->replicas || !router->flights || !router->held || !router->told)
                return -ENOMEM;
        init_flights(router, setup->load);
        for (size_t i = 0; i < setup->n_replicas; i++) {
                int r = init_replica(&router->replicas[i], setup, setup->speed[i]);

                router->replicas[i].router = router;
                router->replicas[i].is_asleep = i >= setup->n_replicas - setup->n_asleep;
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < setup->n_changes; i++)
                if (setup->changes[i].what == SIM_JOIN)
                        router->replicas[setup->changes[i].replica].is_absent = true;
        return init_index(router);
}

void router_done(struct router *router)
{
        for (size_t i = 0; router->replicas && i < router->setup->n_replicas; i++) {
                engine_done(&router->replicas[i].engine);
                cache_done(&router->replicas[i].copy);
                for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                        map_done(&router->replicas[i].known[k].active);
        }
        free(router->replicas);
        free(router->flights);
        free(router->held);
        free(router->told);
        for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                free(router->index[k]);
        *router = (struct router){ 0 };
}

/* Of what the others sent. */
static void hear_blocks(struct router *router, nsec now)
{
        for (; router->n_heard < router->n_told && router->told[router->n_heard].at + TOLD_AFTER <= now;
             router->n_heard++) {
                const struct told *told = &router->told[router->n_heard];

                for (size_t k = 0; k < n_routers(router->setup); k++)
                        if (k != told->flight->router)
                                index_put(router->index[k], told->replica, told->flight->request.keys,
                                          n_keys(told->flight));
        }
}

static void tell_blocks(struct router *router, const struct flight *flight, unsigned int replica)
{
        if (router->setup->is_index_told && router->n_told < router->setup->load->n_requests)
                router->told[router->n_told++] = (struct told){ flight, replica, router->now };
}

static size_t index_of(const struct router *router, const struct flight *flight)
{
        return router->setup->has_one_index ? 0 : flight->router;
}

/* Whether the router sees of the engines what ours does. */
static bool is_ours(const struct sim_setup *setup)
{
        return setup->index == INDEX_OURS || setup->index == INDEX_BOTH || setup->index == INDEX_COPY;
}

/* Blocks that it has, or will have: they were sent there and are under way. */
static uint32_t match_both(const struct router_replica *replica, const struct flight *flight)
{
        const uint64_t *keys = flight->request.keys;
        uint32_t n = n_keys(flight), i = 0;

        while (i < n && (cache_match(&replica->engine.cache, &keys[i], 1) ||
                         map_get(&replica->known[flight->router].active, keys[i])))
                i++;
        return i;
}

/* Tokens of the prompt that each replica has, as the router believes. */
static void match(const struct router *router, const struct flight *flight, uint32_t ret[INDEX_REPLICAS])
{
        const struct engine_request *q = &flight->request;
        uint32_t n = n_keys(flight), seen = n < SEEN_4096 ? n : SEEN_4096;

        memset(ret, 0, INDEX_REPLICAS * sizeof(*ret));
        if (router->setup->index == INDEX_OURS)
                (void)index_match(router->index[index_of(router, flight)], q->keys, n, UINT64_MAX, ret);
        for (size_t i = 0; i < router->setup->n_replicas; i++) {
                const struct router_replica *replica = &router->replicas[i];

                if (router->setup->index == INDEX_BOTH)
                        ret[i] = match_both(replica, flight);
                else if (router->setup->index == INDEX_EXACT)
                        ret[i] = cache_match(&replica->engine.cache, q->keys, n);
                else if (router->setup->index != INDEX_OURS)
                        ret[i] = cache_match(&replica->copy, q->keys, router->setup->index == INDEX_4096 ? seen : n);
                ret[i] = ret[i] * LOAD_BLOCK < q->input ? ret[i] * LOAD_BLOCK : q->input - 1;
        }
}

/* The replica will have the prompt's blocks; the prompt's end is evicted before its beginning. */
static void predict(struct router *router, struct router_replica *replica, const struct flight *flight)
{
        const struct engine_request *q = &flight->request;
        uint32_t n = n_keys(flight);

        if (router->setup->index == INDEX_OURS) {
                index_put(router->index[index_of(router, flight)], (unsigned int)(replica - router->replicas), q->keys,
                          n);
                tell_blocks(router, flight, (unsigned int)(replica - router->replicas));
        } else if (router->setup->index == INDEX_4096 && n > SEEN_4096)
                n = SEEN_4096;
        while (router->setup->index != INDEX_OURS && n-- > 0)
                cache_touch(&replica->copy, q->keys[n]);
}

/* Of this router's requests and the others'. */
static uint32_t context_of(const struct known *known)
{
        return known->context + (uint32_t)known->heard.value[HEARD_CONTEXT];
}

static void poll_engines(struct router *router, nsec now)
{
        if (now - router->polled_at < (is_ours(router->setup) ? SCRAPE_EVERY : POLL_EVERY))
                return;
        router->polled_at = now;
        for (size_t i = 0; i < router->setup->n_replicas; i++) {
                struct router_replica *replica = &router->replicas[i];

                replica->polled_waiting = replica->engine.n_waiting;
                replica->polled_kv = engine_kv_permille(&replica->engine);
                for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                        replica->known[k].polled_context = context_of(&replica->known[k]);
        }
}

/* Exactly the engine's remaining prefill. */
static double left(const struct router_replica *replica)
{
        const struct engine *engine = &replica->engine;
        double attention = replica->router->setup->tuning.attention, work = 0;

        for (const struct engine_request *q = engine->prefilling; q; q = q->next)
                work += pick_work(q->position, q->input, attention);
        for (const struct engine_request *q = engine->waiting; q; q = q->next) {
                const struct flight *flight = q->owner;

                work += pick_work(q->input - flight->fresh, q->input, attention);
        }
        return work;
}

static double wake_of(const struct router_replica *replica, nsec now)
{
        if (replica->wakes_at != INT64_MAX)
                return (double)(replica->wakes_at - now) / NSEC_PER_SEC;
        return replica->router->setup->wake;
}

static void fill(const struct router_replica *replica, size_t k, uint32_t matched, const struct rate_peers *peers,
                 nsec now, struct pick_replica *ret)
{
        const struct known *known = &replica->known[k];
        const uint64_t *heard = known->heard.value;
        const struct sim_setup *setup = replica->router->setup;
        bool sees = setup->sees == SEES_ENGINE;
        struct rate_view view;

        rate_look(&known->rate, peers, now, &view);
        *ret = (struct pick_replica){
                .rate = sees ? replica->engine.model->rate * replica->engine.speed : view.per_second,
                .backlog = replica->is_asleep ? replica->wanted_work :
                           sees               ? left(replica) :
                                                view.backlog + (double)heard[HEARD_BACKLOG],
                .overdue = known->prefill ? view.overdue : 0,
                .matched = matched,
                .inflight = known->inflight + (uint32_t)heard[HEARD_INFLIGHT],
                .waiting = replica->polled_waiting,
                .queued = replica->polled_waiting,
                .capacity = setup->capacity,
                .slot = rate_slot(&known->rate, replica->wanted),
                .held = is_ours(setup) ? context_of(known) : known->held + (uint32_t)heard[HEARD_CONTEXT],
                .prefill = known->prefill + (uint32_t)heard[HEARD_PREFILL],
                .kv_permille = is_ours(setup) ?
                                       pick_kv_now(replica->polled_kv, context_of(known), known->polled_context) :
                                       replica->polled_kv,
                .kv_total = replica->engine.cache.capacity * LOAD_BLOCK - 2000,
                .wake = wake_of(replica, now),
                .state = replica->is_absent ? PICK_DOWN :
                         replica->is_asleep ? PICK_ASLEEP :
                                              PICK_UP,
        };
}

static void say_known(struct known *known, nsec now)
{
        known->said = (struct heard){ .value = { [HEARD_INFLIGHT] = known->inflight,
                                                 [HEARD_UNANSWERED] = known->unanswered,
                                                 [HEARD_CONTEXT] = known->context,
                                                 [HEARD_PREFILL] = known->prefill } };
        rate_say(&known->rate, now, &known->said);
}

/* What each said one exchange before is heard now by all others: it is 0.1 to 0.2 s old when it counts. */
static void exchange_replica(struct router_replica *replica, size_t n, nsec now)
{
        for (size_t k = 0; k < n; k++) {
                struct heard *sum = &replica->known[k].heard;

                *sum = (struct heard){ 0 };
                for (size_t other = 0; other < n; other++)
                        for (int i = 0; i < HEARD_N && other != k; i++)
                                sum->value[i] += replica->known[other].said.value[i];
                rate_hear(&replica->known[k].rate, sum, INT64_MAX);
        }
        for (size_t k = 0; k < n; k++)
                say_known(&replica->known[k], now);
}

static void exchange_all(struct router *router, nsec now)
{
        const struct sim_setup *setup = router->setup;
        nsec passed = now - router->exchanged_at;

        if (!setup->is_shared || n_routers(setup) < 2 || passed < EXCHANGE_EVERY)
                return;
        router->exchanged_at = now;
        for (int n = passed < 2 * EXCHANGE_EVERY ? 1 : 2; n > 0; n--)
                for (size_t i = 0; i < setup->n_replicas; i++)
                        exchange_replica(&router->replicas[i], n_routers(setup), now);
}

static void view_of(struct router *router, const struct flight *flight, nsec now, struct pick_replica *rows,
                    struct pick_view *ret)
{
        uint32_t matched[INDEX_REPLICAS];

        struct rate_peers peers = { 0 };

        poll_engines(router, now);
        exchange_all(router, now);
        hear_blocks(router, now);
        match(router, flight, matched);
        for (size_t i = 0; i < router->setup->n_replicas; i++)
                if (!router->replicas[i].is_absent)
                        rate_add(&peers, &router->replicas[i].known[flight->router].rate, now);
        rate_added(&peers);
        for (size_t i = 0; i < router->setup->n_replicas; i++)
                fill(&router->replicas[i], flight->router, matched[i], &peers, now, &rows[i]);
        *ret = (struct pick_view){
                .replicas = rows,
                .n_replicas = router->setup->n_replicas,
                .tuning = &router->setup->tuning,
                .random = load_random(&router->random),
                .turn = router->turn++,
                .prefix = n_keys(flight) ? flight->request.keys[0] : flight->request.input,
                .prompt = flight->request.input,
                .n_held = (uint32_t)router->n_held,
        };
}

static struct router_replica *send(struct router *router, struct flight *flight, const struct pick *verdict, nsec now)
{
        struct router_replica *replica = &router->replicas[verdict->replica];
        struct known *known = &replica->known[flight->router];
        const struct engine_request *q = &flight->request;

        if (map_reserve(&known->active, n_keys(flight)) < 0)
                return NULL;
        flight->replica = replica;
        flight->known = known;
        flight->fresh = q->input - verdict->matched;
        rate_send(&known->rate, verdict->work, now, &flight->ticket);
        flight->ticket.per_second = verdict->prefill > 0 ? verdict->work / verdict->prefill : 0;
        known->inflight++;
        known->unanswered++;
        known->prefill += flight->is_stream ? flight->fresh : 0;
        replica->n_sent++;
        hold_blocks(known, flight, true);
        predict(router, replica, flight);
        engine_submit(&replica->engine, &flight->request);
        return replica;
}

/* Notes the replica that a held request waits for; UINT32_MAX: any. */
static void wait_for(struct router *router, struct flight *flight, uint32_t replica, double work)
{
        if (flight->waits_for != UINT32_MAX) {
                router->replicas[flight->waits_for].wanted--;
                router->replicas[flight->waits_for].wanted_work -= flight->work;
        }
        if (replica != UINT32_MAX) {
                router->replicas[replica].wanted++;
                router->replicas[replica].wanted_work += work;
        }
        flight->waits_for = replica;
        flight->work = work;
}

static void put_held(struct router *router, struct flight *flight, const struct pick_replica *rows,
                     const struct pick *verdict, nsec now)
{
        uint32_t most = 0;

        for (size_t i = 0; i < router->setup->n_replicas; i++)
                most = rows[i].matched > most ? rows[i].matched : most;
        flight->item = (struct queue_item){
                .arrived = now,
                .deadline = now + PATIENCE,
                .due = now + PATIENCE,
                .cached_permille = (uint32_t)((uint64_t)most * 1000 / flight->request.input),
        };
        flight->waits_for = UINT32_MAX;
        wait_for(router, flight, verdict->replica, verdict->work);
        router->held[router->n_held++] = flight;
        router->n_ever_held++;
}

static enum pick_action decide_flight(struct router *router, struct flight *flight, struct pick_replica *rows, nsec now,
                                      struct pick *ret)
{
        struct pick_view view;

        view_of(router, flight, now, rows, &view);
        pick_decide(router->setup->policy, &view, ret);
        return ret->action;
}

static void ask_for(struct router *router, uint32_t replica, nsec now)
{
        struct router_replica *sleeper = &router->replicas[replica];

        if (sleeper->wakes_at != INT64_MAX)
                return;
        sleeper->wakes_at = now + (nsec)(router->setup->wake * NSEC_PER_SEC);
        router->n_woken++;
}

struct router_replica *router_arrive(struct router *router, struct flight *flight, nsec now)
{
        struct pick_replica rows[SIM_REPLICAS_MAX];
        struct pick verdict;

        router->now = now;
        switch (decide_flight(router, flight, rows, now, &verdict)) {
        case PICK_SEND:
                return send(router, flight, &verdict, now);
        case PICK_WAKE:
                ask_for(router, verdict.replica, now);
                put_held(router, flight, rows, &verdict, now);
                return NULL;
        case PICK_HOLD:
                put_held(router, flight, rows, &verdict, now);
                return NULL;
        default:
                return NULL;
        }
}

/* A request that waits for a sleeping replica may also go elsewhere, if that became cheaper. */
static bool may_go(const struct router *router, const struct flight *flight, uint32_t replica)
{
        return flight->waits_for == replica || flight->waits_for == UINT32_MAX ||
               router->replicas[flight->waits_for].is_asleep;
}

/* The first in the queue's order of those that may go to this replica now; n_held: none. */
static size_t first_held(const struct router *router, uint32_t replica, nsec now)
{
        size_t first = router->n_held;

        for (size_t i = 0; i < router->n_held; i++) {
                const struct flight *flight = router->held[i];

                if (!may_go(router, flight, replica))
                        continue;
                if (first == router->n_held || queue_before(&flight->item, &router->held[first]->item, now))
                        first = i;
        }
        return first;
}

/* Decides one of them anew; false: it stays. */
static bool release_one(struct router *router, size_t i, uint32_t index, nsec now)
{
        struct pick_replica rows[SIM_REPLICAS_MAX];
        struct flight *flight = router->held[i];
        struct pick verdict;

        wait_for(router, flight, UINT32_MAX, 0); /* not behind itself */
        switch (decide_flight(router, flight, rows, now, &verdict)) {
        case PICK_SEND:
                router->held[i] = router->held[--router->n_held];
                (void)send(router, flight, &verdict, now);
                return true;
        case PICK_HOLD:
                wait_for(router, flight, verdict.replica, verdict.work);
                return verdict.replica != index && verdict.replica != UINT32_MAX;
        case PICK_WAKE:
                ask_for(router, verdict.replica, now);
                wait_for(router, flight, verdict.replica, verdict.work);
                return false;
        default:
                return false;
        }
}

static uint32_t inflight(const struct router_replica *replica)
{
        uint32_t n = 0;

        for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                n += replica->known[k].inflight;
        return n;
}

void router_release(struct router *router, const struct router_replica *replica, nsec now)
{
        uint32_t index = (uint32_t)(replica - router->replicas), capacity = router->setup->capacity;
        size_t i;

        while (!capacity || inflight(replica) < capacity)
                if ((i = first_held(router, index, now)) == router->n_held || !release_one(router, i, index, now))
                        return;
}

void router_woken(struct router *router, struct router_replica *replica, nsec now)
{
        router->now = now;
        replica->is_asleep = false;
        replica->wakes_at = INT64_MAX;
        router_release(router, replica, now);
}

/* What is left of the iteration under way takes longer or shorter, too. */
static void set_speed(struct router_replica *replica, const struct sim_change *change, nsec now)
{
        if (replica->busy_until != INT64_MAX && replica->busy_until > now)
                replica->busy_until =
                        now + (nsec)((double)(replica->busy_until - now) * replica->engine.speed / change->speed);
        replica->engine.speed = change->speed;
        if (!change->is_silent)
                for (size_t k = 0; k < SIM_ROUTERS_MAX; k++)
                        rate_seed(&replica->known[k].rate, (uint64_t)seed(replica->router->setup, change->speed));
}

void router_change(struct router *router, const struct sim_change *change, nsec now)
{
        struct router_replica *replica = &router->replicas[change->replica];

        switch (change->what) {
        case SIM_SPEED:
                set_speed(replica, change, now);
                break;
        case SIM_JOIN:
                replica->is_absent = false;
                break;
        case SIM_COLD:
                replica->cold = (nsec)(change->seconds * NSEC_PER_SEC);
                break;
        }
}
