/* SPDX-License-Identifier: Apache-2.0 */
/* Any base profile: joined or refused. A joined one becomes a program, or libseccomp reports why not. */
#include "base/err.h"
#include "oci/profile.h"
#include "oci/program.h"

#include <stdint.h>
#include <stdlib.h>

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct profile_settings desired = { .listener = "/run/sublet/seccomp.sock", .metadata = "sublet/1" };
        json_t *file = json_loadb((const char *)data, size, 0, NULL), *base = NULL, *joined = NULL;
        struct sock_fprog program = { 0 };
        struct err err = { 0 };

        if (!file)
                return 0;
        if (profile_resolve(file, NULL, &base, &err) == 0) {
                if (profile_join(base, &desired, &joined, &err) == 0) {
                        if (program_make(joined, &program, &err) == 0)
                                require(program.len > 0);
                        free(program.filter);
                        json_decref(joined);
                }
                json_decref(base);
        }
        json_decref(file);
        return 0;
}
