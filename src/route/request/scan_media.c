/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A medium becomes a part of the prompt when its part of the message has ended: what says which content it is, may come
 * behind its address (`uuid`, by which engines that take one know it, too).
 */
#include "route/request/scan_inside.h"

static void put_medium(struct scan *scan)
{
        if (scan->is_medium_due) {
                media_put(scan->prefix, scan->has_mark ? media_hash(&scan->mark) : scan->medium_hash,
                          scan->medium_tokens);
                prefix_text(scan->prefix, SCAN_SEPARATOR, 1);
        }
        scan->is_medium_due = scan->has_mark = false;
}

void scan_part_begin(struct scan *scan)
{
        scan->is_medium_due = scan->has_mark = scan->has_media_key = false;
}

bool scan_media_key(struct scan *scan)
{
        return scan->has_media_key = true;
}

static void due(struct scan *scan, uint64_t hash, enum media_kind kind)
{
        scan->n_media++;
        scan->medium_hash = hash;
        scan->medium_tokens = media_tokens(scan->family, kind, scan->medium.width, scan->medium.height);
        scan->is_medium_due = true;
}

/* A part that does not say what it is, is a picture if it has a picture's size. */
void scan_media_done(struct scan *scan)
{
        enum media_kind kind = (enum media_kind)scan->kind;

        if (scan->action == MARK) {
                scan->has_mark = scan->mark.n_text || scan->mark.n_piece;
                return;
        }
        if (scan->is_medium_due) /* a second one in the same part */
                put_medium(scan);
        due(scan, media_hash(&scan->medium), kind == MEDIA_OTHER && scan->medium.width ? MEDIA_IMAGE : kind);
}

/* One that the engine has already is only named: its address is null. */
void scan_part_end(struct scan *scan)
{
        if (scan->has_mark && scan->has_media_key && !scan->is_medium_due) {
                media_begin(&scan->medium);
                due(scan, 0, (enum media_kind)scan->kind);
                scan->has_prompt = true;
        }
        put_medium(scan);
        scan->has_media_key = false;
}
