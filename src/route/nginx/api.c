/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's API (docs/router-api.md). Changes are made one at a time, under the zone's slab lock; the master frees
 * it if its holder dies.
 *
 * A worker may read a call long after the agent gave it up, when another worker has taken later ones: it was stopped,
 * or had no processor. And a worker that is about to end may have a zone that is not in use any more. So the agent
 * numbers what it changes, and says what it believes to change; what comes late is refused with 412.
 */
#include "route/nginx/module.h"

#include "route/request/replica_body.h"

#include <jansson.h>

/* ---- answers ---------------------------------------------------------------------------------------- */

static ngx_int_t send_json(ngx_http_request_t *r, ngx_uint_t status, json_t *json)
{
        char *text = json_dumps(json, JSON_COMPACT);
        size_t size = text ? ngx_strlen(text) : 0;
        u_char *copy = text ? ngx_pnalloc(r->pool, size + 1) : NULL;

        json_decref(json);
        if (copy) {
                ngx_memcpy(copy, text, size);
                copy[size++] = '\n';
        }
        free(text);
        return copy ? sublet_send(r, status, "application/json", copy, size) : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

static ngx_int_t send_refusal(ngx_http_request_t *r, ngx_uint_t status, const char *why)
{
        return send_json(r, status, json_pack("{ss}", "error", why));
}

static json_t *models_json(const struct pool_config *config)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < config->n_models; i++)
                json_array_append_new(list, json_string(config->models[i]));
        return list;
}

static json_t *replica_json(const struct pool *pool, int i)
{
        const struct pool_replica *r = &pool->replicas[i];
        nsec now = clock_now();
        struct pool_config config;
        int is_tripped;

        if (!pool_read(pool, i, &config))
                return NULL;
        is_tripped = config.state == PICK_UP && r->tripped; /* also while one request tries it */
        return json_pack("{ss ss so ss sI si si si si si si sb sb ss sI sI sf sf sI sI sI sI si sI ss}", "name",
                         config.name, "address", config.address, "models", models_json(&config), "state",
                         is_tripped ? "down" : pick_state_name(config.state), "rate", (json_int_t)config.rate, "share",
                         (int)config.share, "capacity", (int)config.capacity, "kv_tokens", (int)config.kv_tokens,
                         "kv_permille", (int)config.kv_permille, "waiting", (int)config.waiting, "wake_ms",
                         (int)config.wake_ms, "hold", config.hold, "tls", config.is_tls, "server_name",
                         config.server_name, "inflight", (json_int_t)pool_load(pool, i, POOL_INFLIGHT), "prefilling",
                         (json_int_t)pool_load(pool, i, POOL_UNANSWERED), "backlog", rate_backlog(&r->rate, now),
                         "rate_now", rate_now(&r->rate), "wanted", (json_int_t)pool_load(pool, i, POOL_WANTED), "sent",
                         (json_int_t)r->sent, "failed", (json_int_t)r->failed, "cached_blocks",
                         (json_int_t)index_count(pool->index, (unsigned int)i), "failures", (int)r->failures,
                         "elsewhere", (json_int_t)pool_elsewhere(pool, i, HEARD_INFLIGHT, now), "down_for",
                         is_tripped && r->is_hearsay ? "hearsay" :
                         is_tripped                  ? "failures" :
                         config.state == PICK_DOWN   ? "agent" :
                                                       "");
}

static json_t *settings_json(const struct pool *pool)
{
        const struct pool_settings *s = &pool->settings;

        return json_pack("{ss si si si si si si si sb}", "policy", PICK_POLICIES[s->policy].name, "queue",
                         (int)s->queue, "hold_ms", (int)s->hold_ms, "retry_permille", (int)s->retry_permille,
                         "breaker_failures", (int)s->breaker_failures, "breaker_ms", (int)s->breaker_ms,
                         "first_byte_ms", (int)s->first_byte_ms, "body_ms", (int)s->body_ms, "complete",
                         (int)s->is_complete);
}

static void epoch_text(const struct pool *pool, char ret[static 17])
{
        *ngx_snprintf((u_char *)ret, 16, "%016xL", (int64_t)pool->epoch) = 0;
}

/* The greatest number of a change that was taken. */
static uint64_t order_of_all(const struct pool *pool)
{
        uint64_t last = ngx_max(pool->order_of_settings, pool->order_of_routers);

        last = ngx_max(last, pool->order_of_removal);
        for (int i = 0; i < POOL_REPLICAS; i++)
                last = ngx_max(last, pool->replicas[i].order);
        return last;
}

ngx_int_t sublet_send_state(ngx_http_request_t *r, const struct pool *pool)
{
        json_t *replicas = json_array();
        char epoch[17];

        epoch_text(pool, epoch);
        for (int i = 0; i < POOL_REPLICAS; i++) {
                json_t *replica = replica_json(pool, i);

                if (replica)
                        json_array_append_new(replicas, replica);
        }
        return send_json(r, 200,
                         json_pack("{ss sI sI sI si so so}", "epoch", epoch, "serial", (json_int_t)pool->serial,
                                   "order", (json_int_t)order_of_all(pool), "held",
                                   (json_int_t)pool_load(pool, POOL_ALL, POOL_HELD), "routers",
                                   (int)pool_routers(pool, clock_now()), "settings", settings_json(pool), "replicas",
                                   replicas));
}

/* ---- what comes late -------------------------------------------------------------------------------- */

uint64_t sublet_argument(ngx_http_request_t *r, const char *name, uint64_t otherwise)
{
        ngx_str_t value;
        off_t n;

        if (ngx_http_arg(r, (u_char *)name, ngx_strlen(name), &value) != NGX_OK)
                return otherwise;
        n = ngx_atoof(value.data, value.len);
        return n < 0 ? otherwise : (uint64_t)n;
}

static int is_of_another_epoch(ngx_http_request_t *r, const struct pool *pool)
{
        char epoch[17];
        ngx_str_t value;

        epoch_text(pool, epoch);
        return ngx_http_arg(r, (u_char *)"epoch", 5, &value) == NGX_OK &&
               (value.len != ngx_strlen(epoch) || ngx_strncmp(value.data, epoch, value.len) != 0);
}

/* A call without a number is never late, and one that is sent twice is the same. */
static int is_late(_Atomic uint64_t *last, uint64_t order)
{
        if (order && order < *last)
                return 1;
        if (order)
                *last = order;
        return 0;
}

static ngx_int_t send_late(ngx_http_request_t *r)
{
        return send_refusal(r, NGX_HTTP_PRECONDITION_FAILED, "a later call was taken before");
}

/* ---- replicas ------------------------------------------------------------------------------ */

static const char *set_address(ngx_http_request_t *r, json_t *address, struct pool_config *config)
{
        const char *text = json_string_value(address);
        ngx_url_t url = { .no_resolve = 1, .default_port = 80 };

        if (!address)
                return *config->address ? NULL : "a new replica needs an 'address'";
        if (!text || ngx_strlen(text) >= POOL_ADDRESS)
                return "'address' is \"HOST:PORT\" or \"unix:/path\"";
        url.url.data = (u_char *)text;
        url.url.len = ngx_strlen(text);
        if (ngx_parse_url(r->pool, &url) != NGX_OK || !url.naddrs || url.addrs[0].socklen > sizeof(config->sockaddr))
                return "'address' is \"HOST:PORT\" with a numeric host, or \"unix:/path\"";
        (void)ngx_cpystrn((u_char *)config->address, (u_char *)text, POOL_ADDRESS);
        ngx_memcpy(&config->sockaddr, url.addrs[0].sockaddr, url.addrs[0].socklen);
        config->socklen = url.addrs[0].socklen;
        return NULL;
}

static ngx_int_t put_replica(ngx_http_request_t *r, struct pool *pool, const char *name, json_t *body, uint64_t order)
{
        struct pool_config config = { .state = PICK_UP, .wake_ms = 10000, .hold = true };
        int at = pool_find(pool, name), is_same;
        const char *why;

        if (at >= 0)
                (void)pool_read(pool, at, &config);
        (void)ngx_cpystrn((u_char *)config.name, (u_char *)name, POOL_NAME);
        why = set_address(r, json_object_get(body, "address"), &config);
        why = why ? why : replica_body_read(body, &config);
        if (why)
                return send_refusal(r, 400, why);
        is_same = at >= 0 && pool->replicas[at].state == (uint32_t)config.state;
        at = pool_set(pool, &config, clock_now());
        if (at < 0)
                return send_refusal(r, 409, "there are 64 replicas already");
        if (is_same && json_object_get(body, "state")) /* that it is another one is told already */
                pool_told(pool, at, config.state);
        (void)is_late(&pool->replicas[at].order, order);
        sublet_ring();
        return send_json(r, 200, replica_json(pool, at));
}

/* ---- settings --------------------------------------------------------------------------------------- */

static const char *check_expected(const json_t *models)
{
        if (models && (!json_is_array(models) || json_array_size(models) > POOL_EXPECTED))
                return "'models' is an array of at most 128 names";
        for (size_t i = 0; i < json_array_size(models); i++)
                if (!json_string_length(json_array_get(models, i)))
                        return "a model's name is not empty";
        return NULL;
}

/* They end at the first 0: the ones behind it are written before. */
static void set_expected(struct pool_settings *s, const json_t *models)
{
        for (size_t i = POOL_EXPECTED; models && i-- > 0;) {
                const json_t *name = json_array_get(models, i);

                s->expected[i] = name ? pool_model_hash(json_string_value(name), json_string_length(name)) : 0;
        }
}

static ngx_int_t put_settings(ngx_http_request_t *r, struct pool *pool, json_t *body)
{
        struct pool_settings *s = &pool->settings;
        const char *policy = json_string_value(json_object_get(body, "policy")), *why = NULL;
        struct {
                const char *name;
                _Atomic uint32_t *to;
                uint32_t value;
        } numbers[] = { { "queue", &s->queue, s->queue },
                        { "hold_ms", &s->hold_ms, s->hold_ms },
                        { "retry_permille", &s->retry_permille, s->retry_permille },
                        { "breaker_failures", &s->breaker_failures, s->breaker_failures },
                        { "breaker_ms", &s->breaker_ms, s->breaker_ms },
                        { "first_byte_ms", &s->first_byte_ms, s->first_byte_ms },
                        { "body_ms", &s->body_ms, s->body_ms } };
        json_t *complete = json_object_get(body, "complete"), *models = json_object_get(body, "models");

        for (size_t i = 0; !why && i < sizeof(numbers) / sizeof(numbers[0]); i++)
                why = replica_body_number(body, numbers[i].name, &numbers[i].value);
        if (json_object_get(body, "policy") && (!policy || !pick_policy_find(policy)))
                why = "there is no such policy";
        if (complete && !json_is_boolean(complete))
                why = "'complete' is true or false";
        why = why ? why : check_expected(models);
        if (why)
                return send_refusal(r, 400, why);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                *numbers[i].to = numbers[i].value;
        if (complete)
                s->is_complete = json_is_true(complete);
        set_expected(s, models);
        if (policy)
                s->policy = (uint32_t)(pick_policy_find(policy) - PICK_POLICIES);
        atomic_fetch_add(&pool->serial, 1);
        sublet_ring();
        return send_json(r, 200, settings_json(pool));
}

static ngx_int_t put_routers(ngx_http_request_t *r, struct pool *pool, json_t *body)
{
        const char *why;
        json_t *answer = sublet_hear(pool, body, &why);

        return why ? send_refusal(r, 400, why) : send_json(r, 200, answer);
}

/* ---- requests --------------------------------------------------------------------------------------- */

/* What came with the head is a buffer of its own, also where one was asked for. */
static json_t *read_body(ngx_http_request_t *r)
{
        ngx_chain_t *bufs = r->request_body ? r->request_body->bufs : NULL;
        size_t size = 0;
        u_char *text, *end;

        if (!bufs)
                return json_object();
        for (ngx_chain_t *l = bufs; l; l = l->next) {
                if (l->buf->in_file)
                        return NULL;
                size += (size_t)(l->buf->last - l->buf->pos);
        }
        text = end = ngx_pnalloc(r->pool, size + 1);
        for (ngx_chain_t *l = bufs; l && text; l = l->next)
                end = ngx_cpymem(end, l->buf->pos, l->buf->last - l->buf->pos);
        return text ? json_loadb((char *)text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

static int path_is(ngx_http_request_t *r, const char *path)
{
        return r->uri.len == ngx_strlen(path) && ngx_strncmp(r->uri.data, path, r->uri.len) == 0;
}

/* "/v1/replicas/NAME[/VERB]"; false: something else. */
static int split_replica_path(ngx_http_request_t *r, char name[POOL_NAME], const char **ret_verb)
{
        static const char begin[] = "/v1/replicas/", forget[] = "/forget";
        size_t n = sizeof(begin) - 1, end = r->uri.len;

        if (r->uri.len <= n || ngx_strncmp(r->uri.data, begin, n) != 0)
                return 0;
        *ret_verb = "";
        if (end - n > sizeof(forget) - 1 &&
            ngx_strncmp(r->uri.data + end - (sizeof(forget) - 1), forget, sizeof(forget) - 1) == 0) {
                end -= sizeof(forget) - 1;
                *ret_verb = "forget";
        }
        if (end - n >= POOL_NAME)
                return 0;
        ngx_memcpy(name, r->uri.data + n, end - n);
        name[end - n] = 0;
        return replica_name_is_fine(name);
}

/* One that is not there may have been removed since: of those nothing is known but the last removal of any. */
static int is_late_for(ngx_http_request_t *r, struct pool *pool, int at, uint64_t order)
{
        if (at >= 0 && is_late(&pool->replicas[at].order, order))
                return 1;
        if (r->method == NGX_HTTP_DELETE)
                pool->order_of_removal = ngx_max(pool->order_of_removal, order);
        return at < 0 && order && order < pool->order_of_removal;
}

static ngx_int_t on_replica(ngx_http_request_t *r, struct pool *pool, const char *name, const char *verb, json_t *body)
{
        uint64_t order = sublet_argument(r, "order", 0);
        int at = pool_find(pool, name);

        if (is_late_for(r, pool, at, order))
                return send_late(r);
        if (r->method == NGX_HTTP_PUT && !*verb)
                return put_replica(r, pool, name, body, order);
        if (at < 0)
                return send_refusal(r, 404, "there is no such replica");
        if (r->method == NGX_HTTP_GET && !*verb)
                return send_json(r, 200, replica_json(pool, at));
        if (r->method == NGX_HTTP_DELETE && !*verb)
                pool_remove(pool, at);
        else if (r->method == NGX_HTTP_POST && *verb)
                pool_forget(pool, at, clock_now());
        else
                return send_refusal(r, 405, "PUT, GET and DELETE a replica, POST its /forget");
        sublet_ring();
        return sublet_send(r, 204, "application/json", NULL, 0);
}

static ngx_int_t apply_change(ngx_http_request_t *r, struct pool *pool, json_t *body)
{
        uint64_t order = sublet_argument(r, "order", 0);
        char name[POOL_NAME];
        const char *verb;

        if (!json_is_object(body))
                return send_refusal(r, 400, "the body is no JSON object");
        if (is_of_another_epoch(r, pool))
                return send_refusal(r, NGX_HTTP_PRECONDITION_FAILED, "the epoch is another");
        if (path_is(r, "/v1/settings") && r->method == NGX_HTTP_PUT)
                return is_late(&pool->order_of_settings, order) ? send_late(r) : put_settings(r, pool, body);
        if (path_is(r, "/v1/routers") && r->method == NGX_HTTP_PUT)
                return is_late(&pool->order_of_routers, order) ? send_late(r) : put_routers(r, pool, body);
        if (split_replica_path(r, name, &verb))
                return on_replica(r, pool, name, verb, body);
        return send_refusal(r, 404, "there is nothing at this path");
}

static void body_ready(ngx_http_request_t *r)
{
        sublet_zone_t *zone = ((sublet_loc_t *)ngx_http_get_module_loc_conf(r, ngx_http_sublet_module))->api;
        ngx_slab_pool_t *slab = (ngx_slab_pool_t *)zone->zone->shm.addr;
        json_t *body = read_body(r);
        ngx_int_t rc;

        ngx_shmtx_lock(&slab->mutex);
        rc = apply_change(r, zone->pool, body);
        ngx_shmtx_unlock(&slab->mutex);
        json_decref(body);
        ngx_http_finalize_request(r, rc);
}

ngx_int_t sublet_api(ngx_http_request_t *r)
{
        struct pool *pool = ((sublet_loc_t *)ngx_http_get_module_loc_conf(r, ngx_http_sublet_module))->api->pool;
        ngx_int_t rc;

        if (r->method == NGX_HTTP_GET) {
                rc = ngx_http_discard_request_body(r);
                if (rc != NGX_OK)
                        return rc;
                if (path_is(r, "/v1/state"))
                        return sublet_send_state(r, pool);
                if (path_is(r, "/v1/wait"))
                        return sublet_wait(r, pool);
                if (path_is(r, "/v1/settings"))
                        return send_json(r, 200, settings_json(pool));
                if (path_is(r, "/metrics"))
                        return sublet_metrics(r, pool);
        }
        r->request_body_in_single_buf = 1;
        rc = ngx_http_read_client_request_body(r, body_ready);
        return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}
