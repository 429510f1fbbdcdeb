/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test replica: stands for vLLM or SGLang serving one model on a part of a GPU. It computes nothing;
 * it takes the time that the engine model says, in real time or faster, and keeps the caches that
 * such an engine would keep.
 *
 *      replica [OPTION...] --listen ADDRESS [[OPTION...] --listen ADDRESS]...
 *
 * Each --listen is a replica of its own with the options before it; all run in one process and thread.
 */
#include "replica/replica.h"

#include "base/cleanup.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct option OPTIONS[] = {
        { "listen", required_argument, NULL, 'l' },
        { "model", required_argument, NULL, 'm' },
        { "share", required_argument, NULL, 's' },
        { "scale", required_argument, NULL, 'x' },
        { "blocks", required_argument, NULL, 'b' },
        { "block", required_argument, NULL, 'k' },
        { "sequences", required_argument, NULL, 'q' },
        { "wake", required_argument, NULL, 'w' },
        { "metrics", required_argument, NULL, 'M' },
        { "instant", no_argument, NULL, 'i' },
        { "early", no_argument, NULL, 'e' },
        { "cold", required_argument, NULL, 'c' },
        { NULL, 0, NULL, 0 },
};

static int usage(void)
{
        fputs("usage: replica [OPTION...] --listen HOST:PORT|unix:PATH [[OPTION...] --listen ADDRESS]...\n"
              "  --model NAME        what it serves (default: test)\n"
              "  --share PART        of the device, 0..1 (default: 1)\n"
              "  --scale X           how much faster than real time (default: 1)\n"
              "  --blocks N          of the KV cache of a full device (default: 1000; times the share)\n"
              "  --block TOKENS      per block (default: 512)\n"
              "  --sequences N       at once (default: 256)\n"
              "  --wake SECONDS      that /wake_up takes (default: 0.5)\n"
              "  --metrics vllm|vllm-old|sglang\n"
              "  --cold SECONDS      more that its first work takes: compilation, reading what it needs\n"
              "  --early             the head of a stream at once, before its first token\n"
              "  --instant           answer at once, without the engine\n",
              stderr);
        return 2;
}

struct program {
        struct http *http;
        struct replica *replicas;
        uint32_t blocks;
        struct replica_options options;
};

static int listen_on(struct program *program, const char *address)
{
        struct replica *replica;
        struct err err = { 0 };

        program->options.blocks = (uint32_t)(program->blocks * program->options.share);
        if (replica_new(&program->options, &replica) < 0)
                return -ENOMEM;
        replica->next = program->replicas;
        program->replicas = replica;
        if (http_listen(program->http, address, replica, &err) < 0) {
                fprintf(stderr, "replica: %s\n", err.text);
                return err.code;
        }
        return 0;
}

static int set(struct program *program, int option, const char *value)
{
        struct replica_options *o = &program->options;
        double number = value ? atof(value) : 0;

        switch (option) {
        case 'l':
                return listen_on(program, value);
        case 'm':
                o->model = value;
                return 0;
        case 'i':
                o->is_instant = true;
                return 0;
        case 'e':
                o->is_early = true;
                return 0;
        case 'M':
                o->metrics = strcmp(value, "sglang") == 0   ? METRICS_SGLANG :
                             strcmp(value, "vllm-old") == 0 ? METRICS_VLLM_OLD :
                                                              METRICS_VLLM;
                return 0;
        case 'w':
                o->wake_seconds = number;
                return number >= 0 ? 0 : -EINVAL;
        case 'c':
                o->cold_seconds = number;
                return number >= 0 ? 0 : -EINVAL;
        default:
                break;
        }
        if (!(number > 0 && number <= 1e9))
                return -EINVAL;
        *(option == 's' ? &o->share : option == 'x' ? &o->scale : &number) = number;
        *(option == 'b' ? &program->blocks :
          option == 'k' ? &o->engine.block :
          option == 'q' ? &o->engine.sequences :
                          &(uint32_t){ 0 }) = (uint32_t)number;
        return strchr("sxbkq", option) ? 0 : -EINVAL;
}

static int run_program(struct program *program)
{
        for (;;) {
                nsec next = INT64_MAX, now = clock_now();
                int r;

                for (struct replica *replica = program->replicas; replica; replica = replica->next) {
                        nsec at = replica_run(replica, now);

                        next = at < next ? at : next;
                }
                r = http_poll(program->http, next);
                if (r < 0 && r != -EINTR)
                        return r;
        }
}

int main(int argc, char **argv)
{
        struct program program = { .blocks = 1000,
                                   .options = { .model = "test",
                                                .share = 1,
                                                .scale = 1,
                                                .wake_seconds = 0.5,
                                                .engine = ENGINE_MODEL_DEFAULT } };
        struct err err = { 0 };
        int option;

        (void)signal(SIGPIPE, SIG_IGN);
        if (http_new(&REPLICA_CALLS, &program.http, &err) < 0) {
                fprintf(stderr, "replica: %s\n", err.text);
                return 1;
        }
        while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1)
                if (set(&program, option, optarg) < 0)
                        return usage();
        if (optind != argc || !program.replicas)
                return usage();
        return run_program(&program) < 0;
}
