/*
 * What the webhook decides about a pod: an AdmissionReview in, one out. Pure.
 *
 * Of a pod that rents GPU memory it sets what must be (scheduler, runtime class, seccomp profile of its containers),
 * takes away what only we may say (our annotations, the environment that the runtime sets), says «void» in containers that
 * ask for no device, and refuses what would get
 * round the gate or can never be placed. Of other pods it takes away our annotations only.
 *
 *  R1  What is answered carries the request's uid, and is a whole answer whatever came.
 *  R2  After a binding only `trusted` users change our annotations; an update by others that would is refused.
 *  R3  Nor does anybody change the profile of a pod that rents: its fields are immutable, the annotations that older kubelets
 *      read in their place are not.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct review_settings {
        const char *scheduler;     /* schedulerName to set where it is unset or the default one; NULL: leave it */
        const char *runtime_class; /* to set where none is; NULL: leave it */
        const char *profile;       /* localhostProfile of its containers; NULL: only RuntimeDefault is refused */
        const char *trusted;       /* users, with commas, who may write our annotations */
};

/* mutate: /mutate, else /validate. The caller's; NULL: no memory. */
json_t *review_answer(const struct review_settings *settings, const json_t *review, bool is_mutating);
