/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a real driver answered to real programs, asked again of the simulated one: the same calls in
 * the same order, and each must return the same and leave the same status. Handles of clients,
 * which the driver picks, device ids and descriptors are translated; addresses are ours.
 *
 * Not comparable, and left out: traces of a second process (*-child.txt), whose objects of the
 * first are not there, and the traces of tests/gpu/raw.c, which began before the recorder.
 */
#include "sim/rig.h"

#include "sim/client/wire.h"

/* The only reader of traces; a unit is built from one file. It knows no base/text.h, which has a
 * type of the name of a variable there. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "../../trace/trace.c"
#pragma GCC diagnostic pop

#include <dirent.h>

enum {
        FDS_MAX = 4096,
        CLIENTS_MAX = 64,
        LISTS_MAX = 8,
        TEXT_MAX = 16 << 20,
};

static const char directory[] = "tests/trace/h200-580.159.04";

struct replay {
        struct rig *rig;
        struct trace trace;
        int fds[FDS_MAX];
        char nodes[FDS_MAX][24];
        struct {
                uint32_t theirs, ours;
        } clients[CLIENTS_MAX];
        size_t n_clients, n_calls, n_different;
        uint32_t channel; /* the latest */
        unsigned char block[TRACE_BYTES_MAX], params[TRACE_BYTES_MAX], lists[LISTS_MAX][TRACE_BYTES_MAX];
};

/* Answers that depend on what no trace shows. */
static bool is_known_to_differ(const struct rm_call *call)
{
        return call->class_or_cmd == 0x2080014b || /* parts of the control block's ROM */
               call->class_or_cmd == 0x20800146;   /* whether another process holds the reservation */
}

static uint32_t client_ours(const struct replay *replay, uint32_t theirs)
{
        for (size_t i = 0; i < replay->n_clients; i++)
                if (replay->clients[i].theirs == theirs)
                        return replay->clients[i].ours;
        return theirs;
}

/* Every word that looks like one of their clients. */
static void clients_translate(const struct replay *replay, unsigned char *bytes_, size_t size)
{
        for (size_t at = 0; at + 4 <= size && at < 128; at += 4)
                if ((rm_get32(bytes_, size, at) & 0xfff00000) == 0xc1d00000)
                        rm_put32(bytes_, size, at, client_ours(replay, rm_get32(bytes_, size, at)));
}

static void fd_translate(const struct replay *replay, unsigned char *bytes_, size_t size, uint32_t at)
{
        uint32_t fd = rm_get32(bytes_, size, at);

        if (fd < FDS_MAX && replay->fds[fd] >= 0)
                rm_put32(bytes_, size, at, (uint32_t)replay->fds[fd]);
}

static void params_translate(struct replay *replay, const struct rm_call *call, size_t size)
{
        const struct rm_pointer *pointers;
        size_t n;

        clients_translate(replay, replay->params, size);
        if (call->kind != RM_CONTROL)
                return;
        switch (call->class_or_cmd) {
        case RM_GET_ID_INFO:
        case RM_GET_ID_INFO_V2:
        case 0x215:
        case 0x21b:
        case 0x279:
                rm_put32(replay->params, size, 0, 0x100); /* our first device */
                break;
        case 0x3d05:
                fd_translate(replay, replay->params, size, 16);
                break;
        case 0x3d06:
        case 0x3d08:
        case 0x3d0b:
        case 0x3d0c:
                fd_translate(replay, replay->params, size, 0);
                break;
        }
        n = rm_pointers(&replay->rig->layout, call->class_or_cmd, &pointers);
        for (size_t i = 0; i < n && i < LISTS_MAX; i++) {
                rm_put32(replay->lists[i], 4, 0, replay->channel); /* lists are not recorded; this is one of channels */
                if (rm_get64(replay->params, size, pointers[i].at))
                        rm_put64(replay->params, size, pointers[i].at, (uintptr_t)replay->lists[i]);
        }
}

static void block_translate(struct replay *replay, const struct rm_call *call, uint32_t size, bool is_uvm)
{
        if (!is_uvm)
                clients_translate(replay, replay->block, size < 64 ? size : 64);
        if (call->kind == RM_UVM_MAP_EXTERNAL)
                rm_put32(replay->block, size, replay->rig->layout.uvm_map_external_client_at,
                         client_ours(replay, call->source_client));
        if (call->kind == RM_UVM_REGISTER_GPU)
                gpu_uuid(0, replay->block);
        if (call->fd_at != UINT32_MAX)
                fd_translate(replay, replay->block, size, call->fd_at);
        if (call->params_at != UINT32_MAX && call->params)
                rm_put64(replay->block, size, call->params_at, (uintptr_t)replay->params);
        if (call->rights_at != UINT32_MAX)
                rm_put64(replay->block, size, call->rights_at, 0);
}

static void note_made(struct replay *replay, const struct rm_call *call, const struct trace_event *event, uint32_t size)
{
        if (call->kind != RM_ALLOC)
                return;
        if (RM_CLASS_IS_CHANNEL(call->class_or_cmd))
                replay->channel = call->object;
        if (call->class_or_cmd != RM_CLASS_CLIENT && call->class_or_cmd != RM_CLASS_ROOT)
                return;
        if (replay->n_clients == CLIENTS_MAX || !event->out.data)
                return;
        replay->clients[replay->n_clients].theirs = rm_get32(event->out.data, event->out.size, 8);
        replay->clients[replay->n_clients++].ours = rm_get32(replay->block, size, 8);
}

static void ioctl_again(struct replay *replay, const struct trace_event *event)
{
        bool is_uvm = strncmp(replay->nodes[event->fd], "nvidia-uvm", 10) == 0;
        size_t params = event->pin.data ? event->pin.size : 0;
        const struct rm_layout *layout = &replay->rig->layout;
        uint32_t size, status = 0, expected = 0;
        struct rm_call call;
        enum rm_kind kind;
        int r, rc = event->rc < 0 ? -event->error : event->rc;

        assert_int_equal(rm_request_find(layout, is_uvm ? RM_NODE_UVM : RM_NODE_CTL, event->request, &kind, &size),
                         RM_OK);
        if (event->in.data)
                memcpy(replay->block, event->in.data, event->in.size);
        if (params)
                memcpy(replay->params, event->pin.data, params);
        assert_int_equal(rm_decode(layout, kind, event->request, replay->block, size, &call), RM_OK);
        block_translate(replay, &call, size, is_uvm);
        params_translate(replay, &call, params);
        r = sim_ioctl(replay->fds[event->fd], layout, event->request, replay->block);
        note_made(replay, &call, event, size);

        if (call.status_at != UINT32_MAX) {
                status = rm_get32(replay->block, size, call.status_at);
                expected = rm_get32(event->out.data ? event->out.data : event->in.data, size, call.status_at);
        }
        replay->n_calls++;
        if ((r == rc && status == expected) || is_known_to_differ(&call))
                return;
        replay->n_different++;
        print_message("# line %zu: %s %x of %x: %d, status %x; the driver: %d, status %x\n", replay->trace.line,
                      rm_kind_name(kind), call.class_or_cmd, call.object, r, status, rc, expected);
}

static void mmap_again(struct replay *replay, const struct trace_event *event)
{
        struct sim_request request = { .op = SIM_OP_MMAP,
                                       .argument = { (uint64_t)event->ret, event->length, event->prot, event->flags,
                                                     event->offset } };
        struct sim_answer answer;
        int fd;

        if (event->fd < 0 || strcmp(replay->nodes[event->fd], "nvidia-uvm") != 0)
                return;
        assert_int_equal(sim_transact(replay->fds[event->fd], &request, NULL, 0, -1, &answer, &fd), 0);
        close(fd);
        replay->n_different += answer.result < 0;
}

static void event_again(struct replay *replay, const struct trace_event *event)
{
        const char *node = event->text && strrchr(event->text, '/') ? strrchr(event->text, '/') + 1 : "";

        switch (event->kind) {
        case TRACE_OPEN:
                if (event->error || strncmp(node, "nvidia-cap", 10) == 0)
                        return;
                (void)snprintf(replay->nodes[event->fd], sizeof(replay->nodes[0]), "%s", node);
                replay->fds[event->fd] = rig_open(replay->rig, node);
                return;
        case TRACE_CLOSE:
                if (event->fd < 0 || event->fd >= FDS_MAX || replay->fds[event->fd] < 0)
                        return;
                close(replay->fds[event->fd]);
                replay->fds[event->fd] = -1;
                return;
        case TRACE_IOCTL:
                if (replay->fds[event->fd] >= 0)
                        ioctl_again(replay, event);
                return;
        case TRACE_MMAP:
                mmap_again(replay, event);
                return;
        case TRACE_MUNMAP:
                for (size_t fd = 0; fd < FDS_MAX; fd++)
                        if (replay->fds[fd] >= 0 && strcmp(replay->nodes[fd], "nvidia-uvm") == 0)
                                (void)sim_munmap(replay->fds[fd], (void *)(uintptr_t)event->address, event->length);
                return;
        default:
                return;
        }
}

static size_t file_read(const char *name, char *text, size_t size)
{
        char path[512];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "rb");
        assert_non_null(file);
        size = fread(text, 1, size, file);
        (void)fclose(file);
        return size;
}

static void replay_one(const char *name)
{
        static char text[TEXT_MAX];
        struct rig rig = { 0 };
        struct replay *replay = calloc(1, sizeof(*replay));
        struct trace_event event;
        int r;

        assert_non_null(replay);
        rig_start(&rig, 1, 143771 * MIB);
        replay->rig = &rig;
        for (size_t fd = 0; fd < FDS_MAX; fd++)
                replay->fds[fd] = -1;
        trace_start(&replay->trace, text, file_read(name, text, sizeof(text)));
        while ((r = trace_next(&replay->trace, &event)) > 0)
                event_again(replay, &event);
        assert_int_equal(r, 0);
        print_message("# %s: %zu calls, %zu differ\n", name, replay->n_calls, replay->n_different);
        assert_true(replay->n_calls > 20);
        assert_int_equal(replay->n_different, 0);
        for (size_t fd = 0; fd < FDS_MAX; fd++)
                if (replay->fds[fd] >= 0)
                        close(replay->fds[fd]);
        rig_stop(&rig);
        free(replay);
}

static bool is_comparable(const char *name)
{
        size_t length = strlen(name);

        return length > 4 && strcmp(name + length - 4, ".txt") == 0 && !strstr(name, "-child") &&
               strncmp(name, "raw-", 4) != 0;
}

static void a_real_drivers_answers_are_the_simulators(void **state)
{
        DIR *traces = opendir(directory);
        struct dirent *entry;
        size_t n = 0;

        (void)state;
        if (!traces)
                skip(); /* not started at the root of the sources */
        while ((entry = readdir(traces)) != NULL) {
                if (!is_comparable(entry->d_name))
                        continue;
                replay_one(entry->d_name);
                n++;
        }
        (void)closedir(traces);
        assert_true(n >= 10);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_real_drivers_answers_are_the_simulators),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
