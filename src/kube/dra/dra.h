/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DRA driver of a node: it publishes the node's devices as a ResourceSlice, answers kubelet for claims, and reports
 * to the daemon which container has what.
 *
 *  D1  Kubelet is told that a claim is prepared when the book has it on disk and the daemon has its rows: the container
 *      that kubelet creates then finds its lease.
 *  D2  A claim that was prepared is prepared again by the same answer. It is read anew; where no API server answers,
 *      the book counts.
 *  D3  A claim that was taken back is out of the book, also if the daemon does not answer: it gets the table later.
 *  D4  The daemon's table is ours alone: a node is served by this driver or by the device plugin.
 *
 * One loop. A call may wait for the API server (4 s a question) and the daemon (10 s): kubelet waits 45 s.
 */
#pragma once

#include "ask/ask.h"
#include "base/loop.h"
#include "kube/client/api.h"
#include "kube/dra/book.h"
#include "kube/plugin/grpc.h"

#include <stdbool.h>

struct err;

struct dra {
        /* Set before dra_run; borrowed. */
        const char *dir, *node, *runtime_class;
        const char *registry, *state; /* kubelet's directory for registrations; the book's file */
        const char *cdi;              /* kind of the CDI devices a container gets; "": none */
        struct api_settings api_settings;
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));

        struct loop *loop;
        struct loop_source signals;
        struct loop_timer timer;
        struct grpc_server *server;
        char path[108]; /* of its socket */
        struct ask *ask;
        struct api *api;
        struct book book;
        json_t *devices;       /* the daemon's; NULL: it does not answer */
        json_t *published;     /* the devices that the slices were made of */
        json_int_t generation; /* of the pool; 0: nothing was published */
        size_t n_slices;
        char driver[32], node_uid[64];
        nsec answered_at;           /* the daemon, the last time */
        nsec sent_at, published_at; /* 0: due */
        char wrong[400];            /* the last failure that was logged */
};

/* Until a signal. 0; -errno with err. */
int dra_run(struct dra *dra, struct err *err);

/* Asks the daemon for the devices; then, as far as it is due, sends it the table and publishes the slice. */
void dra_refresh(struct dra *dra);
int dra_send_table(struct dra *dra, struct err *err);

/* The gRPC methods; their context is the driver. */
int dra_info(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
int dra_registered(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
int dra_prepare(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
int dra_unprepare(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
