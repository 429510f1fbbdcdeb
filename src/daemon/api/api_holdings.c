/* SPDX-License-Identifier: Apache-2.0 */
/* What of a tenant is for people to see: its processes, memory that it borrows and lends, its latest minute. */
#include "daemon/api/api.h"

#include <string.h>

/* Older shims do not say. */
static const struct control_block *saying(const struct tenant *tenant)
{
        return tenant->control && tenant->control->version >= 3 ? tenant->control : NULL;
}

/* The tenant may have chosen it: what is no plain ASCII becomes '?'. */
static void command_of(const struct control_process *process, char ret[17])
{
        uint64_t words[2] = { process->command[0], process->command[1] };

        memcpy(ret, words, sizeof(words));
        ret[16] = '\0';
        for (char *c = ret; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
}

json_t *api_holders(const struct tenant *tenant, unsigned int device)
{
        const struct control_block *control = saying(tenant);
        json_t *array = json_array();
        char command[17];

        for (size_t i = 0; control && i < CONTROL_BLOCK_PROCESSES && control->processes[i].id; i++) {
                const struct control_process *process = &control->processes[i];

                if (process->device != device)
                        continue;
                command_of(process, command);
                (void)json_array_append_new(array, json_pack("{s:i, s:s, s:I}", "pid", (int)process->id, "command",
                                                             command, "held_bytes", (json_int_t)process->held));
        }
        return array;
}

json_t *api_pid(const struct tenant *tenant)
{
        const struct control_block *control = saying(tenant);
        int least = 0;

        for (size_t i = 0; control && i < CONTROL_BLOCK_PROCESSES && control->processes[i].id; i++)
                if (!least || control->processes[i].id < least)
                        least = control->processes[i].id;
        return least ? json_integer(least) : json_null();
}

/* What `borrower` has of `lender`'s memory on the device. */
static bytes borrowed_of(const struct tenant *borrower, const struct tenant *lender, unsigned int device)
{
        const struct control_block *control = saying(borrower);
        bytes sum = 0;

        for (size_t i = 0; control && i < CONTROL_BLOCK_LOANS && control->loans[i].lender; i++)
                if (control->loans[i].lender == lender->shim && control->loans[i].device == device)
                        sum += control->loans[i].size;
        return sum;
}

json_t *api_loans(const struct daemon *daemon, const struct tenant *tenant, unsigned int device, bool is_lender)
{
        json_t *array = json_array();

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                bytes size = t == tenant || !t->shim || !tenant->shim ? 0 :
                             is_lender                                ? borrowed_of(t, tenant, device) :
                                                                        borrowed_of(tenant, t, device);

                if (size)
                        (void)json_array_append_new(
                                array, json_pack("{s:s, s:I}", "tenant", t->lease.tenant, "bytes", (json_int_t)size));
        }
        return array;
}

static json_t *minute_json(const struct tenant *tenant, unsigned int device)
{
        const struct tenant_minute *minute = tenant->minute;
        unsigned int n = !minute ? 0 : minute->n < TENANT_MINUTE ? minute->n : TENANT_MINUTE;
        json_t *array = json_array();

        for (unsigned int i = 0; i < n; i++)
                (void)json_array_append_new(array,
                                            json_integer(minute->granted[device][(minute->n - n + i) % TENANT_MINUTE]));
        return array;
}

void api_minute_put(const struct tenant *tenant, json_t *body)
{
        json_t *device;
        size_t i;

        json_array_foreach (json_object_get(body, "devices"), i, device)
                (void)json_object_set_new(
                        device, "minute_permille",
                        minute_json(tenant, (unsigned int)json_integer_value(json_object_get(device, "index"))));
}
