/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other routers before the same replicas. Ten times a second the module is told what the others have there, says what
 * it has itself (PUT /v1/routers), and that goes to all of them by UDP (gossip.h). So what one router does is in the
 * decisions of the others 0.1 to 0.3 s later, and what a silent one said is forgotten after GOSSIP_AGE, here and, if
 * this agent is gone, in the module. With it go the blocks of prompts that were sent, for the others' index: once.
 *
 * A router says nothing while its nginx does not answer: it has nothing at the replicas then.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "route/agent/gossip.h"
#include "route/agent/routers/keys.h"
#include "route/routers/news.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        EVERY_MSEC = 100,
        ADDRESSES = 8,        /* of one name */
        DATAGRAMS_MAX = 4096, /* read at once; those of 16 routers are 80, and one or two for each of their requests */
        BLOCKS_MAX = 256,     /* datagrams of blocks that the module is told at once; the rest is lost */
        BUFFER = 4 << 20,     /* of the socket; the kernel's bound may be lower */
        SECRET_MAX = 256,
};

static const nsec CALL_LIMIT = NSEC_PER_SEC, NAMES_AGAIN = 5 * NSEC_PER_SEC;

/* glibc's threads write here until the lookup is over. */
struct search {
        struct gaicb call;
        struct gaicb *list[1];
        struct addrinfo hints;
        char host[SETTINGS_WORD], port[8];
};

struct place {
        struct search *search; /* under way, or NULL */
        nsec search_at;
        size_t n;
        struct sockaddr_storage at[ADDRESSES];
        socklen_t size[ADDRESSES];
};

struct routers {
        struct settings_list list;
        char listen[SETTINGS_WORD], secret[SETTINGS_PATH];
        int fd;
        struct gossip *gossip;
        struct place places[SETTINGS_LIST];
        size_t n_heard;
        nsec at;
        json_t *blocks; /* heard, and not told to the module */
        struct http_pool_call *call;
};

/* ---- set-up -------------------------------------------------------------------------------------------------- */

static int read_secret(const char *path, unsigned char ret[static SECRET_MAX + 2], size_t *ret_size, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, SECRET_MAX + 2);

        if (n < 0)
                return err_set(err, -errno, "routers_secret: %s", path);
        if (n > 0 && ret[n - 1] == '\n')
                n--;
        *ret_size = (size_t)n;
        if (n < GOSSIP_SECRET || n > SECRET_MAX)
                return err_say(err, -EINVAL, "routers_secret: %s: expected 16 to 256 bytes (openssl rand -hex 32)",
                               path);
        return 0;
}

int routers_check(const struct settings *settings, struct err *err)
{
        unsigned char secret[SECRET_MAX + 2];
        size_t size;
        int r;

        if (!settings->routers.n)
                return 0;
        r = read_secret(settings->routers_secret, secret, &size, err);
        explicit_bzero(secret, sizeof(secret));
        return r;
}

/* "HOST:PORT" and "[ADDRESS]:PORT", as the settings were checked. */
static void split(const char *text, char host[SETTINGS_WORD], char port[8])
{
        const char *colon = strrchr(text, ':');
        size_t n = (size_t)(colon - text), skip = *text == '[' && n > 2 ? 1 : 0;

        (void)snprintf(host, SETTINGS_WORD, "%.*s", (int)(n - 2 * skip), text + skip);
        (void)snprintf(port, 8, "%s", colon + 1);
}

static int open_socket(const char *listen, struct err *err)
{
        const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
        _cleanup_(closep) int fd = -1;
        struct addrinfo *found = NULL;
        char host[SETTINGS_WORD], port[8];
        int r;

        split(listen, host, port);
        r = getaddrinfo(host, port, &hints, &found);
        if (r != 0)
                return err_say(err, -EINVAL, "routers_listen: %s: %s: expected a number, such as 0.0.0.0:%s", listen,
                               gai_strerror(r), port);
        fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0)
                (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ BUFFER }, sizeof(int));
        r = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 ? -errno : 0;
        freeaddrinfo(found);
        return r < 0 ? err_set(err, r, "routers_listen: %s", listen) : TAKE_FD(fd);
}

static void drop_search(struct search *search)
{
        if (!search || (gai_cancel(&search->call) == EAI_NOTCANCELED && gai_error(&search->call) == EAI_INPROGRESS))
                return; /* glibc still writes there */
        if (gai_error(&search->call) == 0 && search->call.ar_result)
                freeaddrinfo(search->call.ar_result);
        free(search);
}

void routers_done(struct agent *agent)
{
        struct routers *routers = TAKE(agent->routers);

        if (!routers)
                return;
        http_pool_cancel(agent->http, routers->call);
        for (size_t i = 0; i < routers->list.n; i++)
                drop_search(routers->places[i].search);
        if (routers->fd >= 0)
                (void)close(routers->fd);
        (void)gossip_free(routers->gossip);
        json_decref(routers->blocks);
        free(routers);
}

static int begin(struct agent *agent, struct routers *routers, struct err *err)
{
        const struct settings *settings = agent->settings;
        unsigned char secret[SECRET_MAX + 2];
        size_t size = 0;
        int r;

        routers->list = settings->routers;
        memcpy(routers->listen, settings->routers_listen, sizeof(routers->listen));
        memcpy(routers->secret, settings->routers_secret, sizeof(routers->secret));
        if ((r = read_secret(routers->secret, secret, &size, err)) < 0)
                return r;
        r = gossip_new(secret, size, &routers->gossip);
        explicit_bzero(secret, sizeof(secret));
        if (r < 0)
                return err_set(err, r, "routers");
        routers->blocks = json_array();
        routers->fd = open_socket(routers->listen, err);
        if (routers->fd < 0)
                return routers->fd;
        r = epoll_ctl(agent->wake, EPOLL_CTL_ADD, routers->fd, &(struct epoll_event){ .events = EPOLLIN });
        return r < 0 ? err_set(err, -errno, "routers_listen: %s", routers->listen) : 0;
}

int routers_set(struct agent *agent, struct err *err)
{
        const struct settings *settings = agent->settings;
        const struct routers *now = agent->routers;
        int r;

        if (now && !memcmp(&now->list, &settings->routers, sizeof(now->list)) &&
            !strcmp(now->listen, settings->routers_listen) && !strcmp(now->secret, settings->routers_secret))
                return 0;
        routers_done(agent);
        if (!settings->routers.n || agent->options->is_check)
                return 0;
        agent->routers = calloc(1, sizeof(*agent->routers));
        if (!agent->routers)
                return err_set(err, -ENOMEM, "routers");
        agent->routers->fd = -1;
        r = begin(agent, agent->routers, err);
        if (r < 0)
                routers_done(agent);
        return r;
}

/* ---- where they are ------------------------------------------------------------------------------------------ */

static void take_addresses(struct place *place, const struct addrinfo *found)
{
        place->n = 0;
        for (; found && place->n < ADDRESSES; found = found->ai_next) {
                if (found->ai_addrlen > sizeof(place->at[0]))
                        continue;
                memcpy(&place->at[place->n], found->ai_addr, found->ai_addrlen);
                place->size[place->n++] = found->ai_addrlen;
        }
}

static void begin_search(struct place *place, const char *text)
{
        struct search *search = calloc(1, sizeof(*search));

        if (!search)
                return;
        split(text, search->host, search->port);
        search->hints = (struct addrinfo){ .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV };
        search->call.ar_name = search->host;
        search->call.ar_service = search->port;
        search->call.ar_request = &search->hints;
        search->list[0] = &search->call;
        if (getaddrinfo_a(GAI_NOWAIT, search->list, 1, NULL) == 0)
                place->search = search;
        else
                free(search);
}

/* While a name does not resolve, its last addresses stand. */
static void look_up(struct agent *agent, struct place *place, const char *text)
{
        int code = place->search ? gai_error(&place->search->call) : EAI_INPROGRESS;

        if (place->search && code != EAI_INPROGRESS) {
                if (code == 0)
                        take_addresses(place, place->search->call.ar_result);
                drop_search(TAKE(place->search));
        } else if (!place->search && agent->now >= place->search_at) {
                place->search_at = agent->now + NAMES_AGAIN;
                begin_search(place, text);
        }
}

/* ---- what is said and heard ---------------------------------------------------------------------------------- */

static void keep_blocks(struct routers *routers, const struct fleet *fleet, const struct gossip_blocks *heard)
{
        json_t *list = json_array();
        size_t i = 0;

        for (size_t k = 0; k < heard->n; k++)
                (void)json_array_append_new(list, json_integer((json_int_t)heard->block[k]));
        while (i < fleet->n && gossip_name(fleet->at[i]->name) != heard->name)
                i++;
        if (i < fleet->n && json_array_size(routers->blocks) < BLOCKS_MAX)
                (void)json_array_append_new(routers->blocks,
                                            json_pack("{ss sO}", "name", fleet->at[i]->name, "blocks", list));
        json_decref(list);
}

void routers_hear(struct agent *agent)
{
        struct routers *routers = agent->routers;
        unsigned char datagram[GOSSIP_SIZE + 1];
        struct gossip_blocks blocks;
        size_t count;
        ssize_t n;

        if (!routers)
                return;
        for (int i = 0; i < DATAGRAMS_MAX; i++) {
                n = recv(routers->fd, datagram, sizeof(datagram), 0);
                if (n < 0 && errno == EAGAIN)
                        break;
                if (n > 0 && !gossip_read(routers->gossip, datagram, (size_t)n, agent->now, &blocks) && blocks.n)
                        keep_blocks(routers, &agent->fleet, &blocks);
        }
        count = gossip_routers(routers->gossip, agent->now);
        if (count != routers->n_heard)
                agent_log(agent, "%zu other router%s heard", count, count == 1 ? " is" : "s are");
        routers->n_heard = count;
}

static void send_to_all(struct routers *routers, const unsigned char *datagram, size_t size)
{
        for (size_t i = 0; i < routers->list.n; i++)
                for (size_t k = 0; size && k < routers->places[i].n; k++)
                        (void)sendto(routers->fd, datagram, size, MSG_NOSIGNAL,
                                     (const struct sockaddr *)&routers->places[i].at[k], routers->places[i].size[k]);
}

static void say_rows(struct routers *routers, const struct gossip_row *rows, size_t n, nsec now)
{
        unsigned char datagram[GOSSIP_SIZE];
        size_t size, done = 0;

        do {
                done += gossip_write(routers->gossip, rows + done, n - done, now, datagram, &size);
                send_to_all(routers, datagram, size);
        } while (done < n);
}

/* The module's pieces are smaller than a datagram: those of one request go together. */
static void say_blocks(struct routers *routers, const json_t *list, nsec now)
{
        unsigned char datagram[GOSSIP_SIZE];
        uint64_t blocks[GOSSIP_BLOCKS];
        size_t n = 0, size;

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *entry = json_array_get(list, i), *hashes = json_object_get(entry, "blocks"), *one;
                const char *name = json_string_value(json_object_get(entry, "name")),
                           *next = json_string_value(json_object_get(json_array_get(list, i + 1), "name"));
                size_t k;

                json_array_foreach (hashes, k, one) {
                        if (n < GOSSIP_BLOCKS)
                                blocks[n++] = (uint64_t)json_integer_value(one);
                }
                if (name && n && (!next || strcmp(name, next) != 0 || n + NEWS_BLOCKS > GOSSIP_BLOCKS)) {
                        (void)gossip_write_blocks(routers->gossip, gossip_name(name), blocks, n, now, datagram, &size);
                        send_to_all(routers, datagram, size);
                        n = 0;
                }
        }
}

static void read_row(const struct agent *agent, const json_t *entry, struct gossip_row *ret)
{
        const char *name = json_string_value(json_object_get(entry, "name"));
        const struct fleet_replica *replica = name ? fleet_find(&agent->fleet, name) : NULL;

        ret->name = gossip_name(name ? name : "");
        for (int i = 0; i < HEARD_N; i++)
                ret->value[i] = (uint64_t)json_integer_value(json_object_get(entry, HEARD_NAMES[i]));
        ret->value[GOSSIP_TRIPS] =
                (uint64_t)json_integer_value(json_object_get(entry, "trips")) + (replica ? replica->n_downs : 0);
}

static void on_told(void *context, const struct http_answer *answer)
{
        struct agent *agent = context;
        struct routers *routers = agent->routers;
        struct gossip_row rows[FLEET_MAX + SETTINGS_KEYS];
        json_t *root = agent_json(answer);
        const json_t *list = json_object_get(root, "replicas");
        size_t n = json_array_size(list) < FLEET_MAX ? json_array_size(list) : FLEET_MAX;

        routers->call = NULL;
        for (size_t i = 0; i < n; i++)
                read_row(agent, json_array_get(list, i), &rows[i]);
        n += routers_read_keys(json_object_get(root, "keys"), rows + n);
        for (size_t i = 0; json_is_array(list) && i < agent->fleet.n; i++)
                agent->fleet.at[i]->must_trip = false; /* one call at a time: it was told what was heard */
        if (json_is_array(list))
                say_rows(routers, rows, n, agent->now);
        say_blocks(routers, json_object_get(root, "blocks"), agent->now);
        json_decref(root);
}

static json_t *sum_of(struct agent *agent, struct fleet_replica *replica)
{
        json_t *entry = json_pack("{ss}", "name", replica->name);
        struct gossip_row sum;

        gossip_sum(agent->routers->gossip, gossip_name(replica->name), agent->now, &sum);
        for (int i = 0; i < HEARD_N; i++)
                (void)json_object_set_new(entry, HEARD_NAMES[i], json_integer((json_int_t)sum.value[i]));
        if (sum.value[HEARD_INFLIGHT] || sum.value[HEARD_SENT] != replica->sent_elsewhere)
                replica->idle_since = agent->now; /* it may be put to sleep by any router: when none uses it */
        replica->sent_elsewhere = sum.value[HEARD_SENT];
        replica->must_trip |= sum.value[GOSSIP_TRIPS] > 0;
        if (replica->must_trip)
                (void)json_object_set_new(entry, "tripped", json_true());
        return entry;
}

static void tell_module(struct agent *agent, struct routers *routers)
{
        json_t *list = json_array(), *body;
        char *text;

        for (size_t i = 0; i < agent->fleet.n; i++)
                (void)json_array_append_new(list, sum_of(agent, agent->fleet.at[i]));
        body = json_pack("{si sI so so so}", "routers", (int)routers->n_heard, "keep_ms",
                         (json_int_t)(GOSSIP_AGE / NSEC_PER_MSEC), "replicas", list, "keys",
                         routers_keys(agent->settings, routers->gossip, agent->now), "blocks", TAKE(routers->blocks));
        routers->blocks = json_array();
        text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        if (text)
                sync_change(agent, "PUT", "/v1/routers", text, CALL_LIMIT, on_told, agent, &routers->call);
        free(text);
        json_decref(body);
}

void routers_tick(struct agent *agent)
{
        struct routers *routers = agent->routers;

        if (!routers || !agent_is_due(agent, routers->at))
                return;
        routers->at = agent->now + EVERY_MSEC * NSEC_PER_MSEC;
        agent_due(agent, routers->at);
        for (size_t i = 0; i < routers->list.n; i++)
                look_up(agent, &routers->places[i], routers->list.at[i]);
        routers_hear(agent);
        if (agent->has_state && !routers->call)
                tell_module(agent, routers);
}
