/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers accept is in their range, and what the formatters write of it can be read again. */
#include "base/when.h"

#include <stdlib.h>
#include <string.h>

enum {
        TEXT_MAX = 255,
};

static void require(int holds)
{
        if (!holds)
                abort();
}

static void parse_span(const char *text)
{
        char buffer[WHEN_TEXT];
        nsec span = -1;

        if (duration_parse(text, &span) < 0) {
                require(span == -1);
                return;
        }
        require(span >= 0);
        require(strlen(duration_format(span, buffer)) < WHEN_TEXT);
}

static void parse_moment(const char *text)
{
        const nsec now = 1795233600 * NSEC_PER_SEC;
        char buffer[WHEN_TEXT];
        nsec moment = -1;

        if (since_parse(text, now, &moment) < 0) {
                require(moment == -1);
                return;
        }
        require(moment >= 0);
        require(strlen(moment_format(moment, buffer)) < WHEN_TEXT);
}

static void parse_share(const char *text)
{
        char buffer[WHEN_TEXT];
        unsigned int permille = 0, back = 0;

        if (permille_parse(text, &permille) < 0) {
                require(permille == 0);
                return;
        }
        require(permille >= 1 && permille <= 1000);
        require(permille_parse(permille_format(permille, buffer), &back) == 0 && back == permille);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char text[TEXT_MAX + 1] = { 0 };

        memcpy(text, data, size < TEXT_MAX ? size : TEXT_MAX);
        parse_span(text);
        parse_moment(text);
        parse_share(text);
        return 0;
}
