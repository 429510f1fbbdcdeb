/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/gossip.h"

#include "base/cleanup.h"
#include "route/pool.h"

#include <endian.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
        MAGIC = 0x534c4750,
        VERSION = 1,
        HEAD = 24,
        GREETING = 24,
        ROW = 8 * (1 + GOSSIP_VALUES),
        KIND_ROWS = 0,
        KIND_BLOCKS = 1,
        MAC = 32,
        TAG = 16, /* of what is encrypted */
        SECRET_MAX = 256,
        ROWS_A_DATAGRAM = (GOSSIP_SIZE - HEAD - GOSSIP_ROUTERS * GREETING - MAC) / ROW,
};

_Static_assert(ROWS_A_DATAGRAM >= 8, "a datagram carries rows");
_Static_assert(HEAD + GOSSIP_ROUTERS * GREETING + 8 * (1 + GOSSIP_BLOCKS) + TAG + MAC <= GOSSIP_SIZE, "or blocks");

struct row {
        struct gossip_row said;
        nsec at;
        uint64_t news;              /* it was put out so often since it was asked */
        uint64_t more[GOSSIP_MORE]; /* and its first values have grown by so much */
};

struct router {
        uint64_t id;    /* 0: a free slot */
        uint64_t given; /* the number made up for it here */
        uint64_t taken; /* the number that it made up for this router; 0: not known */
        uint64_t order; /* of the last one that counted, or greeted */
        nsec at;        /* of that */
        bool is_in;
        size_t n;
        struct row rows[GOSSIP_ROWS];
};

struct gossip {
        unsigned char secret[SECRET_MAX];
        size_t secret_size;
        uint64_t id, order;
        struct router routers[GOSSIP_ROUTERS];
};

static int make_up(uint64_t *ret)
{
        do
                if (getrandom(ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
                        return -errno;
        while (!*ret);
        return 0;
}

int gossip_new(const void *secret, size_t size, struct gossip **ret)
{
        _cleanup_(freep) struct gossip *gossip = calloc(1, sizeof(*gossip));
        int r;

        if (size < GOSSIP_SECRET || size > SECRET_MAX)
                return -EINVAL;
        if (!gossip)
                return -ENOMEM;
        if ((r = make_up(&gossip->id)) < 0)
                return r;
        memcpy(gossip->secret, secret, size);
        gossip->secret_size = size;
        *ret = TAKE(gossip);
        return 0;
}

struct gossip *gossip_free(struct gossip *gossip)
{
        if (gossip)
                explicit_bzero(gossip->secret, sizeof(gossip->secret));
        free(gossip);
        return NULL;
}

uint64_t gossip_name(const char *name)
{
        return pool_model_hash(name, strlen(name));
}

static int sign(const struct gossip *gossip, const unsigned char *data, size_t size, unsigned char ret[static MAC])
{
        return gnutls_hmac_fast(GNUTLS_MAC_SHA256, gossip->secret, gossip->secret_size, data, size, ret) == 0 ? 0 :
                                                                                                                -EIO;
}

static void put_word(unsigned char **at, uint64_t word)
{
        word = htobe64(word);
        memcpy(*at, &word, sizeof(word));
        *at += sizeof(word);
}

static uint64_t get_word(const unsigned char **at)
{
        uint64_t word;

        memcpy(&word, *at, sizeof(word));
        *at += sizeof(word);
        return be64toh(word);
}

/* ---- who is there -------------------------------------------------------------------------------------------- */

static void forget_silent(struct gossip *gossip, nsec now)
{
        for (size_t i = 0; i < GOSSIP_ROUTERS; i++)
                if (gossip->routers[i].id && now - gossip->routers[i].at > GOSSIP_AGE)
                        gossip->routers[i] = (struct router){ 0 };
}

static struct router *find_router(struct gossip *gossip, uint64_t id)
{
        for (size_t i = 0; i < GOSSIP_ROUTERS; i++)
                if (gossip->routers[i].id == id)
                        return &gossip->routers[i];
        return NULL;
}

/* A slot for one that is not known: a free one, or that of the one not in that was silent for longest. */
static struct router *admit(struct gossip *gossip, uint64_t id, nsec now)
{
        struct router *slot = find_router(gossip, 0);

        for (size_t i = 0; !slot && i < GOSSIP_ROUTERS; i++)
                if (!gossip->routers[i].is_in)
                        slot = &gossip->routers[i];
        for (size_t i = 0; slot && slot->id && i < GOSSIP_ROUTERS; i++)
                if (!gossip->routers[i].is_in && gossip->routers[i].at < slot->at)
                        slot = &gossip->routers[i];
        if (!slot)
                return NULL;
        *slot = (struct router){ .id = id, .at = now };
        if (make_up(&slot->given) < 0)
                slot->id = 0;
        return slot->id ? slot : NULL;
}

size_t gossip_routers(struct gossip *gossip, nsec now)
{
        size_t n = 0;

        forget_silent(gossip, now);
        for (size_t i = 0; i < GOSSIP_ROUTERS; i++)
                n += gossip->routers[i].id && gossip->routers[i].is_in;
        return n;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

static unsigned int put_greetings(const struct gossip *gossip, unsigned char **at)
{
        unsigned int n = 0;

        for (size_t i = 0; i < GOSSIP_ROUTERS; i++) {
                const struct router *router = &gossip->routers[i];

                if (!router->id)
                        continue;
                put_word(at, router->id);
                put_word(at, router->given);
                put_word(at, router->taken);
                n++;
        }
        return n;
}

/* The head, and the signature behind `end`. */
static void finish(struct gossip *gossip, unsigned int kind, unsigned int n_greetings, size_t n,
                   unsigned char data[static GOSSIP_SIZE], unsigned char *end, size_t *ret_size)
{
        unsigned char *head = data;

        put_word(&head, (uint64_t)MAGIC << 32 | VERSION << 24 | kind << 16 | n_greetings << 8 | n);
        put_word(&head, gossip->id);
        put_word(&head, ++gossip->order);
        *ret_size = sign(gossip, data, (size_t)(end - data), end) == 0 ? (size_t)(end - data) + MAC : 0;
}

size_t gossip_write(struct gossip *gossip, const struct gossip_row *rows, size_t n, nsec now,
                    unsigned char ret[static GOSSIP_SIZE], size_t *ret_size)
{
        unsigned char *at = ret + HEAD;
        unsigned int n_greetings;

        forget_silent(gossip, now);
        n = n < ROWS_A_DATAGRAM ? n : ROWS_A_DATAGRAM;
        n_greetings = put_greetings(gossip, &at);
        for (size_t i = 0; i < n; i++) {
                put_word(&at, rows[i].name);
                for (size_t k = 0; k < GOSSIP_VALUES; k++)
                        put_word(&at, rows[i].value[k] < HEARD_MAX ? rows[i].value[k] : HEARD_MAX);
        }
        finish(gossip, KIND_ROWS, n_greetings, n, ret, at, ret_size);
        return n;
}

/* In place; `size` without the tag, which comes behind. */
static int transform(const struct gossip *gossip, uint64_t sender, uint64_t order, bool is_out, unsigned char *data,
                     size_t size)
{
        unsigned char of[14] = "blocks", key[MAC], nonce[12] = { 0 }, *at = of + 6,
                      whole[8 * (1 + GOSSIP_BLOCKS) + TAG];
        const gnutls_datum_t datum = { key, sizeof(key) };
        gnutls_aead_cipher_hd_t cipher;
        size_t n = sizeof(whole);
        int r;

        put_word(&at, sender);
        at = nonce + 4;
        put_word(&at, order);
        if (sign(gossip, of, sizeof(of), key) < 0 ||
            gnutls_aead_cipher_init(&cipher, GNUTLS_CIPHER_CHACHA20_POLY1305, &datum) < 0)
                return -EIO;
        r = is_out ?
                    gnutls_aead_cipher_encrypt(cipher, nonce, sizeof(nonce), NULL, 0, TAG, data, size, whole, &n) :
                    gnutls_aead_cipher_decrypt(cipher, nonce, sizeof(nonce), NULL, 0, TAG, data, size + TAG, whole, &n);
        gnutls_aead_cipher_deinit(cipher);
        if (r == 0)
                memcpy(data, whole, n);
        return r < 0 ? -EIO : 0;
}

size_t gossip_write_blocks(struct gossip *gossip, uint64_t name, const uint64_t *blocks, size_t n, nsec now,
                           unsigned char ret[static GOSSIP_SIZE], size_t *ret_size)
{
        unsigned char *at = ret + HEAD, *body;
        unsigned int n_greetings;

        forget_silent(gossip, now);
        n = n < GOSSIP_BLOCKS ? n : GOSSIP_BLOCKS;
        n_greetings = put_greetings(gossip, &at);
        body = at;
        put_word(&at, name);
        for (size_t i = 0; i < n; i++)
                put_word(&at, blocks[i]);
        *ret_size = 0;
        if (transform(gossip, gossip->id, gossip->order + 1, true, body, (size_t)(at - body)) == 0)
                finish(gossip, KIND_BLOCKS, n_greetings, n, ret, at + TAG, ret_size);
        return n;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

struct datagram {
        uint64_t sender, order;
        unsigned int kind, n_greetings, n; /* rows, or blocks */
        const unsigned char *greetings, *body;
};

static int parse(const struct gossip *gossip, const unsigned char *data, size_t size, struct datagram *ret)
{
        const unsigned char *at = data;
        unsigned char mac[MAC];
        uint64_t head;
        size_t body;

        if (size < HEAD + MAC || size > GOSSIP_SIZE)
                return GOSSIP_E_FOREIGN;
        head = get_word(&at);
        *ret = (struct datagram){
                .kind = head >> 16 & 0xff, .n_greetings = head >> 8 & 0xff, .n = head & 0xff, .greetings = data + HEAD
        };
        ret->body = ret->greetings + (size_t)ret->n_greetings * GREETING;
        body = ret->kind == KIND_ROWS ? (size_t)ret->n * ROW : 8 * (1 + (size_t)ret->n) + TAG;
        if (head >> 24 != ((uint64_t)MAGIC << 8 | VERSION) || ret->kind > KIND_BLOCKS ||
            (ret->kind == KIND_BLOCKS && ret->n > GOSSIP_BLOCKS) ||
            size != HEAD + (size_t)ret->n_greetings * GREETING + body + MAC)
                return GOSSIP_E_FOREIGN;
        if (sign(gossip, data, size - MAC, mac) < 0 || gnutls_memcmp(mac, data + size - MAC, MAC) != 0)
                return GOSSIP_E_FOREIGN;
        ret->sender = get_word(&at);
        ret->order = get_word(&at);
        return ret->sender ? GOSSIP_OK : GOSSIP_E_FOREIGN;
}

/* What it says to this router. */
static void read_greeting(const struct gossip *gossip, const struct datagram *datagram, uint64_t *ret_given,
                          uint64_t *ret_brought)
{
        const unsigned char *at = datagram->greetings;

        *ret_given = *ret_brought = 0;
        for (unsigned int i = 0; i < datagram->n_greetings; i++) {
                uint64_t to = get_word(&at), given = get_word(&at), brought = get_word(&at);

                if (to == gossip->id) {
                        *ret_given = given;
                        *ret_brought = brought;
                }
        }
}

static struct row *row_of(struct router *router, uint64_t name, bool is_new)
{
        for (size_t i = 0; i < router->n; i++)
                if (router->rows[i].said.name == name)
                        return &router->rows[i];
        if (!is_new || router->n == GOSSIP_ROWS)
                return NULL;
        router->rows[router->n] = (struct row){ 0 };
        return &router->rows[router->n++];
}

static void drop_old_rows(struct router *router, nsec now)
{
        for (size_t i = router->n; i-- > 0;)
                if (now - router->rows[i].at > GOSSIP_AGE)
                        router->rows[i] = router->rows[--router->n];
}

static void take_rows(struct router *router, const struct datagram *datagram, nsec now)
{
        const unsigned char *at = datagram->body;

        drop_old_rows(router, now);
        for (unsigned int i = 0; i < datagram->n; i++) {
                struct gossip_row said = { .name = get_word(&at) };
                struct row *row = row_of(router, said.name, true);
                uint64_t before = row && row->at ? row->said.value[GOSSIP_TRIPS] : UINT64_MAX;
                struct gossip_row was = row && row->at ? row->said : (struct gossip_row){ 0 };

                for (size_t k = 0; k < GOSSIP_VALUES; k++) {
                        said.value[k] = get_word(&at);
                        said.value[k] = said.value[k] < HEARD_MAX ? said.value[k] : HEARD_MAX;
                }
                if (!row)
                        continue;
                row->news += said.value[GOSSIP_TRIPS] > before;
                for (size_t k = 0; k < GOSSIP_MORE; k++)
                        row->more[k] += row->at && said.value[k] > was.value[k] ? said.value[k] - was.value[k] : 0;
                row->said = said;
                row->at = now;
        }
}

static int open_blocks(const struct gossip *gossip, const struct datagram *datagram, struct gossip_blocks *ret)
{
        unsigned char body[8 * (1 + GOSSIP_BLOCKS) + TAG];
        const unsigned char *at = body;
        size_t size = 8 * (1 + (size_t)datagram->n);

        memcpy(body, datagram->body, size + TAG);
        if (transform(gossip, datagram->sender, datagram->order, false, body, size) < 0)
                return GOSSIP_E_FOREIGN;
        ret->name = get_word(&at);
        ret->n = datagram->n;
        for (size_t i = 0; i < ret->n; i++)
                ret->block[i] = get_word(&at);
        return GOSSIP_OK;
}

int gossip_read(struct gossip *gossip, const void *data, size_t size, nsec now, struct gossip_blocks *ret)
{
        struct gossip_blocks blocks;
        struct datagram datagram;
        uint64_t given, brought;
        struct router *router;
        int r = parse(gossip, data, size, &datagram);

        ret->n = 0;
        if (r)
                return r;
        if (datagram.sender == gossip->id)
                return GOSSIP_E_OWN;
        /* Opened before anything is noted: one that does not open changes nothing (G1). */
        if (datagram.kind == KIND_BLOCKS && (r = open_blocks(gossip, &datagram, &blocks)))
                return r;
        forget_silent(gossip, now);
        router = find_router(gossip, datagram.sender);
        router = router ? router : admit(gossip, datagram.sender, now);
        if (!router)
                return GOSSIP_E_FULL;
        read_greeting(gossip, &datagram, &given, &brought);
        if (datagram.order <= router->order)
                return GOSSIP_E_OLD;
        router->order = datagram.order;
        router->taken = given ? given : router->taken;
        if (brought == router->given)
                router->is_in = true;
        else if (router->is_in)
                return GOSSIP_E_STRANGER; /* it forgot this router, and is greeted by the next datagram */
        router->at = now;
        if (!router->is_in)
                return GOSSIP_E_STRANGER;
        if (datagram.kind == KIND_BLOCKS)
                *ret = blocks;
        else
                take_rows(router, &datagram, now);
        return GOSSIP_OK;
}

void gossip_sum(struct gossip *gossip, uint64_t name, nsec now, struct gossip_row *ret)
{
        *ret = (struct gossip_row){ .name = name };
        forget_silent(gossip, now);
        for (size_t i = 0; i < GOSSIP_ROUTERS; i++) {
                struct router *router = &gossip->routers[i];
                struct row *row = router->is_in ? row_of(router, name, false) : NULL;

                if (!row || now - row->at > GOSSIP_AGE)
                        continue;
                for (size_t k = 0; k < GOSSIP_TRIPS; k++)
                        ret->value[k] += row->said.value[k];
                ret->value[GOSSIP_TRIPS] += row->news;
                row->news = 0;
        }
}

uint64_t gossip_more(struct gossip *gossip, uint64_t name, size_t which, nsec now)
{
        uint64_t n = 0;

        forget_silent(gossip, now);
        for (size_t i = 0; i < GOSSIP_ROUTERS; i++) {
                struct row *row = gossip->routers[i].is_in ? row_of(&gossip->routers[i], name, false) : NULL;

                n += row ? row->more[which] : 0;
                if (row)
                        row->more[which] = 0;
        }
        return n;
}
