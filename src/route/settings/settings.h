/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of `sublet route`: its file, checked. settings.def lists the keys.
 *
 * Every text that goes into nginx's configuration is checked here: none can end a directive or begin a variable.
 *
 * Pure but for route_settings_read. Threads: any.
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "route/model.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct conf_lines;
struct err;

enum {
        SETTINGS_REPLICAS = 64,
        SETTINGS_MODELS = 16,
        SETTINGS_KEYS = 256,
        SETTINGS_SERVICES = 8,
        SETTINGS_LIST = 8,
        SETTINGS_WORD = 128,
        SETTINGS_PATH = 256,
        SETTINGS_TEXT = 512,
        SETTINGS_NAME = 64,
};

struct settings_list {
        size_t n;
        char at[SETTINGS_LIST][SETTINGS_WORD];
};

enum wake_kind {
        WAKE_NONE,
        WAKE_ENGINE,  /* vLLM's sleep mode: drops the cache */
        WAKE_DAEMON,  /* suspended as a tenant: keeps the cache */
        WAKE_COMMAND, /* does not run; a command starts it */
};

struct wake {
        enum wake_kind kind;
        char command[SETTINGS_TEXT];
};

struct settings_models {
        size_t n;
        char at[SETTINGS_MODELS][MODEL_NAME];
};

/* Rows OF_REPLICA. */
struct replica_settings {
        struct settings_models models;
        char tenant[SETTINGS_WORD];
        unsigned int share; /* permille; 0: not given */
        uint64_t rate;
        uint32_t capacity, kv_tokens;
        struct wake wake;
        char sleep[SETTINGS_TEXT];
        nsec sleep_after, wake_time;
        bool hold, is_draining;
        bool is_tls;
        char server_name[SETTINGS_WORD]; /* that its certificate must have; "": of its address */
};

struct settings_replica {
        char name[SETTINGS_NAME], address[SETTINGS_WORD]; /* "HOST:PORT" or "unix:PATH"; its scheme is in config */
        struct replica_settings config;
};

struct request_rate {
        uint32_t n; /* requests per second or minute; 0: no bound */
        bool is_per_minute;
};

/* Between two requests; 0: no bound. */
static inline uint32_t request_rate_usec(const struct request_rate *rate)
{
        return rate->n ? (rate->is_per_minute ? 60000000u : 1000000u) / rate->n : 0;
}

struct settings_key {
        char name[SETTINGS_NAME], key[SETTINGS_PATH];
        struct request_rate rate;
        uint32_t burst, concurrent, tokens; /* tokens: a minute. concurrent, tokens 0: no bound */
        bool is_admin, may_priority;
};

static inline bool settings_key_has_limit(const struct settings_key *key)
{
        return key->rate.n || key->concurrent || key->tokens;
}

struct settings_service {
        char service[SETTINGS_WORD], name_space[SETTINGS_WORD], port[SETTINGS_WORD], api[SETTINGS_TEXT];
        char token[SETTINGS_PATH], ca[SETTINGS_PATH];
        struct replica_settings config;
};

struct settings {
        struct settings_list listen, tls_listen, metrics, daemons, routers, origins;
        char routers_listen[SETTINGS_WORD], routers_secret[SETTINGS_PATH];
        char certificate[SETTINGS_PATH], certificate_key[SETTINGS_PATH], log[SETTINGS_PATH], health[SETTINGS_PATH];
        char policy[SETTINGS_WORD], user[SETTINGS_WORD];
        char replica_ca[SETTINGS_PATH], replica_certificate[SETTINGS_PATH], replica_certificate_key[SETTINGS_PATH];
        bool verifies_replicas;
        uint32_t workers, queue, breaker, health_failures, connections;
        char traces[SETTINGS_TEXT];
        unsigned int retries, traces_sample; /* permille */
        nsec hold, breaker_time, first_byte, head_time, body_time, read_timeout, drain, health_every, health_timeout,
                scrape;
        bytes body, zone, log_size;

        struct replica_settings defaults;
        size_t n_replicas, n_keys, n_services;
        struct settings_replica replicas[SETTINGS_REPLICAS];
        struct settings_key keys[SETTINGS_KEYS];
        struct settings_service services[SETTINGS_SERVICES];
};

/* name and lines (NULL: not known) are for messages. 0; -EINVAL with the complaint in err. */
int route_settings_parse(const char *name, const json_t *file, const struct conf_lines *lines, struct settings *ret,
                         struct err *err);

/* From a file; also -errno. *ret is the caller's (free). */
int route_settings_read(const char *path, struct settings **ret, struct err *err);

/* Of replicas' base URLs, in place of a file. 0; -EINVAL with the complaint. */
int route_settings_of_urls(char *const *urls, size_t n, struct settings *ret, struct err *err);

/* What --listen says, in place of `listen`. 0; -EINVAL with the complaint. */
int route_settings_listen(const char *text, struct settings *settings, struct err *err);

bool route_settings_has_tls(const struct settings *settings); /* to any replica */

void route_settings_print(FILE *to); /* all rows, for people */
json_t *route_settings_rows(void);   /* the same for programs: [{"place", "key", "preset", "meaning"}] */

/* ---- address.c: where a replica is ---- */

bool route_is_url(const char *text); /* http:// or https:// */

/* HOST:PORT, unix:/PATH, or a base URL; ret without its scheme and path. False: none of these. */
bool route_address_parse(const char *text, char ret[SETTINGS_WORD], bool *ret_is_tls);

bool route_address_host(const char *address, char ret[SETTINGS_WORD]); /* false: it is a number or a path, no name */

/* A valid name of a replica: 1 to 63 of letters, digits, "_ . : -". */
bool route_settings_is_name(const char *text);
