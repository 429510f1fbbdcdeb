/* SPDX-License-Identifier: Apache-2.0 */
/* Names of leases, and which of them have expired: the pure part of plugin_leases.h. */
#include "kube/plugin/plugin_leases.h"

#include "kube/plugin/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define YOUNG (60 * NSEC_PER_SEC) /* L2 */
#define FRESH (10 * NSEC_PER_SEC) /* L3 */

/* FNV-1a with a final mix, because the hashes are summed. */
static uint64_t hash_text(const char *text)
{
        uint64_t hash = 0xcbf29ce484222325;

        for (; *text; text++)
                hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
        hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
        return hash ^ hash >> 33;
}

uint64_t leases_hash(const char *resource, const char *const *ids, size_t n_ids)
{
        uint64_t sum = hash_text(resource);

        for (size_t i = 0; i < n_ids; i++)
                sum += hash_text(ids[i]);
        return sum;
}

void leases_name_format(struct leases_name name, char ret[static LEASES_NAME])
{
        (void)snprintf(ret, LEASES_NAME, "k8s-%016" PRIx64 "-%016" PRIx64, name.ids, (uint64_t)name.since);
}

int leases_name_parse(const char *text, struct leases_name *ret)
{
        struct leases_name name = { 0 };
        char again[LEASES_NAME];
        uint64_t since = 0;

        if (sscanf(text, "k8s-%16" SCNx64 "-%16" SCNx64, &name.ids, &since) != 2 || since > INT64_MAX)
                return -EINVAL;
        name.since = (nsec)since;
        leases_name_format(name, again);
        if (strcmp(text, again) != 0)
                return -EINVAL;
        *ret = name;
        return 0;
}

static bool has_any(const struct checkpoint_row *row, const struct plugin_lease_request *asked)
{
        for (size_t i = 0; i < row->n_ids; i++)
                for (size_t k = 0; k < asked->n_ids; k++)
                        if (!strcmp(row->ids[i], asked->ids[k]))
                                return true;
        return false;
}

bool leases_is_expired(const struct leases_name *list, size_t at, const struct checkpoint *checkpoint,
                       const struct plugin_lease_request *asked, nsec now)
{
        nsec age = now > list[at].since ? now - list[at].since : 0;
        size_t n_newer = 0, n_rows = 0;
        bool is_reused = false;

        for (size_t i = 0; i < at; i++)
                n_newer += list[i].ids == list[at].ids;
        for (size_t i = 0; i < checkpoint->n_rows; i++) {
                const struct checkpoint_row *row = &checkpoint->rows[i];

                if (leases_hash(row->resource, row->ids, row->n_ids) != list[at].ids)
                        continue;
                n_rows++;
                is_reused = is_reused || (asked && !strcmp(row->resource, asked->resource) && has_any(row, asked));
        }
        return (age >= YOUNG && n_newer >= n_rows) || (age >= FRESH && is_reused);
}
