/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in a packet: a message or not; a request and a lease that are taken are within bounds, and are
 * the same after they were written and read again. */
#include "shim/spawner.h"

#include <stdlib.h>
#include <string.h>

static void require(int holds)
{
        if (!holds)
                abort();
}

static void check_request(const json_t *body)
{
        struct message_request request, again;
        const char *field = NULL;
        json_t *written;

        memset(&request, 0, sizeof(request));
        memset(&again, 0, sizeof(again));
        if (message_request_parse(body, &request, &field) < 0) {
                require(field != NULL);
                return;
        }
        require(request.share <= TURNS_WHOLE && request.cap >= 1 && request.cap <= TURNS_WHOLE);
        written = message_request_new(&request);
        require(written && message_request_parse(written, &again, &field) == 0);
        require(!strcmp(request.tenant, again.tenant) && !strcmp(request.mem, again.mem) &&
                request.share == again.share && request.cap == again.cap && request.class == again.class);
        json_decref(written);
}

static void check_lease(const json_t *body)
{
        struct message_lease lease, again;
        json_t *written;

        memset(&lease, 0, sizeof(lease));
        memset(&again, 0, sizeof(again));
        if (message_lease_parse(body, &lease) < 0)
                return;
        require(lease.tenant[0] && lease.share <= TURNS_WHOLE && lease.cap <= TURNS_WHOLE);
        written = message_lease_new(&lease);
        require(written && message_lease_parse(written, &again) == 0);
        require(!strcmp(lease.tenant, again.tenant) && lease.owner == again.owner && lease.id == again.id);
        require(!memcmp(lease.devices, again.devices, sizeof(lease.devices)));
        json_decref(written);
}

/* What the shims' home is asked: each descriptor is one of a shim's, none twice, and the daemon's is among them. */
static void check_start(const json_t *body, size_t n_fds)
{
        struct shim_request request;
        unsigned int seen = 0;

        if (shim_request_parse(body, n_fds, &request) < 0)
                return;
        for (size_t i = 0; i < n_fds; i++) {
                require(request.numbers[i] >= SHIM_FD_LISTENER && request.numbers[i] < SHIM_N_FDS);
                require(request.numbers[i] != SHIM_FD_LEASE && !(seen & 1u << request.numbers[i]));
                seen |= 1u << request.numbers[i];
        }
        require(seen & 1u << SHIM_FD_DAEMON && request.lease.tenant[0]);
}

static void check_mps(const json_t *body)
{
        struct mps_at at = { 0 };
        bool quits;

        if (mps_request_parse(body, &at, &quits) == 0)
                require(at.device < LEASE_DEVICES_MAX && at.uuid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *body = NULL;

        if (message_parse((const char *)data, size < MESSAGE_MAX ? size : MESSAGE_MAX, &body) < 0)
                return 0;
        require(json_is_object(body));
        check_request(body);
        check_lease(body);
        check_mps(body);
        check_lease(json_object_get(body, "lease"));
        for (size_t n = 0; n <= MESSAGE_FDS + 1; n++)
                check_start(body, n);
        json_decref(body);
        return 0;
}
