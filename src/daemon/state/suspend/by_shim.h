/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of suspending a tenant that its shim goes by itself, by copies (gate/move/move.h), beside the one of the
 * driver's checkpoints, which a helper goes. suspend.c decides which, and what follows.
 *
 *      K1  while memory is away, and from before it leaves, the scheduler keeps the tenant's channels off (is_held);
 *      K2  which way it was is in the control block, so that the next daemon brings it back the same way;
 *      K3  no two ways have one serial, whichever daemons ask: what answers the daemon before is no answer to this one.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Whether copies are to be tried: the settings want it, and the shim knows them. */
bool by_shim_is_tried(const struct daemon *daemon, const struct tenant *tenant);

/* That is how it was suspended, or is about to be. */
bool by_shim_is_so(const struct tenant *tenant);

/* Asks the shim. 0; -errno. */
int by_shim_start(struct daemon *daemon, struct tenant *tenant, bool suspends);

/* What became of a way, in the shim's word: docs/messages.md, `moved`. Another word is as "as-before". */
enum suspension_input by_shim_outcome(const char *outcome);

/* What the shim's answer says of the way, for people: into BY_SHIM_HOW bytes. */
void by_shim_how(const json_t *body, char *text);

/* The tenant runs, or another way is gone: its channels are the scheduler's again. */
void by_shim_end(struct daemon *daemon, struct tenant *tenant);

/* After is_kept has changed: what ran on when its programs ended, on a client that somebody keeps, gets no time. It has
 * no share any more, so it would be others'. */
void by_shim_hold_kept(struct daemon *daemon, struct tenant *tenant);
