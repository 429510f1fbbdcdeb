/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet route CONFIG`: keeps nginx running with our module, and keeps the module informed about the replicas.
 *
 *      agent.c     set-up, the loop, signals
 *      file.c      the settings: at the start, and when their file changes
 *      replicas.c  the list of replicas;  names.c  their names' addresses
 *      process.c   nginx: start, adopt, reload, end; the request log;  orphans.c  what a killed nginx left
 *      ports.c     which ports are taken
 *      sync.c      the module's API: reads its state, sends it what changed
 *      health.c    health, models and metrics of each replica
 *      sleep.c     waking and putting to sleep
 *      tenants.c   shares and suspensions, from Sublet daemons
 *      routers.c    other routers before the same replicas;  gossip.c  what they say to each other
 *      traces.c     spans of requests, for a collector
 *      kube_watch.c  endpoints of Kubernetes services
 *
 * One thread, one loop. Every part has a tick, which starts the calls that are due and requests its next tick with
 * agent_due. The answers of calls are stored in the fleet (fleet.h).
 */
#pragma once

#include "net/http/client.h"
#include "route/agent/fleet.h"
#include "route/settings/settings.h"

#include <sys/types.h>

struct err;
struct kube;
struct routers;
struct traces;

struct agent_options {
        const char *config, *dir, *module, *tls; /* config NULL: of urls; tls: "CERT:KEY" */
        const char *listen;                      /* in place of what the file says; NULL: that */
        char *const *urls;
        size_t n_urls;
        bool is_check; /* check the configuration, start nothing */
};

struct agent_daemon {
        struct agent *agent;
        char base[SETTINGS_WORD];
        struct http_pool_call *call, *vow; /* its tenants; that we wake some of them */
        nsec at, vow_at;
        bool is_silent;
};

struct agent {
        const struct agent_options *options;
        struct settings *settings;
        struct http_pool *http;
        struct fleet fleet;
        nsec now, next;
        int signals; /* signalfd */
        int wake;    /* epoll: the signals, and what routers.c and traces.c hear */
        bool is_ending, must_end;

        char dir[SETTINGS_PATH], module[SETTINGS_PATH], api[SETTINGS_PATH + 32];
        pid_t nginx;
        bool is_adopted;
        unsigned int n_starts;
        nsec start_at, started_at, log_at;
        char *conf; /* text of nginx.conf that nginx runs with */

        struct settings *fresh; /* read from the file, while nginx tests what was made of them; else NULL */
        char *fresh_conf;       /* that */
        pid_t tester;           /* the nginx that does it; 0: none */
        nsec test_by;
        bool must_reread; /* the file changed meanwhile */

        char epoch[40];
        nsec order; /* of the last change that was sent to the module */
        long long serial;
        bool has_state;
        bool knows_settings; /* or is being told */
        bool is_complete;    /* all replicas were told to the module of this epoch */
        struct http_pool_call *state, *setting;
        nsec state_at, settings_at;

        struct agent_daemon daemons[SETTINGS_LIST];
        size_t n_daemons;
        struct kube *kubes[SETTINGS_SERVICES];
        struct routers *routers; /* NULL: there are no others */
        struct traces *traces;   /* NULL: there is no collector */

        nsec file_at;
        long long file_stamp[3];
};

int agent_run(const struct agent_options *options, struct err *err);

void agent_due(struct agent *agent, nsec at);    /* the next tick is at that time, or earlier */
bool agent_is_due(struct agent *agent, nsec at); /* that time has come; if not, the next tick is then */
void agent_log(const struct agent *agent, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef void agent_done(void *context, const struct http_answer *answer);

json_t *agent_json(const struct http_answer *answer); /* the body of a success; the caller's. NULL: none */

/* Starts a call without a line handler, as http_pool_start; body NULL: none. */
int agent_call(struct agent *agent, const char *method, const char *base, const char *path, const char *body,
               nsec limit, agent_done *done, void *context, struct http_pool_call **slot);

/* The same to a replica, by TLS where it wants that. */
int agent_call_replica(struct fleet_replica *replica, const char *method, const char *path, const char *body,
                       nsec limit, agent_done *done, struct http_pool_call **slot);

/* Lists a replica of a source; a new one is created. NULL: there are too many (logged), or another source has it. */
struct fleet_replica *agent_replica(struct agent *agent, const char *name, const char *address, int origin,
                                    const struct replica_settings *config);
void agent_moved(struct agent *agent, struct fleet_replica *replica);  /* another process may answer now */
void agent_unlist(struct agent *agent, int origin);                    /* before listing them again */
void agent_forget(struct agent *agent, struct fleet_replica *replica); /* cancels its calls, removes it */

/* file.c */
int file_begin(struct agent *agent, struct err *err); /* reads agent->settings */
void file_list(struct agent *agent);                  /* their replicas */
void file_reread(struct agent *agent);
void file_tested(struct agent *agent, int status); /* agent->tester has ended */
void file_tick(struct agent *agent);

/* nginx reads paths relative to its own directory, the agent relative to where it was started. 0; -errno. */
int file_absolute(char *path, size_t size, struct err *err);

/* process.c */
enum {
        PROCESS_SAME,
        PROCESS_TESTING,
};
int process_start(struct agent *agent, struct err *err); /* configuration, test, start or adopt */

/* Has nginx test what it would run with under these settings, which stay the caller's. PROCESS_SAME: with what it runs
 * already. PROCESS_TESTING: process_tested is to be called with how agent->tester ended. */
int process_test(struct agent *agent, const struct settings *settings, struct err *err);
int process_tested(struct agent *agent, int status, struct err *err); /* 0: nginx takes it up; -EINVAL: it refuses it */
void process_ended(struct agent *agent, int status);                  /* nginx was reaped */
void process_end(struct agent *agent, bool is_now);
void process_tick(struct agent *agent);
int process_spawn(char *const argv[], char *const env[], pid_t *ret);

/* orphans.c */
#define NGINX "/usr/sbin/nginx"
size_t orphans_quit(const struct agent *agent); /* how many there were */

/* ports.c */
int ports_permitted(const struct settings *settings, struct err *err); /* -EACCES: names one for root only */
int ports_check(const struct settings *settings, struct err *err);     /* -EADDRINUSE: names one that is taken */

/* names.c */
void names_set(struct agent *agent, struct fleet_replica *replica); /* its address is another */
void names_list(
        struct agent *agent); /* after file_list: the addresses of names that are listed no more, or otherwise */
void names_tick(struct agent *agent);
void names_drop(struct fleet_replica *replica);

/* sync.c */
void sync_tick(struct agent *agent);

/* A call of the module's API that changes something; as agent_call. The path has no query. */
void sync_change(struct agent *agent, const char *method, const char *path, const char *body, nsec limit,
                 agent_done *done, void *context, struct http_pool_call **slot);

/* health.c */
void health_tick(struct agent *agent);

/* sleep.c */
void sleep_tick(struct agent *agent);
void sleep_reaped(struct agent *agent, pid_t pid, int status);
void sleep_wanted(struct agent *agent, struct fleet_replica *replica); /* a request waits for this replica */

/* tenants.c */
void tenants_set(struct agent *agent);
void tenants_tick(struct agent *agent);
int tenants_order(struct agent *agent, struct fleet_replica *replica, bool is_suspend, agent_done *done);

/* routers.c */
int routers_check(const struct settings *settings, struct err *err); /* the secret can be read, and is long enough */
int routers_set(struct agent *agent, struct err *err); /* as agent->settings say. -errno: there are none */
void routers_tick(struct agent *agent);
void routers_hear(struct agent *agent); /* what has arrived: between the ticks, too */
void routers_done(struct agent *agent);

/* traces.c */
int traces_set(struct agent *agent, struct err *err); /* as agent->settings say. -errno: there are none */
void traces_tick(struct agent *agent);
void traces_hear(struct agent *agent); /* what nginx has logged: between the ticks, too */
void traces_done(struct agent *agent);

/* kube_watch.c */
int kube_set(struct agent *agent, struct err *err);
void kube_tick(struct agent *agent);
void kube_done(struct agent *agent);
bool kube_is_listed(const struct agent *agent); /* each service was listed once */
