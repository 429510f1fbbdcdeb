/* SPDX-License-Identifier: Apache-2.0 */
/* A record: bounded rows, whatever the text; and what is read is a record again when it is written. */
#include "base/err.h"
#include "record/record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct record record;
        struct err err = { 0 };
        char text[RECORD_MEANING_MAX];
        int r = record_parse((const char *)data, size, &record, &err);

        require(r == 0 || (r < 0 && err.text[0]));
        require(record.n_rows <= RECORD_ROWS_MAX && memchr(record.release, 0, sizeof(record.release)));
        for (size_t i = 0; i < record.n_rows; i++) {
                const struct gate_call *call = &record.rows[i].call;

                require(call->kind <= RM_N_KINDS && (call->outcome == GATE_LACKS || !call->needs));
                require(strlen(record_meaning(call->kind, call->number, text)) < sizeof(text));
                require(record_name(call->kind, call->number) != NULL);
        }
        record_done(&record);
        return 0;
}
