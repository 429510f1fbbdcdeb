/* SPDX-License-Identifier: Apache-2.0 */
/* Labels, as text and as an object of a message: what is good is the same after it was written and read again, and what
 * an object gives is good. */
#include "wire/labels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
        TEXT_MAX = 2048,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

static void check_text(const char *text)
{
        char added[LABELS_TEXT] = "", again[LABELS_TEXT];
        bool is_good = labels_are_good(text);
        json_t *object = labels_new(text); /* of what is not good, too: it ends */

        need(json_is_object(object) && json_object_size(object) <= TEXT_MAX);
        if (is_good) {
                need(strlen(text) < LABELS_TEXT && json_object_size(object) <= LABELS_MOST);
                need(labels_read(object, again) && !strcmp(text, again));
        }
        json_decref(object);
        if (labels_add(added, text) == 0)
                need(!strcmp(added, text) && labels_are_good(added) && labels_add(added, text) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char text[TEXT_MAX], read[LABELS_TEXT];
        json_t *object = json_loadb((const char *)data, size, 0, NULL);

        if (labels_read(object, read))
                need(strlen(read) < LABELS_TEXT && labels_are_good(read));
        json_decref(object);
        size = size < TEXT_MAX ? size : TEXT_MAX - 1;
        memcpy(text, data, size);
        text[size] = '\0';
        check_text(text);
        return 0;
}
