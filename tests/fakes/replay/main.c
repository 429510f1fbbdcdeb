/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replayer: sends a trace (or a made-up load) to an OpenAI server as real prompts, and says how long
 * the answers took. Equal hash ids of the trace become equal text, 4 bytes per token, so that prefix
 * caches and routers see the reuse that was recorded.
 *
 *      replay [OPTION...] --to ADDRESS TRACE.jsonl
 *      replay [OPTION...] --to ADDRESS --shared QPS
 *
 * One line of JSON on stdout. Times are multiplied by --scale again, so that a run at 20 x speed
 * against replicas at 20 x speed reads like the original. Fails if a request failed that should not.
 */
#include "replay/client.h"

#include "base/cleanup.h"
#include "simulator/load.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct options {
        const char *to, *path, *model, *trace;
        double rate, scale, shared, leave, one_piece;
        size_t limit, closed;
        uint32_t most; /* tokens of a prompt */
};

struct replay {
        struct options options;
        struct load load;
        struct call *calls;
        struct client *client;
        uint64_t random;
        char *body; /* of the request being made */
        size_t body_room;
        size_t next, n_done;
        nsec began, ended;
};

enum {
        BLOCK_BYTES = LOAD_BLOCK * 4,
};

/* Text of one block: words of letters, from its key alone. */
static void write_block(char *to, uint64_t key, size_t size)
{
        uint64_t random = key;

        for (size_t i = 0; i < size; i++) {
                if (i % 8 == 0)
                        random = load_random(&random);
                to[i] = i % 8 == 7 ? ' ' : (char)('a' + (random >> (i % 8 * 8) & 0xff) % 26);
        }
}

static int write_body(struct replay *replay, size_t i, struct call *call)
{
        const struct load_request *r = &replay->load.requests[i];
        uint32_t input = replay->options.most && r->input > replay->options.most ? replay->options.most : r->input;
        size_t need = (size_t)input * 4 + 512, n = 0;
        bool is_stream = (double)(load_random(&replay->random) >> 40) / 0x1p24 >= replay->options.one_piece;

        if (need > replay->body_room) {
                char *grown = realloc(replay->body, need);

                if (!grown)
                        return -ENOMEM;
                replay->body = grown;
                replay->body_room = need;
        }
        n = (size_t)sprintf(
                replay->body,
                "{\"model\":\"%.200s\",\"stream\":%s,\"max_tokens\":%u,\"messages\":[{\"role\":\"user\",\"content\":\"",
                replay->options.model, is_stream ? "true" : "false", r->output);
        for (uint32_t k = 0; k < input / LOAD_BLOCK; k++, n += BLOCK_BYTES)
                write_block(replay->body + n, replay->load.keys[r->keys + k], BLOCK_BYTES);
        write_block(replay->body + n, ~(uint64_t)i, input % LOAD_BLOCK * 4);
        n += input % LOAD_BLOCK * 4;
        n += (size_t)sprintf(replay->body + n, "\"}]}");
        *call = (struct call){ .body = replay->body, .body_size = n, .leave_at = INT64_MAX };
        return 0;
}

static int send_next(struct replay *replay)
{
        struct call *call = &replay->calls[replay->next];
        const struct options *o = &replay->options;

        if (write_body(replay, replay->next++, call) < 0)
                return -ENOMEM;
        if ((double)(load_random(&replay->random) >> 40) / 0x1p24 < o->leave)
                call->leave_at = clock_now() + (nsec)((double)(load_random(&replay->random) >> 40) / 0x1p24 * 3 *
                                                      NSEC_PER_SEC / o->scale);
        client_send(replay->client, call);
        return 0;
}

static void on_done(struct call *call, void *context)
{
        struct replay *replay = context;

        call->body = NULL;
        replay->n_done++;
        replay->ended = clock_now();
}

static int run_replay(struct replay *replay)
{
        size_t n = replay->load.n_requests;

        replay->began = clock_now();
        while (replay->n_done < n) {
                nsec until = clock_now() + NSEC_PER_SEC;

                while (replay->next < n && replay->options.closed &&
                       client_n_open(replay->client) < replay->options.closed)
                        if (send_next(replay) < 0)
                                return -ENOMEM;
                while (replay->next < n && !replay->options.closed) {
                        nsec at = replay->began +
                                  (nsec)((double)replay->load.requests[replay->next].at / replay->options.scale);

                        if (at > clock_now()) {
                                until = at;
                                break;
                        }
                        if (send_next(replay) < 0)
                                return -ENOMEM;
                }
                client_poll(replay->client, until);
        }
        return 0;
}

static int by_size(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
        return n ? sorted[(size_t)((double)(n - 1) * q)] : 0;
}

static double mean(const double *values, size_t n)
{
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += values[i];
        return n ? sum / (double)n : 0;
}

/* 0: every request that was not given up by us, nor refused, was answered in full. */
static int report(const struct replay *replay)
{
        size_t n = replay->load.n_requests, n_ok = 0, n_long = 0, n_good = 0, outcomes[CALL_OUTCOMES] = { 0 };
        _cleanup_(freep) double *ttft = calloc(n, sizeof(double));
        _cleanup_(freep) double *tpot = calloc(n, sizeof(double));
        double scale = replay->options.scale / (double)NSEC_PER_SEC;

        if (!ttft || !tpot)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                const struct call *call = &replay->calls[i];
                uint32_t output = replay->load.requests[i].output;
                double first = (double)(call->first_at - call->sent_at) * scale, per = 0;

                outcomes[call->outcome]++;
                if (call->outcome != CALL_OK)
                        continue;
                if (output > 1)
                        per = (double)(call->end_at - call->first_at) * scale / (output - 1);
                ttft[n_ok++] = first;
                if (output >= 8)
                        tpot[n_long++] = per;
                n_good += first < 2 && per < 0.05;
        }
        qsort(ttft, n_ok, sizeof(*ttft), by_size);
        qsort(tpot, n_long, sizeof(*tpot), by_size);
        printf("{\"requests\":%zu,\"ok\":%zu,\"refused\":%zu,\"status\":%zu,\"early\":%zu,\"late\":%zu,\"left\":%zu,"
               "\"ttft_mean\":%.4f,\"ttft_p50\":%.4f,\"ttft_p99\":%.4f,\"tpot_mean\":%.5f,\"tpot_p99\":%.5f,"
               "\"goodput\":%.4f,\"wall\":%.3f}\n",
               n, outcomes[CALL_OK], outcomes[CALL_REFUSED], outcomes[CALL_STATUS], outcomes[CALL_EARLY],
               outcomes[CALL_LATE], outcomes[CALL_LEFT], mean(ttft, n_ok), quantile(ttft, n_ok, 0.5),
               quantile(ttft, n_ok, 0.99), mean(tpot, n_long), quantile(tpot, n_long, 0.99), (double)n_good / (double)n,
               (double)(replay->ended - replay->began) / (double)NSEC_PER_SEC);
        return outcomes[CALL_STATUS] + outcomes[CALL_EARLY] + outcomes[CALL_LATE] > 0;
}

static int usage(void)
{
        fputs("usage: replay [OPTION...] --to HOST:PORT|unix:PATH TRACE.jsonl | --shared QPS\n"
              "  --model NAME     (default: test)\n"
              "  --path PATH      (default: /v1/chat/completions)\n"
              "  --rate X         arrivals X times as often as recorded (default: 1)\n"
              "  --scale X        everything X times faster; reported times are multiplied by X (default: 1)\n"
              "  --limit N        only the first N requests; with --shared, how many (default: 1000)\n"
              "  --most TOKENS    prompts are cut to so many\n"
              "  --closed N       N at once, one after the other, whatever the trace's times\n"
              "  --one-piece P    part of the requests that do not stream\n"
              "  --leave P        part of the requests whose client leaves within 3 s\n",
              stderr);
        return 2;
}

static int parse_options(int argc, char **argv, struct options *ret)
{
        static const struct option OPTIONS[] = {
                { "to", required_argument, NULL, 't' },     { "path", required_argument, NULL, 'p' },
                { "model", required_argument, NULL, 'm' },  { "rate", required_argument, NULL, 'r' },
                { "scale", required_argument, NULL, 'x' },  { "shared", required_argument, NULL, 's' },
                { "limit", required_argument, NULL, 'n' },  { "most", required_argument, NULL, 'k' },
                { "closed", required_argument, NULL, 'c' }, { "one-piece", required_argument, NULL, 'o' },
                { "leave", required_argument, NULL, 'l' },  { NULL, 0, NULL, 0 },
        };
        struct options o = { .path = "/v1/chat/completions", .model = "test", .rate = 1, .scale = 1 };
        int option;

        while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
                double number = optarg ? atof(optarg) : 0;

                if (strchr("tpm", option))
                        *(option == 't' ? &o.to : option == 'p' ? &o.path : &o.model) = optarg;
                else if (!strchr("rxsnkcol", option) || !(number >= 0 && number < 1e9))
                        return -EINVAL;
                else if (strchr("nc", option))
                        *(option == 'n' ? &o.limit : &o.closed) = (size_t)number;
                else if (option == 'k')
                        o.most = (uint32_t)number;
                else
                        *(option == 'r' ? &o.rate :
                          option == 'x' ? &o.scale :
                          option == 's' ? &o.shared :
                          option == 'o' ? &o.one_piece :
                                          &o.leave) = number;
        }
        o.trace = argv[optind];
        if (!o.to || (!o.trace && o.shared <= 0) || o.rate <= 0 || o.scale <= 0)
                return -EINVAL;
        *ret = o;
        return 0;
}

static int prepare(struct replay *replay, struct err *err)
{
        const struct options *o = &replay->options;
        struct load_shared kind = { .n = o->limit ? o->limit : 1000,
                                    .qps = o->shared,
                                    .prefixes = 150,
                                    .prefix = 6144,
                                    .own = 1200,
                                    .output = 150,
                                    .seed = 1 };

        if (!o->trace && load_shared(&kind, &replay->load) < 0)
                return err_set(err, -ENOMEM, "making a load");
        if (o->trace && load_read(o->trace, o->rate, &replay->load, err) < 0)
                return err->code;
        if (o->limit && replay->load.n_requests > o->limit)
                replay->load.n_requests = o->limit;
        replay->calls = calloc(replay->load.n_requests, sizeof(*replay->calls));
        if (!replay->calls)
                return err_set(err, -ENOMEM, "making a load");
        return client_new(o->to, o->path, on_done, replay, &replay->client, err);
}

int main(int argc, char **argv)
{
        struct replay replay = { .random = 1 };
        struct err err = { 0 };
        int r;

        if (parse_options(argc, argv, &replay.options) < 0)
                return usage();
        r = prepare(&replay, &err);
        if (r < 0)
                fprintf(stderr, "replay: %s\n", err.text);
        else if ((r = run_replay(&replay)) == 0)
                r = report(&replay);
        (void)client_free(replay.client);
        load_done(&replay.load);
        free(replay.calls);
        free(replay.body);
        return r < 0 ? 2 : r;
}
