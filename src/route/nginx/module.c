/* SPDX-License-Identifier: Apache-2.0 */
/* Directives, shared memory, the bell. */
#include "route/nginx/module.h"

#include <malloc.h>
#include <sys/eventfd.h>

enum {
        MMAP_FROM = 4 * 1024 * 1024,  /* a body below it comes from the heap ... */
        TRIM_FROM = 16 * 1024 * 1024, /* ... which gives back what is free at its end above this */
        SWEEP_MS = 20,                /* between two parts of a sweep of the index */
        WATCH_MS = 100,               /* while requests are held or unanswered */
        IDLE_MS = 500,
        DEAD_MS = 1000, /* between two looks for workers that were killed */
};

/* Created by the master, inherited by every worker, never read: each write wakes all workers, also old ones. */
static int bell = -1;
static ngx_event_t tick;

void sublet_ring(void)
{
        uint64_t one = 1;

        if (bell >= 0 && write(bell, &one, sizeof(one)) < 0)
                return; /* full: they are awake already */
}

/* ---- shared memory ---------------------------------------------------------------------------------- */

static ngx_int_t init_zone(ngx_shm_zone_t *shm, void *old)
{
        ngx_slab_pool_t *slab = (ngx_slab_pool_t *)shm->shm.addr;
        sublet_zone_t *zone = shm->data, *before = old;
        size_t size;
        void *memory = NULL;
        uint64_t epoch;

        if (before) { /* a reload: same name, size and module */
                zone->pool = before->pool;
                return NGX_OK;
        }
        if (shm->shm.exists) {
                zone->pool = slab->data;
                return NGX_OK;
        }
        slab->log_nomem = 0;
        for (size = shm->shm.size / ngx_pagesize * ngx_pagesize; !memory && size > ngx_pagesize; size -= ngx_pagesize)
                memory = ngx_slab_calloc(slab, size); /* one piece, as large as possible */
        size += ngx_pagesize;
        epoch = (uint64_t)ngx_random() << 32 ^ (uint64_t)clock_realtime() ^ (uint64_t)ngx_pid;
        if (!memory || pool_init(memory, size, epoch, &zone->pool) < 0) {
                ngx_log_error(NGX_LOG_EMERG, shm->shm.log, 0, "sublet_zone \"%V\" is too small: 8m is enough",
                              &zone->name);
                return NGX_ERROR;
        }
        slab->data = zone->pool;
        return NGX_OK;
}

static sublet_zone_t *zone_of(ngx_conf_t *cf, ngx_str_t *name)
{
        sublet_main_t *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sublet_module);
        sublet_zone_t **zones = conf->zones.elts;

        for (ngx_uint_t i = 0; i < conf->zones.nelts; i++)
                if (zones[i]->name.len == name->len && ngx_strncmp(zones[i]->name.data, name->data, name->len) == 0)
                        return zones[i];
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "there is no sublet_zone \"%V\" above", name);
        return NULL;
}

static char *set_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
        sublet_main_t *conf = data;
        ngx_str_t *value = cf->args->elts;
        ssize_t size = ngx_parse_size(&value[2]);
        sublet_zone_t **slot = ngx_array_push(&conf->zones), *zone = ngx_pcalloc(cf->pool, sizeof(*zone));

        (void)cmd;
        if (!slot || !zone)
                return NGX_CONF_ERROR;
        if (size < 8 * 1024 * 1024) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "sublet_zone \"%V\" needs at least 8m", &value[1]);
                return NGX_CONF_ERROR;
        }
        zone->name = value[1];
        zone->zone = ngx_shared_memory_add(cf, &value[1], (size_t)size, &ngx_http_sublet_module);
        if (!zone->zone)
                return NGX_CONF_ERROR;
        zone->zone->init = init_zone;
        zone->zone->data = zone;
        *slot = zone;
        return NGX_CONF_OK;
}

/* ---- other directives ------------------------------------------------------------------------------- */

/* A zone for a location, at cmd->offset of its configuration; the directive's handler of content, if it has one. */
static char *set_location(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
        ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
        sublet_zone_t **zone = (sublet_zone_t **)((u_char *)data + cmd->offset);

        if (cf->args->nelts > 1 && !(*zone = zone_of(cf, (ngx_str_t *)cf->args->elts + 1)))
                return NGX_CONF_ERROR;
        if (cmd->post)
                core->handler = *(ngx_http_handler_pt *)cmd->post;
        return NGX_CONF_OK;
}

/* `keepalive` must come after: it wraps what it finds. */
static char *set_upstream(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
        ngx_http_upstream_srv_conf_t *us = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);
        ngx_http_upstream_server_t *server;

        (void)cmd;
        (void)data;
        if (!zone_of(cf, (ngx_str_t *)cf->args->elts + 1))
                return NGX_CONF_ERROR;
        us->flags = NGX_HTTP_UPSTREAM_CREATE;
        us->peer.init_upstream = sublet_init_upstream;
        if (us->servers->nelts == 0) { /* otherwise "no servers are inside upstream" */
                server = ngx_array_push(us->servers);
                if (!server)
                        return NGX_CONF_ERROR;
                ngx_memzero(server, sizeof(*server));
                server->down = 1;
        }
        return NGX_CONF_OK;
}

static ngx_http_handler_pt api = sublet_api, models = sublet_models, error = sublet_error;

#define LOCATION(name, flags, field, handler)                                                                          \
        {                                                                                                              \
                ngx_string(name), NGX_HTTP_LOC_CONF | (flags), set_location, NGX_HTTP_LOC_CONF_OFFSET,                 \
                        offsetof(sublet_loc_t, field), handler                                                         \
        }

static ngx_command_t commands[] = {
        { ngx_string("sublet_zone"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE2, set_zone, NGX_HTTP_MAIN_CONF_OFFSET, 0,
          NULL },
        { ngx_string("sublet"), NGX_HTTP_UPS_CONF | NGX_CONF_TAKE1, set_upstream, NGX_HTTP_SRV_CONF_OFFSET, 0, NULL },
        { ngx_string("sublet_key"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, sublet_key_set, NGX_HTTP_MAIN_CONF_OFFSET, 0,
          NULL },
        { ngx_string("sublet_connections"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1, sublet_connections_set,
          NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL },
        LOCATION("sublet_route", NGX_CONF_TAKE1, route, NULL),
        LOCATION("sublet_api", NGX_CONF_TAKE1, api, &api),
        LOCATION("sublet_models", NGX_CONF_TAKE1, models, &models),
        LOCATION("sublet_error", NGX_CONF_NOARGS, route, &error),
        ngx_null_command,
};

static void *create_main(ngx_conf_t *cf)
{
        sublet_main_t *conf = ngx_pcalloc(cf->pool, sizeof(*conf));

        if (!conf || ngx_array_init(&conf->zones, cf->pool, 2, sizeof(sublet_zone_t *)) != NGX_OK ||
            ngx_array_init(&conf->keys, cf->pool, 8, sizeof(sublet_key_t)) != NGX_OK)
                return NULL;
        return conf;
}

static void *create_location(ngx_conf_t *cf)
{
        return ngx_pcalloc(cf->pool, sizeof(sublet_loc_t));
}

/* ---- processes -------------------------------------------------------------------------------------- */

static sublet_zone_t **zones_of(ngx_cycle_t *cycle, ngx_uint_t *ret_n)
{
        sublet_main_t *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sublet_module);

        *ret_n = conf ? conf->zones.nelts : 0;
        return conf ? conf->zones.elts : NULL;
}

/* Replicas change seldom, slots often: only the former concerns what was sent. */
static int has_changed(void)
{
        static uint64_t last;
        uint64_t sum = 0;
        ngx_uint_t n;
        sublet_zone_t **zones = zones_of((ngx_cycle_t *)ngx_cycle, &n);
        int is_new;

        for (ngx_uint_t i = 0; i < n; i++)
                sum += zones[i]->pool->serial;
        is_new = sum != last;
        last = sum;
        return is_new;
}

static void on_bell(ngx_event_t *event)
{
        (void)event;
        if (has_changed())
                sublet_watch_scan();
        sublet_queue_scan();
        sublet_wait_poll();
}

/* nginx gives it up itself if a worker dies with it. */
static ngx_shmtx_t *lock_of(const sublet_zone_t *zone)
{
        return &((ngx_slab_pool_t *)zone->zone->shm.addr)->mutex;
}

/* A pid that is used again is not: its row waits for the next of its number. */
static int is_dead(int32_t pid)
{
        return pid && kill(pid, 0) < 0 && errno == ESRCH;
}

static int take_back(sublet_zone_t *zone, unsigned int worker)
{
        int32_t pid = zone->pool->pids[worker];
        int is_mine;

        if (!is_dead(pid))
                return 0;
        ngx_shmtx_lock(lock_of(zone));
        is_mine = is_dead(pid) && pool_worker_ended(zone->pool, worker, pid); /* nobody has its row and its pid now */
        ngx_shmtx_unlock(lock_of(zone));
        return is_mine;
}

/* nginx starts another worker in place of one that was killed, but not of an old one that was only to finish. */
static void look_for_dead(sublet_zone_t **zones, ngx_uint_t n)
{
        int is_one = 0;

        for (ngx_uint_t i = 0; i < n; i++)
                for (unsigned int worker = 0; worker < POOL_WORKERS; worker++)
                        is_one |= take_back(zones[i], worker);
        if (is_one)
                sublet_ring();
}

static void on_tick(ngx_event_t *event)
{
        static ngx_msec_t watched, looked;
        ngx_uint_t n;
        sublet_zone_t **zones = zones_of((ngx_cycle_t *)ngx_cycle, &n);
        ngx_msec_t next = sublet_queue_is_empty() && sublet_watch_is_empty() ? IDLE_MS : WATCH_MS;

        for (ngx_uint_t i = 0; i < n; i++)
                if (pool_tick(zones[i]->pool))
                        next = SWEEP_MS;
        if (ngx_current_msec - watched >= WATCH_MS) {
                watched = ngx_current_msec;
                sublet_watch_scan();
                sublet_queue_scan();
        }
        if (ngx_current_msec - looked >= DEAD_MS) {
                looked = ngx_current_msec;
                look_for_dead(zones, n);
        }
        if (!ngx_exiting)
                ngx_add_timer(event, next);
}

static ngx_int_t init_module(ngx_cycle_t *cycle)
{
        (void)cycle;
        if (!ngx_test_config && bell < 0)
                bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return NGX_OK;
}

static ngx_int_t watch_bell(ngx_cycle_t *cycle)
{
        ngx_connection_t *c = ngx_get_connection(bell, cycle->log);

        if (!c)
                return NGX_ERROR;
        c->read->handler = on_bell;
        c->read->log = cycle->log;
        c->read->channel = c->write->channel = 1; /* else "open socket left in connection" at a graceful exit */
        return ngx_add_event(c->read, NGX_READ_EVENT, NGX_CLEAR_EVENT);
}

static ngx_int_t init_process(ngx_cycle_t *cycle)
{
        sublet_main_t *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sublet_module);
        static ngx_connection_t dummy = { .fd = -1 }; /* debug logs of events read data */
        sublet_zone_t **zones;

        (void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM); /* else a body's pages are cleared anew for each request */
        (void)mallopt(M_TRIM_THRESHOLD, TRIM_FROM);
        sublet_queue_init();
        sublet_watch_init();
        sublet_wait_init();
        if (!conf || (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE))
                return NGX_OK;
        sublet_comers_init(cycle, conf->connections);
        zones = conf->zones.elts;
        for (ngx_uint_t i = 0; i < conf->zones.nelts; i++) {
                ngx_shmtx_lock(lock_of(zones[i]));
                pool_worker_new(zones[i]->pool, (unsigned int)ngx_process_slot, ngx_pid);
                ngx_shmtx_unlock(lock_of(zones[i]));
        }
        tick = (ngx_event_t){ .handler = on_tick, .data = &dummy, .log = cycle->log, .cancelable = 1 };
        ngx_add_timer(&tick, SWEEP_MS);
        if (bell < 0 || !conf->zones.nelts)
                return NGX_OK;
        sublet_ring(); /* an earlier worker may have left free slots */
        return watch_bell(cycle);
}

static ngx_int_t postconfiguration(ngx_conf_t *cf)
{
        ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
        ngx_http_handler_pt *precontent = ngx_array_push(&core->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
        ngx_http_handler_pt *log = ngx_array_push(&core->phases[NGX_HTTP_LOG_PHASE].handlers);

        if (!precontent || !log)
                return NGX_ERROR;
        *precontent = sublet_route;
        *log = sublet_log;
        sublet_filter_init();
        return NGX_OK;
}

static ngx_http_module_t context = {
        .preconfiguration = sublet_variables,
        .postconfiguration = postconfiguration,
        .create_main_conf = create_main,
        .init_main_conf = sublet_keys_init,
        .create_loc_conf = create_location,
};

ngx_module_t ngx_http_sublet_module = {
        NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE,       NULL, init_module, init_process, NULL,
        NULL,          NULL,     NULL,     NGX_MODULE_V1_PADDING,
};

/* ---- what nginx looks for in a dynamic module: the only symbols seen outside ------------------------- */

#define PUBLIC __attribute__((visibility("default")))

PUBLIC ngx_module_t *ngx_modules[] = { &ngx_http_sublet_module, NULL };
PUBLIC char *ngx_module_names[] = { (char *)"ngx_http_sublet_module", NULL };
/* The body filter comes before the copy filter. */
PUBLIC char *ngx_module_order[] = { (char *)"ngx_http_sublet_module", (char *)"ngx_http_copy_filter_module", NULL };
