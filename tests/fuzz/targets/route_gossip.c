/* SPDX-License-Identifier: Apache-2.0 */
/* A datagram of another router: as it comes, signed, and signed with the number that makes it count. It is refused with
 * a reason, or its values are in their range; what is written next is a whole datagram. */
#include "route/agent/gossip.h"

#include <endian.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

enum {
        MAC = 32,
        HEAD = 24,
        GREETING = 24,
};

static const char secret[] = "the secret of the routers";
static const nsec now = NSEC_PER_SEC;

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

static void put_word(unsigned char *at, uint64_t word)
{
        word = htobe64(word);
        memcpy(at, &word, sizeof(word));
}

static int read_signed(struct gossip *gossip, unsigned char *datagram, size_t size)
{
        struct gossip_blocks blocks;
        int r;

        need(gnutls_hmac_fast(GNUTLS_MAC_SHA256, secret, sizeof(secret), datagram, size, datagram + size) == 0);
        r = gossip_read(gossip, datagram, size + MAC, now, &blocks);
        need(blocks.n <= GOSSIP_BLOCKS && (r == GOSSIP_OK || !blocks.n));
        return r;
}

static void check(struct gossip *gossip, int is_heard)
{
        unsigned char out[GOSSIP_SIZE];
        struct gossip_row sum;
        size_t size;

        gossip_sum(gossip, 1, now, &sum);
        for (size_t i = 0; i < GOSSIP_VALUES; i++)
                need(sum.value[i] <= HEARD_MAX && (is_heard || !sum.value[i]));
        need(gossip_routers(gossip, now) == (is_heard ? 1 : 0));
        need(gossip_write(gossip, NULL, 0, now, out, &size) == 0 && size > 0 && size <= sizeof(out));
}

/* The router 7 says hello, and learns its number. */
static void greet(struct gossip *gossip, unsigned char ret[static GREETING])
{
        unsigned char hello[HEAD + MAC] = "SLGP\1", out[GOSSIP_SIZE];
        size_t size;

        put_word(hello + 8, 7);
        put_word(hello + 16, 1);
        need(read_signed(gossip, hello, HEAD) == GOSSIP_E_STRANGER);
        need(gossip_write(gossip, NULL, 0, now, out, &size) == 0 && size == HEAD + GREETING + MAC);
        memcpy(ret, out + 8, 8);
        put_word(ret + 8, 42);
        memcpy(ret + 16, out + HEAD + 8, 8);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        unsigned char datagram[2 * GOSSIP_SIZE];
        struct gossip_blocks blocks;
        struct gossip *gossip;

        if (size > sizeof(datagram) - MAC)
                return 0;
        need(gossip_new(secret, sizeof(secret), &gossip) == 0);
        need(gossip_read(gossip, data, size, now, &blocks) == GOSSIP_E_FOREIGN);
        check(gossip, 0);
        if (size)
                memcpy(datagram, data, size);
        need(read_signed(gossip, datagram, size) != GOSSIP_OK);
        gossip = gossip_free(gossip);

        need(gossip_new(secret, sizeof(secret), &gossip) == 0);
        if (size >= HEAD + GREETING) {
                put_word(datagram + 8, 7);
                put_word(datagram + 16, 2);
                greet(gossip, datagram + HEAD);
                check(gossip, read_signed(gossip, datagram, size) == GOSSIP_OK);
        }
        (void)gossip_free(gossip);
        return 0;
}
