/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own thread that does checkpoints of this process, for whoever asks (mailbox.h). */
#pragma once

void checkpoint_serve(void);  /* starts it; without it this process cannot be checkpointed */
void checkpoint_forget(void); /* in a child: the mailbox is its parent's */
