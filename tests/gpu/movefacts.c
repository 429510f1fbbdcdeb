/* SPDX-License-Identifier: Apache-2.0 */
/*
 * movefacts - whether a process that is not libcuda can move a CUDA program's memory off the device and back.
 *
 *      movefacts copy                  a copy engine by plain calls: which engines, rate, contents, both ways at once
 *      movefacts own N MiB             N pieces of a program in this process, as a gate sees it that made its objects:
 *                                      channels off, each piece copied out, unmapped and freed, and all the way back
 *      movefacts all N MiB             the same with everything of the context that can be moved, libcuda's own too
 *      movefacts foreign N MiB         the same of a program in another process, through its descriptors
 *      movefacts multi N MiB           and with its UVM space begun as one of several processes, as the gate does it
 *      movefacts checkpoint MiB        the driver's own calls for another process: lock, checkpoint, restore, unlock
 *      movefacts switch                how often channels that were disabled twice are to be enabled
 *
 * A line for each thing that was asked, with the driver's status; times in ms. ENGINES="11 12" names the engines of the
 * moves. Nothing ends the program early: what could not be done is said, and the next thing is tried. The calls of
 * libcuda pass through this program's own ioctl(), which notes objects, mappings and channels. tests/gpu/movefacts.sh
 * builds and runs all of it, each under a limit of time. Layouts: docs/rm-abi.md, release 580.
 */
#define _GNU_SOURCE
#include "ce.h"
#include "moved.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        NR_FREE = 0x29,
        NR_ALLOC = 0x2b,
        NR_SHARE = 0x35,
        NR_MAP_MEMORY = 0x4e,
        DISABLE = 0x2080110b,
        DISABLE_MAX = 64,

        UVM_INITIALIZE = 0x30000001,
        UVM_FREE = 34,
        UVM_MAP = 33,
        UVM_MAP_SIZE = 9264,
        UVM_MAP_COUNT = 9240,
        UVM_MAP_CTL = 9248,
        UVM_MAP_STATUS = 9260,
        UVM_UNMAP = 66,

        OBJECTS = 32768,
        CHANNELS = 512,
        ENGINES_MAX = 4,
        CHANNEL_LOW = 0x6f,
};

/* ---- what libcuda says --------------------------------------------------------------------------------- */

struct object {
        int ctl;
        uint32_t client, parent, handle;
        uint64_t size; /* what the driver gave */
        bool is_seen;  /* by the processor */
        bool is_gone, is_piece;
        unsigned char params[128]; /* as asked for */
};

struct span {
        int uvm, ctl;
        uint32_t client, memory;
        uint64_t base, length, offset;
        unsigned char attributes[36];
        bool is_gone;
};

/* In shared memory: the program may be another process. */
struct notes {
        size_t n_objects, n_spans, n_channels;
        struct object objects[OBJECTS];
        struct span spans[OBJECTS];
        struct {
                uint32_t client, handle;
        } channels[CHANNELS];
        bool is_off, is_multi, is_piece;
        uint32_t bad, samples_bad; /* the program's last look at its memory */
        int64_t result;
};

static struct notes *notes;
static int (*next)(int, unsigned long, ...);

int ioctl(int fd, unsigned long request, ...);

static void note_alloc(int ctl, const unsigned char *block, const unsigned char *asked, const unsigned char *params)
{
        uint32_t class = kit_get32(block, 12);

        if (class == KIT_CLASS_MEMORY && notes->n_objects < OBJECTS) {
                struct object *object = &notes->objects[notes->n_objects++];

                *object = (struct object){ ctl, kit_get32(block, 0), kit_get32(block, 4), kit_get32(block, 8),
                                           .is_piece = notes->is_piece };
                memcpy(&object->size, params + 64, 8);
                memcpy(object->params, asked, 128);
        } else if (class % 0x100 == CHANNEL_LOW && class > 0xff && notes->n_channels < CHANNELS) {
                notes->channels[notes->n_channels].client = kit_get32(block, 0);
                notes->channels[notes->n_channels++].handle = kit_get32(block, 8);
        }
}

static void note_block(unsigned int nr, const unsigned char *block)
{
        for (size_t i = 0; i < notes->n_objects; i++) {
                struct object *object = &notes->objects[i];

                if (object->client != kit_get32(block, 0) || object->handle != kit_get32(block, 8))
                        continue;
                if (nr == NR_FREE)
                        object->is_gone = true;
                else
                        object->is_seen = true;
        }
}

static void note_uvm(int fd, unsigned long request, const unsigned char *block)
{
        uint64_t base, length;

        memcpy(&base, block, 8);
        memcpy(&length, block + 8, 8);
        if (request == UVM_MAP && notes->n_spans < OBJECTS && kit_get32(block, UVM_MAP_COUNT) == 1) {
                struct span *span = &notes->spans[notes->n_spans++];

                *span = (struct span){ .uvm = fd,
                                       .ctl = (int)kit_get32(block, UVM_MAP_CTL),
                                       .client = kit_get32(block, UVM_MAP_CTL + 4),
                                       .memory = kit_get32(block, UVM_MAP_CTL + 8),
                                       .base = base,
                                       .length = length };
                memcpy(&span->offset, block + 16, 8);
                memcpy(span->attributes, block + 24, 36);
        }
        for (size_t i = 0; i < notes->n_spans && (request == UVM_FREE || request == UVM_UNMAP); i++)
                if (notes->spans[i].base >= base && notes->spans[i].base < base + length)
                        notes->spans[i].is_gone = true;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
        unsigned char asked[128], *block, *params = NULL;
        unsigned int nr = request & 0xff;
        uint64_t flags;
        va_list list;
        int r;

        va_start(list, request);
        block = va_arg(list, unsigned char *);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        if (!notes || notes->is_off)
                return next(fd, request, block);
        if ((request >> 8 & 0xff) == 'F' && nr == NR_ALLOC) {
                memcpy(&params, block + 16, sizeof(params));
                if (kit_get32(block, 12) == KIT_CLASS_MEMORY && params)
                        memcpy(asked, params, sizeof(asked));
        }
        if (request == UVM_INITIALIZE && notes->is_multi) {
                flags = 3;
                memcpy(block, &flags, sizeof(flags));
        }
        r = next(fd, request, block);
        if (r)
                return r;
        if ((request >> 8 & 0xff) != 'F')
                note_uvm(fd, request, block);
        else if (nr == NR_ALLOC && params && kit_get32(block, 40) == 0)
                note_alloc(fd, block, asked, params);
        else if (nr == NR_FREE || nr == NR_MAP_MEMORY)
                note_block(nr, block);
        return r;
}

static double ms(double began)
{
        return (ce_now() - began) * 1e3;
}

/* ---- the move ------------------------------------------------------------------------------------------------ */

/* One object with its one mapping. */
struct part {
        struct object *object;
        struct span *span;
        uint32_t dup;
        uint64_t at, host; /* where our engine sees the object, and its place in host memory */
};

struct move {
        struct ce ce;
        struct ce_channel channels[ENGINES_MAX];
        size_t n_channels, n_parts;
        struct part *parts;
        uint64_t bytes, host_at;
        int pidfd; /* of the program; -1: this process */
};

static int fd_here(const struct move *move, int fd)
{
        return move->pidfd < 0 ? fd : (int)syscall(SYS_pidfd_getfd, move->pidfd, fd, 0);
}

static void fd_done(const struct move *move, int fd)
{
        if (move->pidfd >= 0 && fd >= 0)
                (void)close(fd);
}

static struct kit_outcome say_once(const char *what, struct kit_outcome outcome, size_t *n)
{
        if (!kit_ok(outcome) && ++*n <= 3)
                ce_say(what, outcome);
        return outcome;
}

static struct kit_outcome spoken(int fd, unsigned long request, void *block, size_t status_at)
{
        struct kit_outcome outcome = { .status = -1 };

        kit_put32(block, status_at, 0xffffffffu);
        errno = 0;
        outcome.rc = ioctl(fd, request, block);
        outcome.error = outcome.rc < 0 ? errno : 0;
        if (outcome.rc == 0)
                outcome.status = kit_get32(block, status_at);
        return outcome;
}

static struct kit_outcome rm_call(int fd, unsigned int nr, void *block, size_t size, size_t status_at)
{
        return spoken(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size), block, status_at);
}

/* The objects that have one mapping, all of it, and that the processor does not see. */
static void parts_find(struct move *move, bool all)
{
        uint64_t kept = 0;

        move->parts = calloc(notes->n_objects + 1, sizeof(*move->parts));
        for (size_t i = 0; i < notes->n_objects; i++) {
                struct object *object = &notes->objects[i];
                struct span *span = NULL;
                size_t n = 0;

                for (size_t j = 0; j < notes->n_spans && !object->is_gone; j++)
                        if (notes->spans[j].memory == object->handle && notes->spans[j].client == object->client &&
                            !notes->spans[j].is_gone) {
                                span = &notes->spans[j];
                                n++;
                        }
                if (object->is_gone || (!all && !object->is_piece))
                        continue;
                if (n != 1 || span->length != object->size || span->offset || object->is_seen) {
                        kept += object->size;
                        continue;
                }
                move->parts[move->n_parts++] = (struct part){ .object = object, .span = span, .host = move->bytes };
                move->bytes += object->size;
        }
        printf("  parts=%zu mib=%llu kept_mib=%llu spans=%zu channels=%zu\n", move->n_parts,
               (unsigned long long)(move->bytes / MIB), (unsigned long long)(kept / MIB), notes->n_spans,
               notes->n_channels);
}

static void channels_switch_as(struct move *move, bool is_disabled, bool is_gentle)
{
        double began = ce_now();
        size_t n_bad = 0;

        for (size_t from = 0; from < notes->n_channels; from += DISABLE_MAX) {
                unsigned char params[536] = { is_disabled, [8] = is_gentle };
                uint32_t n = 0;

                for (; n < DISABLE_MAX && from + n < notes->n_channels; n++) {
                        kit_put32(params, 24 + 4 * n, notes->channels[from + n].client);
                        kit_put32(params, 280 + 4 * n, notes->channels[from + n].handle);
                }
                kit_put32(params, 4, n);
                (void)say_once("channels", kit_rm_control(&move->ce.rm, KIT_SUBDEVICE, DISABLE, params, sizeof(params)),
                               &n_bad);
        }
        printf("  channels %s refused=%zu ms=%.2f\n",
               is_gentle   ? "retired" :
               is_disabled ? "off" :
                             "on",
               n_bad, ms(began));
}

static void channels_switch(struct move *move, bool is_disabled)
{
        channels_switch_as(move, is_disabled, false);
}

/* Everybody may take a reference: said by whoever holds the program's descriptor. */
static void share(struct move *move, const struct object *object)
{
        unsigned char block[24] = { 0 };
        int ctl = fd_here(move, object->ctl);

        kit_put32(block, 0, object->client);
        kit_put32(block, 4, object->handle);
        kit_put32(block, 12, 1);                     /* the right to duplicate */
        kit_put32(block, 16, 1 | (uint32_t)4 << 16); /* all; in addition */
        ce_say("share", rm_call(ctl, NR_SHARE, block, sizeof(block), 20));
        fd_done(move, ctl);
}

static void parts_dup(struct move *move)
{
        double began = ce_now();
        size_t n_ok = 0;
        int64_t status = 0, refused = 0;

        for (size_t i = 0; i < move->n_parts; i++) {
                struct part *part = &move->parts[i];

                part->dup = ce_dup(&move->ce, part->object->client, part->object->handle, &status);
                if (!part->dup && i == 0) {
                        printf("  dup status=0x%llx\n", (unsigned long long)status);
                        share(move, part->object);
                        part->dup = ce_dup(&move->ce, part->object->client, part->object->handle, &status);
                        printf("  dup after share status=0x%llx\n", (unsigned long long)status);
                }
                n_ok += part->dup != 0;
                refused = part->dup ? refused : status;
        }
        printf("  dup ok=%zu of=%zu status=0x%llx ms=%.2f\n", n_ok, move->n_parts, (unsigned long long)refused,
               ms(began));
        began = ce_now();
        n_ok = 0;
        for (size_t i = 0; i < move->n_parts; i++) {
                struct part *part = &move->parts[i];

                part->at = part->dup ? ce_map(&move->ce, part->dup, part->object->size, false) : 0;
                n_ok += part->at != 0;
        }
        printf("  map ok=%zu of=%zu ms=%.2f\n", n_ok, move->n_parts, ms(began));
}

static void parts_copy(struct move *move, bool out)
{
        double began = ce_now(), took;
        uint64_t bytes = 0;
        bool ok = true;

        for (size_t i = 0; i < move->n_parts && ok; i++) {
                struct part *part = &move->parts[i];
                struct ce_channel *channel = &move->channels[i % move->n_channels];
                uint64_t host = move->host_at + part->host;

                if (!part->at)
                        continue;
                ok = ce_copy(channel, out ? host : part->at, out ? part->at : host, part->object->size);
                bytes += part->object->size;
        }
        for (size_t i = 0; i < move->n_channels; i++)
                ok = ce_wait(&move->channels[i], 10) && ok;
        took = ms(began);
        printf("  copy %s done=%d mib=%llu ms=%.2f gb_s=%.2f\n", out ? "out" : "in", ok,
               (unsigned long long)(bytes / MIB), took, (double)bytes / took / 1e6);
}

static void parts_undup(struct move *move)
{
        double began = ce_now();
        size_t n_bad = 0;

        for (size_t i = 0; i < move->n_parts; i++) {
                struct part *part = &move->parts[i];

                if (part->at)
                        n_bad += ce_unmap(&move->ce, part->dup, part->at, part->object->size) != 0;
                if (part->dup)
                        ce_free(&move->ce, part->dup);
                part->at = part->dup = 0;
        }
        printf("  undup refused=%zu ms=%.2f\n", n_bad, ms(began));
}

static void parts_take(struct move *move)
{
        double began = ce_now();
        size_t n_unmap = 0, n_free = 0;
        int64_t before = ce_free_kib(&move->ce);

        for (size_t i = 0; i < move->n_parts; i++) {
                struct part *part = &move->parts[i];
                unsigned char block[40] = { 0 };
                int uvm = fd_here(move, part->span->uvm);

                kit_put64(block, 0, part->span->base);
                kit_put64(block, 8, part->span->length);
                memcpy(block + 16, part->span->attributes, 16);
                (void)say_once("uvm unmap", spoken(uvm, UVM_UNMAP, block, 32), &n_unmap);
                fd_done(move, uvm);
        }
        printf("  uvm unmap refused=%zu ms=%.2f\n", n_unmap, ms(began));
        began = ce_now();
        for (size_t i = 0; i < move->n_parts; i++) {
                struct object *object = move->parts[i].object;
                unsigned char block[16] = { 0 };
                int ctl = fd_here(move, object->ctl);

                kit_put32(block, 0, object->client);
                kit_put32(block, 4, object->parent);
                kit_put32(block, 8, object->handle);
                (void)say_once("free", rm_call(ctl, NR_FREE, block, sizeof(block), 12), &n_free);
                fd_done(move, ctl);
        }
        printf("  free refused=%zu ms=%.2f device_free_mib before=%lld after=%lld\n", n_free, ms(began),
               (long long)before / 1024, (long long)ce_free_kib(&move->ce) / 1024);
}

static void parts_give(struct move *move)
{
        static unsigned char map[UVM_MAP_SIZE];
        double began = ce_now();
        size_t n_alloc = 0, n_map = 0;

        for (size_t i = 0; i < move->n_parts; i++) {
                struct object *object = move->parts[i].object;
                unsigned char block[48] = { 0 }, params[128];
                int ctl = fd_here(move, object->ctl);

                memcpy(params, object->params, sizeof(params));
                kit_put32(block, 0, object->client);
                kit_put32(block, 4, object->parent);
                kit_put32(block, 8, object->handle);
                kit_put32(block, 12, KIT_CLASS_MEMORY);
                kit_put64(block, 16, (uintptr_t)params);
                kit_put32(block, 32, 0); /* as libcuda: the class says how many */
                (void)say_once("alloc", rm_call(ctl, NR_ALLOC, block, sizeof(block), 40), &n_alloc);
                fd_done(move, ctl);
        }
        printf("  alloc refused=%zu ms=%.2f device_free_mib=%lld\n", n_alloc, ms(began),
               (long long)ce_free_kib(&move->ce) / 1024);
        began = ce_now();
        for (size_t i = 0; i < move->n_parts; i++) {
                const struct span *span = move->parts[i].span;
                int uvm = fd_here(move, span->uvm), ctl = fd_here(move, span->ctl);

                memset(map, 0, sizeof(map));
                kit_put64(map, 0, span->base);
                kit_put64(map, 8, span->length);
                memcpy(map + 24, span->attributes, 36);
                kit_put32(map, UVM_MAP_COUNT, 1);
                kit_put32(map, UVM_MAP_CTL, (uint32_t)ctl);
                kit_put32(map, UVM_MAP_CTL + 4, span->client);
                kit_put32(map, UVM_MAP_CTL + 8, span->memory);
                (void)say_once("uvm map", spoken(uvm, UVM_MAP, map, UVM_MAP_STATUS), &n_map);
                fd_done(move, uvm);
                fd_done(move, ctl);
        }
        printf("  uvm map refused=%zu ms=%.2f\n", n_map, ms(began));
}

static bool host_ready(struct move *move)
{
        const char *pages, *names = getenv("ENGINES");
        double began = ce_now(), touched;
        uint64_t bytes = (move->bytes + 2 * MIB - 1) & ~(2 * MIB - 1);
        unsigned long engine;
        uint32_t handle;
        char *end, *host;

        host = ce_host_memory(bytes, &pages);
        touched = ms(began);
        began = ce_now();
        handle = host ? ce_register(&move->ce, host, bytes) : 0;
        printf("  host mib=%llu pages=%s touch_ms=%.0f register_ms=%.2f\n", (unsigned long long)(bytes / MIB), pages,
               touched, ms(began));
        began = ce_now();
        move->host_at = handle ? ce_map(&move->ce, handle, bytes, true) : 0;
        printf("  host map at=0x%llx ms=%.2f\n", (unsigned long long)move->host_at, ms(began));
        if (!move->host_at)
                return false;
        for (names = names ? names : "11"; move->n_channels < ENGINES_MAX; names = end) {
                engine = strtoul(names, &end, 0);
                if (end == names)
                        break;
                move->n_channels += ce_channel_open(&move->ce, (uint32_t)engine, &move->channels[move->n_channels]);
        }
        return move->n_channels > 0;
}

static void move_all(struct move *move, bool all)
{
        bool copies;
        double began;

        notes->is_off = true; /* what follows is ours */
        if (!ce_open(&move->ce))
                return;
        parts_find(move, all);
        if (!move->n_parts)
                return;
        copies = host_ready(move);
        channels_switch(move, true);
        began = ce_now();
        parts_dup(move);
        if (copies)
                parts_copy(move, true);
        parts_undup(move);
        parts_take(move);
        printf("  suspend ms=%.2f\n", ms(began));
        began = ce_now();
        parts_give(move);
        parts_dup(move);
        if (copies)
                parts_copy(move, false);
        parts_undup(move);
        channels_switch(move, false);
        printf("  resume ms=%.2f\n", ms(began));
        notes->is_off = false;
}

static void look_say(const char *when)
{
        printf("  look %s words_wrong=%u samples_wrong=%u\n", when, notes->bad, notes->samples_bad);
}

static int own_main(size_t n, uint64_t bytes, bool all)
{
        struct move move = { .pidfd = -1 };
        struct program program;

        if (!program_begin(&program, n, bytes, &notes->is_piece))
                return 1;
        program_look(&program, &notes->bad, &notes->samples_bad);
        look_say("before");
        move_all(&move, all);
        program_look(&program, &notes->bad, &notes->samples_bad);
        look_say("after");
        (void)fine("filled again", launch(&program, program.fill, 0) ? cuCtxSynchronize() : CUDA_ERROR_UNKNOWN);
        for (size_t i = 0; i < n; i++)
                (void)fine("free", cuMemFree(program.pieces[i]));
        return notes->bad || notes->samples_bad;
}

/* ---- a program in another process --------------------------------------------------------------------------- */

/* Does what the byte asks: l look, q end. Answers with the byte. */
static _Noreturn void other_main(size_t n, uint64_t bytes, int from, int to)
{
        struct program program;
        char byte = program_begin(&program, n, bytes, &notes->is_piece) ? 'r' : 'x';

        while (write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1 && byte != 'q')
                program_look(&program, &notes->bad, &notes->samples_bad);
        _exit(0);
}

static bool other_ask(int to, int from, char byte)
{
        char answer = 'x';

        return write(to, &byte, 1) == 1 && read(from, &answer, 1) == 1 && answer == byte;
}

static pid_t other_begin(size_t n, uint64_t bytes, int *ret_to, int *ret_from)
{
        int there[2], back[2];
        char byte = 'x';
        pid_t child;

        if (pipe(there) < 0 || pipe(back) < 0)
                return -1;
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)alarm(90);
                other_main(n, bytes, there[0], back[1]);
        }
        (void)close(there[0]);
        (void)close(back[1]);
        *ret_to = there[1];
        *ret_from = back[0];
        if (child < 0 || read(back[0], &byte, 1) != 1 || byte != 'r') {
                printf("  the other program did not begin\n");
                return -1;
        }
        return child;
}

static int foreign_main(size_t n, uint64_t bytes, bool multi)
{
        struct move move = { .pidfd = -1 };
        int to = -1, from = -1;
        pid_t child;

        notes->is_multi = multi;
        child = other_begin(n, bytes, &to, &from);
        if (child < 0)
                return 1;
        if (other_ask(to, from, 'l'))
                look_say("before");
        move.pidfd = (int)syscall(SYS_pidfd_open, child, 0);
        move_all(&move, false);
        notes->bad = notes->samples_bad = UINT32_MAX;
        if (other_ask(to, from, 'l'))
                look_say("after");
        (void)other_ask(to, from, 'q');
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        return 0;
}

/* ---- the driver's own way --------------------------------------------------------------------------------------- */

static void checkpoint_step(const char *name, pid_t child, uint64_t first)
{
        CUresult (*call)(int, void *) = NULL;
        uint64_t arguments[16] = { first };
        double began = ce_now();
        CUresult r;

        *(void **)&call = dlsym(RTLD_DEFAULT, name);
        if (!call) {
                printf("  %s: not in this libcuda\n", name);
                return;
        }
        r = call(child, first ? arguments : NULL);
        printf("  %s result=%d ms=%.1f\n", name, (int)r, ms(began));
}

static int checkpoint_main(size_t mib)
{
        uint64_t bytes = mib < 1024 ? mib * MIB : GIB;
        int to = -1, from = -1;
        size_t n = mib < 1024 ? 1 : mib / 1024;
        pid_t child = other_begin(n, bytes, &to, &from);

        if (child < 0)
                return 1;
        (void)fine("init", cuInit(0));
        for (int round = 0; round < 2; round++) {
                checkpoint_step("cuCheckpointProcessLock", child, 10000);
                checkpoint_step("cuCheckpointProcessCheckpoint", child, 0);
                checkpoint_step("cuCheckpointProcessRestore", child, 0);
                checkpoint_step("cuCheckpointProcessUnlock", child, 0);
        }
        if (other_ask(to, from, 'l'))
                look_say("after");
        (void)other_ask(to, from, 'q');
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        return 0;
}

/* ---- the engine alone ------------------------------------------------------------------------------------- */

struct bench {
        struct ce ce;
        uint64_t bytes, device, host_from, host_to;
        char *from, *to;
        struct ce_channel channels[ENGINES_MAX];
        size_t n;
};

static bool bench_open(struct bench *bench)
{
        const char *pages;
        uint32_t a, b, c;

        bench->from = ce_host_memory(bench->bytes, &pages);
        bench->to = ce_host_memory(bench->bytes, &pages);
        if (!ce_open(&bench->ce) || !bench->from || !bench->to)
                return false;
        for (uint64_t i = 0; i < bench->bytes / 8; i++)
                ((uint64_t *)(void *)bench->from)[i] = i * 0x9e3779b97f4a7c15ull;
        a = ce_register(&bench->ce, bench->from, bench->bytes);
        b = ce_register(&bench->ce, bench->to, bench->bytes);
        c = ce_video(&bench->ce, 2 * bench->bytes);
        if (!a || !b || !c)
                return false;
        bench->host_from = ce_map(&bench->ce, a, bench->bytes, true);
        bench->host_to = ce_map(&bench->ce, b, bench->bytes, true);
        bench->device = ce_map(&bench->ce, c, 2 * bench->bytes, false);
        printf("  host pages=%s from=0x%llx to=0x%llx device=0x%llx\n", pages, (unsigned long long)bench->host_from,
               (unsigned long long)bench->host_to, (unsigned long long)bench->device);
        return bench->host_from && bench->host_to && bench->device;
}

static double copied(struct ce_channel *channel, uint64_t to, uint64_t from, uint64_t bytes, bool *ok)
{
        double began = ce_now();

        *ok = *ok && ce_copy(channel, to, from, bytes) && ce_wait(channel, 2);
        return (double)bytes / (ce_now() - began) / 1e9;
}

static bool bench_engine(struct bench *bench, uint32_t engine)
{
        struct ce_channel *channel = &bench->channels[bench->n];
        double in, out;
        bool ok = true;

        if (!ce_channel_open(&bench->ce, engine, channel)) {
                printf("  engine %u: no channel\n", engine);
                return false;
        }
        memset(bench->to, 0, bench->bytes);
        (void)copied(channel, bench->device, bench->host_from, bench->bytes, &ok);
        in = copied(channel, bench->device, bench->host_from, bench->bytes, &ok);
        out = copied(channel, bench->host_to, bench->device, bench->bytes, &ok);
        printf("  engine %u token=0x%x done=%d right=%d in_gb_s=%.2f out_gb_s=%.2f count=%u\n", engine, channel->token,
               ok, memcmp(bench->from, bench->to, bench->bytes) == 0, in, out, *channel->done);
        if (ok && bench->n < ENGINES_MAX - 1)
                bench->n++;
        else
                ce_channel_close(channel);
        return ok;
}

/* Several at once: what each does in pieces, the sum. */
static void bench_together(struct bench *bench, const char *what, size_t n_out, size_t n_in)
{
        const size_t pieces = 16;
        double began = ce_now();
        size_t n = n_out + n_in;
        bool ok = true;

        if (n > bench->n)
                return;
        for (size_t k = 0; k < 4 * pieces; k++)
                for (size_t i = 0; i < n; i++) {
                        uint64_t part = bench->bytes / pieces, at = k % pieces * part;

                        if (i < n_out)
                                ok = ce_copy(&bench->channels[i], bench->host_to + at, bench->device + at, part) && ok;
                        else
                                ok = ce_copy(&bench->channels[i], bench->device + bench->bytes + at,
                                             bench->host_from + at, part) &&
                                     ok;
                }
        for (size_t i = 0; i < n; i++)
                ok = ce_wait(&bench->channels[i], 5) && ok;
        printf("  together %s out=%zu in=%zu done=%d gb_s=%.2f\n", what, n_out, n_in, ok,
               4 * (double)bench->bytes * (double)n / (ce_now() - began) / 1e9);
}

static int copy_main(uint64_t bytes)
{
        static const uint32_t engines[] = { 11, 12, 13, 14, 9, 10, 15, 16, 17, 18 };
        struct bench bench = { .bytes = bytes };
        int n_bad = 0;

        if (!bench_open(&bench))
                return 1;
        for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]) && n_bad < 4; i++)
                n_bad += !bench_engine(&bench, engines[i]);
        bench_together(&bench, "out", 1, 0);
        bench_together(&bench, "in", 0, 1);
        bench_together(&bench, "both", 1, 1);
        bench_together(&bench, "out", 2, 0);
        bench_together(&bench, "out", 3, 0);
        for (size_t i = 0; i < bench.n; i++)
                ce_channel_close(&bench.channels[i]);
        return bench.n == 0;
}

/* ---- who has disabled channels, and how often ----------------------------------------------------------------- */

/* Whether a kernel that is launched now ends within half a second; one that does not is left in its stream. */
static void runs_say(struct program *program, const char *when)
{
        double until = ce_now() + 0.5;
        CUresult r;

        (void)launch(program, program->fill, 0);
        do
                r = cuStreamQuery(NULL);
        while (r == CUDA_ERROR_NOT_READY && ce_now() < until);
        printf("  %-48s runs=%d\n", when, r == CUDA_SUCCESS);
}

static int switch_main(void)
{
        struct move one = { .pidfd = -1 }, two = { .pidfd = -1 };
        struct program program;

        if (!program_begin(&program, 1, MIB, &notes->is_piece))
                return 1;
        kit_rm_open(&one.ce.rm);
        kit_rm_open(&two.ce.rm);
        runs_say(&program, "before");
        channels_switch(&one, true);
        runs_say(&program, "off");
        channels_switch(&one, false);
        runs_say(&program, "off, on");
        channels_switch(&one, true);
        channels_switch(&one, true);
        channels_switch(&one, false);
        runs_say(&program, "off, off, on");
        channels_switch(&one, false);
        runs_say(&program, "off, off, on, on");
        channels_switch(&one, true);
        channels_switch(&two, false);
        runs_say(&program, "off, the other's on");
        channels_switch(&one, false);
        runs_say(&program, "off, the other's on, on");
        channels_switch(&one, true);
        channels_switch(&two, true);
        channels_switch(&one, false);
        runs_say(&program, "off, the other's off, on");
        channels_switch(&two, false);
        runs_say(&program, "off, the other's off, on, the other's on");
        channels_switch(&one, false);
        channels_switch(&one, true);
        runs_say(&program, "on, off");
        channels_switch(&one, false);
        runs_say(&program, "on, off, on");
        channels_switch_as(&one, true, true);
        channels_switch(&one, false);
        runs_say(&program, "retired, on");
        channels_switch_as(&one, true, true);
        channels_switch(&one, true);
        channels_switch(&one, false);
        runs_say(&program, "retired, off, on");
        channels_switch(&one, false);
        runs_say(&program, "retired, off, on, on");
        return 0;
}

int main(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "";
        size_t n = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
        uint64_t bytes = (argc > 3 ? strtoull(argv[3], NULL, 0) : 64) * MIB;

        setvbuf(stdout, NULL, _IOLBF, 0);
        (void)alarm(90); /* whatever happens */
        notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (notes == MAP_FAILED)
                return 1;
        if (strcmp(what, "copy") == 0)
                return copy_main(argc > 2 ? n * MIB : GIB);
        if (strcmp(what, "own") == 0 || strcmp(what, "all") == 0)
                return own_main(n, bytes, what[0] == 'a');
        if (strcmp(what, "foreign") == 0 || strcmp(what, "multi") == 0)
                return foreign_main(n, bytes, what[0] == 'm');
        if (strcmp(what, "checkpoint") == 0)
                return checkpoint_main(n);
        if (strcmp(what, "switch") == 0)
                return switch_main();
        fprintf(stderr, "usage: movefacts copy [MiB] | own|all|foreign|multi N MiB | checkpoint MiB | switch\n");
        return 2;
}
