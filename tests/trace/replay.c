/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorded programs, call by call, through the gate's decisions and books (books.h), and at the
 * same time through a second, plain account of what they held (naive.h).
 *
 *      replay DIRECTORY MACHINE        a directory of traces, all of one driver and machine
 *
 * Asserted for each trace: every call of a real program has a rule; what the driver granted it the gate
 * would not have refused, but for the few listed here; what was charged before a call holds what the
 * driver gave; after every call both accounts agree; and after the last process has ended the books are
 * empty.
 */
#include "unit.h"

#include "books.h"
#include "naive.h"

#include "base/cleanup.h"
#include "lease/sound.h"
#include "rm/numbers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
        FDS_MAX = 1024,
        FILES_MAX = 1024,
        PROCESSES_MAX = 2,
};

/* A program: its trace, and that of the child that it shares memory with. */
struct program {
        const char *machine;
        const char *names[PROCESSES_MAX];
        bool is_ours;        /* tests/gpu/raw.c: no real program, it tries what nobody does */
        bool leaves_nothing; /* it gives everything back before it ends */

        /* Known: the driver lets go what was exported at an index when another object is exported
         * there (os.c, 595.45.04); the ledger keeps it charged until the descriptor closes. */
        bool is_overcharged;
};

#define H200 "h200"
#define H200X2 "h200x2" /* two, joined by NVLink */
#define H100 "h100"     /* programs of other driver capabilities than compute */

static const struct program programs[] = {
#define REAL(place, name)                                                                                              \
        {                                                                                                              \
                .machine = (place), .names = { name }                                                                  \
        }
        { .machine = H200, .names = { "start" }, .leaves_nothing = true },
        REAL(H200, "exit"),
        REAL(H200, "meminfo"),
        { .machine = H200, .names = { "family-alloc" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-pitch" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-managed" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-async" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-vmm" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-array" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-mipmap" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-host" }, .leaves_nothing = true },
        { .machine = H200, .names = { "family-ipc", "family-ipc-child" } },
        { .machine = H200, .names = { "family-mempool-export", "family-mempool-export-child" } },
        REAL(H200, "torch"),
        REAL(H200, "nccl"),
        REAL(H200, "smi"),
        REAL(H200, "smi-memory"),
        REAL(H200, "smi-apps"),
        { .machine = H200, .names = { "raw-plain" }, .is_ours = true, .leaves_nothing = true },
        { .machine = H200, .names = { "raw-legacy" }, .is_ours = true, .leaves_nothing = true },
        { .machine = H200, .names = { "raw-type" }, .is_ours = true, .leaves_nothing = true },
        { .machine = H200, .names = { "raw-xfer" }, .is_ours = true, .leaves_nothing = true },
        { .machine = H200, .names = { "raw-dup" }, .is_ours = true },
        { .machine = H200X2, .names = { "family-alloc" }, .leaves_nothing = true },
        { .machine = H200X2, .names = { "peers-plain" }, .leaves_nothing = true },
        { .machine = H200X2, .names = { "peers-async" }, .leaves_nothing = true },
        { .machine = H200X2, .names = { "peers-ipc", "peers-ipc-child" } },
        { .machine = H200X2, .names = { "peers-vmm-fd", "peers-vmm-fd-child" } },
        REAL(H200X2, "torch"),
        REAL(H200X2, "smi-nvlink"),
        REAL(H200X2, "smi-topo"),
        REAL(H100, "video-h264"),
        REAL(H100, "vulkan-images"),
        REAL(H100, "vulkan-memory"),
        REAL(H100, "vulkan-export"),
        REAL(H100, "gles-draw"),
        REAL(H100, "jpeg"),
#undef REAL
};

static const char *directory, *machine;

struct file {
        unsigned int n_refs;
        enum rm_node node;
        uint32_t clients[16]; /* opened through it */
        size_t n_clients;
};

struct process {
        unsigned int number; /* from 1 */
        struct trace trace;
        char *text;
        uint64_t files[FDS_MAX]; /* by descriptor: number of the file, 0: none */
        struct trace_event next; /* not yet played */
        bool has_next;
};

struct world {
        const struct program *program;
        struct books books;
        struct naive *naive;
        struct file files[FILES_MAX]; /* from 1 */
        uint64_t n_files, last_export;
        struct process processes[PROCESSES_MAX];
        size_t n_processes;
};

/* Descriptors. */

static enum rm_node node_of(const char *path)
{
        if (!strcmp(path, "/dev/nvidiactl"))
                return RM_NODE_CTL;
        if (!strcmp(path, "/dev/nvidia-uvm"))
                return RM_NODE_UVM;
        if (!strncmp(path, "/dev/nvidia", 11) && path[11] >= '0' && path[11] <= '9')
                return RM_NODE_DEVICE;
        return RM_NODE_OTHER;
}

static uint64_t file_at(void *context, int fd)
{
        const struct process *process = context;

        return fd >= 0 && fd < FDS_MAX ? process->files[fd] : 0;
}

static void close_fd(struct world *world, struct process *process, int fd)
{
        uint64_t number = file_at(process, fd);
        struct file *file = &world->files[number];

        if (!number)
                return;
        process->files[fd] = 0;
        if (--file->n_refs)
                return;
        for (size_t i = 0; i < file->n_clients; i++)
                ledger_client_gone(world->books.ledger, file->clients[i]);
        books_close(&world->books, number);
        naive_close(world->naive, number);
}

static void set_fd(struct world *world, struct process *process, int fd, uint64_t number)
{
        assert_true(fd >= 0 && fd < FDS_MAX);
        close_fd(world, process, fd);
        process->files[fd] = number;
        world->files[number].n_refs++;
}

static uint64_t new_file(struct world *world, const char *path)
{
        assert_true(world->n_files + 1 < FILES_MAX);
        world->files[++world->n_files] = (struct file){ .node = node_of(path) };
        return world->n_files;
}

/* One that was sent to us is the file that the other process exported to. */
static uint64_t received_file(struct world *world, const struct process *process, const char *path)
{
        uint64_t sent = process->number > 1 ? world->last_export : 0;

        if (!sent)
                return new_file(world, path);
        world->last_export = 0;
        return sent;
}

/* Calls. */

/* What the driver would grant, and the gate does not. */
static bool may_be_refused(const struct told *told)
{
        static const uint32_t classes[] = {
                0xc640, /* MIG monitor: nvidia-smi and PyTorch ask, and do without */
                0xc639, /* MIG configuration, likewise */
        };

        if (told->call.kind == RM_IDLE_CHANNELS)
                return true; /* the driver grants it to root only, who recorded; OpenGL and Vulkan go on without */
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                if (told->call.kind == RM_ALLOC && told->call.class_or_cmd == classes[i])
                        return true;
        return false;
}

static void check_told(const struct world *world, const struct process *process, const struct told *told)
{
        const struct trace_event *event = &process->next;
        const char *name = world->program->names[process->number - 1];

        if (!told->is_found)
                fail_msg("%s:%zu: request 0x%x is unknown", name, process->trace.line, event->request);
        if (!told->is_recorded)
                fail_msg("%s:%zu: %s 0x%x: %zu bytes of parameters recorded, the gate would read %u", name,
                         process->trace.line, rm_kind_name(told->call.kind), told->call.class_or_cmd, event->pin.size,
                         rm_params_size(&world->books.layout, &told->call));
        if (world->program->is_ours)
                return;
        if (told->verdict.is_unknown)
                fail_msg("%s:%zu: %s 0x%x has no rule", name, process->trace.line, rm_kind_name(told->call.kind),
                         told->call.class_or_cmd);
        if (told->verdict.action == GATE_DENY && event->rc >= 0 && told->status == RM_STATUS_OK &&
            !may_be_refused(told))
                fail_msg("%s:%zu: %s 0x%x is refused, the driver granted it", name, process->trace.line,
                         rm_kind_name(told->call.kind), told->call.class_or_cmd);
}

static void play_ioctl(struct world *world, struct process *process)
{
        const struct trace_event *event = &process->next;
        uint64_t number = file_at(process, event->fd);
        struct file *file = &world->files[number];
        struct told told;

        assert_int_not_equal(number, 0);
        told = books_ioctl(&world->books, process->number, event, number, file->node, file_at, process);
        check_told(world, process, &told);
        if (told.verdict.action == GATE_EXPORT)
                world->last_export =
                        file_at(process, (int)rm_get32(event->pin.data, event->pin.size, gate_params_fd(&told.call)));
        if (told.is_client) {
                assert_true(file->n_clients < ARRAY_SIZE(file->clients));
                file->clients[file->n_clients++] = told.client;
        }
}

static enum naive_node naive_node_of(enum rm_node node)
{
        return node == RM_NODE_UVM ? NAIVE_UVM : node == RM_NODE_OTHER ? NAIVE_ELSE : NAIVE_CTL;
}

static void play(struct world *world, struct process *process)
{
        const struct trace_event *event = &process->next;
        uint64_t number = file_at(process, event->fd);
        enum rm_node node = number ? world->files[number].node : RM_NODE_OTHER;

        switch (event->kind) {
        case TRACE_OPEN:
                if (!event->error)
                        set_fd(world, process, event->fd, new_file(world, event->text));
                break;
        case TRACE_HAVE:
                set_fd(world, process, event->fd, received_file(world, process, event->text));
                break;
        case TRACE_DUP:
                if (number)
                        set_fd(world, process, event->new_fd, number);
                break;
        case TRACE_CLOSE:
                close_fd(world, process, event->fd);
                break;
        case TRACE_IOCTL:
                play_ioctl(world, process);
                break;
        case TRACE_MMAP:
                if (node == RM_NODE_UVM)
                        books_mmap(&world->books, process->number, event, number);
                break;
        case TRACE_MUNMAP:
                books_munmap(&world->books, process->number, event);
                break;
        case TRACE_PROCESS:
        case TRACE_MARK:
                break;
        }
        naive_see(world->naive, process->number, event, number, naive_node_of(node), file_at, process);
        if (world->program->is_overcharged)
                assert_true(naive_held(world->naive) <= books_held(&world->books));
        else if (naive_held(world->naive) != books_held(&world->books))
                fail_msg("%s:%zu: %llu bytes are charged, %llu are held", world->program->names[process->number - 1],
                         process->trace.line, (unsigned long long)books_held(&world->books),
                         (unsigned long long)naive_held(world->naive));
}

/* Processes. */

static void load(struct process *process, const char *name)
{
        char path[4096];
        size_t size = 0;
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s.txt", directory, name);
        file = fopen(path, "re");
        if (!file)
                fail_msg("%s: %s", path, strerror(errno));
        process->text = malloc(1 << 20);
        assert_non_null(process->text);
        size = fread(process->text, 1, 1 << 20, file);
        assert_true(size > 0 && size < 1 << 20);
        (void)fclose(file);
        trace_start(&process->trace, process->text, size);
}

static void fetch(struct process *process, const char *name)
{
        int r = trace_next(&process->trace, &process->next);

        if (r < 0)
                fail_msg("%s:%zu: malformed", name, process->trace.line);
        process->has_next = r > 0;
}

/* A child's call on memory that its parent has not made yet waits for it: the traces have no clock. */
static bool must_wait(const struct world *world, const struct process *process)
{
        const struct trace_event *e = &process->next;
        struct ledger_object object;

        if (process->number == 1)
                return false;
        if (e->kind == TRACE_HAVE)
                return !world->last_export;
        if (e->kind != TRACE_IOCTL || world->files[file_at((void *)(uintptr_t)process, e->fd)].node == RM_NODE_UVM)
                return false;
        if ((e->request & 0xff) == RM_NR_DUP &&
            rm_get32(e->in.data, e->in.size, 0) != rm_get32(e->in.data, e->in.size, 12))
                return ledger_get(world->books.ledger, rm_get32(e->in.data, e->in.size, 12),
                                  rm_get32(e->in.data, e->in.size, 16), &object) != LEDGER_OK;
        if ((e->request & 0xff) == RM_NR_CONTROL && rm_get32(e->in.data, e->in.size, 8) == 0x3d0c) {
                uint32_t index = rm_get32(e->pout.data, e->pout.size, 648) >> 16;

                return ledger_totals(world->books.ledger).n_exports <= index;
        }
        return false;
}

/* The parent, and after each of its calls as much of the child as can be. */
static void play_all(struct world *world)
{
        struct process *child = &world->processes[1];

        for (size_t i = 0; i < world->n_processes; i++)
                fetch(&world->processes[i], world->program->names[i]);
        while (world->processes[0].has_next || (world->n_processes > 1 && child->has_next)) {
                size_t n = 0;

                for (size_t i = 0; i < world->n_processes; i++) {
                        struct process *process = &world->processes[i];

                        while (process->has_next && !must_wait(world, process)) {
                                play(world, process);
                                fetch(process, world->program->names[i]);
                                n++;
                                if (process->number == 1)
                                        break;
                        }
                }
                assert_int_not_equal(n, 0); /* else the child waits for what nobody makes */
        }
}

static void world_end(struct world *world)
{
        struct ledger_totals totals;

        if (world->program->leaves_nothing)
                assert_int_equal(books_held(&world->books), 0);
        for (size_t i = 0; i < world->n_processes; i++) {
                for (int fd = 0; fd < FDS_MAX; fd++)
                        close_fd(world, &world->processes[i], fd);
                books_end(&world->books, world->processes[i].number);
                naive_end(world->naive, world->processes[i].number);
        }
        totals = ledger_totals(world->books.ledger);
        assert_int_equal(books_held(&world->books), 0);
        assert_int_equal(world->books.lease.host.used, 0);
        assert_int_equal(naive_held(world->naive), 0);
        assert_int_equal(totals.n_clients + totals.n_objects + totals.n_memories + totals.n_mappings +
                                 totals.n_exports + totals.n_managed,
                         0);
        assert_true(ledger_is_sound(world->books.ledger));
}

static void a_program_is_served_and_charged(void **state)
{
        const struct program *program = *state;
        struct world *world = calloc(1, sizeof(*world));
        char peak[BYTES_TEXT];

        assert_non_null(world);
        world->program = program;
        books_init(&world->books);
        world->naive = naive_new();
        assert_non_null(world->naive);
        for (size_t i = 0; i < PROCESSES_MAX && program->names[i]; i++) {
                world->processes[world->n_processes++].number = (unsigned int)i + 1;
                load(&world->processes[i], program->names[i]);
        }
        play_all(world);
        assert_true(world->books.n_calls > 0);
        if (!program->is_overcharged)
                assert_int_equal(world->books.peak, naive_peak(world->naive));
        print_message("# %s: %u calls, %u allocations of video memory, at most %s at once\n", program->names[0],
                      world->books.n_calls, world->books.n_charges, bytes_format(naive_peak(world->naive), peak));
        world_end(world);

        books_done(&world->books);
        naive_free(world->naive);
        for (size_t i = 0; i < world->n_processes; i++)
                free(world->processes[i].text);
        free(world);
}

static bool is_played(const char *file)
{
        for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
                for (size_t k = 0; k < PROCESSES_MAX && programs[i].names[k]; k++)
                        if (!strcmp(programs[i].machine, machine) &&
                            !strncmp(programs[i].names[k], file, strlen(programs[i].names[k])) &&
                            !strcmp(file + strlen(programs[i].names[k]), ".txt"))
                                return true;
        return false;
}

static void no_trace_is_left_out(void **state)
{
        DIR *dir = opendir(directory);
        struct dirent *entry;

        (void)state;
        assert_non_null(dir);
        while ((entry = readdir(dir)))
                if (strstr(entry->d_name, ".txt") && !is_played(entry->d_name))
                        fail_msg("%s is not played", entry->d_name);
        (void)closedir(dir);
}

int main(int argc, char **argv)
{
        struct CMUnitTest tests[ARRAY_SIZE(programs) + 1] = { cmocka_unit_test(no_trace_is_left_out) };
        size_t n = 1;

        if (argc != 3) {
                fprintf(stderr, "usage: replay DIRECTORY MACHINE\n");
                return 2;
        }
        directory = argv[1];
        machine = argv[2];
        for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
                if (!strcmp(programs[i].machine, machine))
                        tests[n++] = (struct CMUnitTest){ programs[i].names[0], a_program_is_served_and_charged, NULL,
                                                          NULL, (void *)(uintptr_t)&programs[i] };
        return _cmocka_run_group_tests("trace", tests, n, NULL, NULL);
}
