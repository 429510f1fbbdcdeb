/* SPDX-License-Identifier: Apache-2.0 */
/* The answers: one message, message after message, or a status without any. */
#include "kube/plugin/grpc_inside.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        CODE = 4,     /* text of a status */
        QUOTED = 600, /* a percent-encoded message, cut off there */
};

static void make_status(enum grpc_status status, const char *text, char code[static CODE], char quoted[static QUOTED])
{
        (void)snprintf(code, CODE, "%d", (int)status);
        grpc_text_quote(text, quoted, QUOTED);
}

/* An answer without a message. */
static int answer_status(struct call *call, enum grpc_status status, const char *text)
{
        char code[CODE], quoted[QUOTED];

        make_status(status, text, code, quoted);
        const nghttp2_nv headers[] = {
                GRPC_HEADER(":status", "200"),
                GRPC_HEADER("content-type", "application/grpc"),
                GRPC_HEADER("grpc-status", code),
                GRPC_HEADER("grpc-message", quoted),
        };
        return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, ARRAY_SIZE(headers),
                                       NULL);
}

/* The trailers after the last message. */
static int end_with(struct call *call, enum grpc_status status, const char *text, uint32_t *flags)
{
        char code[CODE], quoted[QUOTED];

        make_status(status, text, code, quoted);
        const nghttp2_nv trailers[] = { GRPC_HEADER("grpc-status", code), GRPC_HEADER("grpc-message", quoted) };

        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        return nghttp2_submit_trailer(call->connection->channel.session, call->stream, trailers, ARRAY_SIZE(trailers));
}

/* Calls the method and frames its message into `out`. 0; -errno with err. */
static int make_message(struct call *call, struct err *err)
{
        _cleanup_(grpc_message_done) struct grpc_message message = { 0 };
        struct grpc_message request;
        int r;

        (void)grpc_body_message(&call->in, &request); /* call_answer has checked it */
        r = call->method->call(call->connection->server->context, &request, &message, err);
        if (r < 0)
                return r;
        grpc_body_done(&call->out);
        call->n_out = 0;
        r = grpc_body_frame(&message, &call->out);
        if (r < 0)
                return err_say(err, r, "the answer has %zu bytes, and a message at most %d", message.size,
                               GRPC_MESSAGE_MAX);
        return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
        struct call *call = source->ptr;
        struct err err = { 0 };
        size_t n;
        int r;

        (void)session;
        (void)stream;
        (void)user;
        if (call->n_out == call->out.size && call->is_stale) { /* G4 */
                call->is_stale = false;
                r = make_message(call, &err);
                if (r < 0)
                        return end_with(call, grpc_status_of(r), err.text, flags) != 0 ? NGHTTP2_ERR_CALLBACK_FAILURE :
                                                                                         0;
        }
        n = call->out.size - call->n_out < room ? call->out.size - call->n_out : room;
        if (n == 0 && call->is_stream)
                return NGHTTP2_ERR_DEFERRED;
        if (n)
                memcpy(data, call->out.data + call->n_out, n);
        call->n_out += n;
        if (call->n_out == call->out.size && !call->is_stream && end_with(call, GRPC_OK, "", flags) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        return (ssize_t)n;
}

static int answer_messages(struct call *call)
{
        static const char type[] = "application/grpc";
        const nghttp2_nv headers[] = { GRPC_HEADER(":status", "200"), GRPC_HEADER("content-type", type) };
        const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = on_read };

        call->is_stream = call->method->is_stream;
        return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, ARRAY_SIZE(headers),
                                       &provider);
}

/* Answers, once the body is complete or refused. */
int call_answer(struct call *call)
{
        struct grpc_message request;
        struct err err = { 0 };
        enum grpc_status status;
        int r;

        if (!call->is_post || !call->is_grpc) {
                const nghttp2_nv headers[] = { GRPC_HEADER(":status", "415") };

                return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, 1, NULL);
        }
        if (!call->method)
                return answer_status(call, GRPC_UNIMPLEMENTED, "unknown method");
        if (call->refused)
                return answer_status(call, GRPC_RESOURCE_EXHAUSTED, "the message is too large");
        status = grpc_body_message(&call->in, &request);
        if (status != GRPC_OK)
                return answer_status(call, status,
                                     status == GRPC_UNIMPLEMENTED ? "compression is not supported" :
                                                                    "the body is not one message");
        r = make_message(call, &err);
        if (r < 0)
                return answer_status(call, grpc_status_of(r), err.text);
        return answer_messages(call);
}
