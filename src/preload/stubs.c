/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gate asks of its supervisor, answered inside a program: in place (host.h), or that nobody is there to ask.
 * The second kind stands in at link time for files of the gate that are not part of the library.
 */
#include "preload/inside.h"

#include "gate/move/move.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* ---- host.h: the program's own memory and descriptors -------------------------------------------------- */

/* Where the kernel does not let us: a bad pointer is then the program's fault, as in any function that is given one. */
static int copy_in_place(const struct iovec *to, const struct iovec *from, size_t n)
{
        for (size_t i = 0; i < n; i++)
                memcpy(to[i].iov_base, from[i].iov_base, to[i].iov_len);
        return 0;
}

/* A bad pointer is EFAULT, as the driver would say. */
static int read_self(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        int r = process_read(getpid(), ours, theirs, n);

        (void)thread;
        return r == -ENOSYS || r == -EPERM || r == -ESRCH ? copy_in_place(ours, theirs, n) : r;
}

static int write_self(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        int r = process_write(getpid(), ours, theirs, n);

        (void)thread;
        return r == -ENOSYS || r == -EPERM || r == -ESRCH ? copy_in_place(theirs, ours, n) : r;
}

static int fd_get(const struct process *process, pid_t thread, int theirs)
{
        (void)process;
        (void)thread;
        return fcntl(theirs, F_GETFD) < 0 ? -errno : theirs;
}

/* What fd_get gave is the program's: not ours to close. */
static void fd_put(const struct gate *gate, int fd)
{
        (void)gate;
        (void)fd;
}

static bool is_awaited(const struct request *request)
{
        (void)request;
        return true;
}

static void reader_release(struct worker *worker)
{
        (void)worker;
}

const struct gate_host preload_host = {
        .read = read_self,
        .write = write_self,
        .fd_get = fd_get,
        .fd_put = fd_put,
        .is_awaited = is_awaited,
        .is_there = is_awaited, /* it is ourselves */
        .reader_release = reader_release,
};

/* ---- state/files.h ------------------------------------------------------------------------------------- */

uint64_t files_find(struct files *files, int fd)
{
        (void)files;
        return files_lookup(preload_here, fd);
}

uint64_t files_keep(struct files *files, int fd)
{
        (void)files;
        return files_number(preload_here, fd);
}

bool files_join(struct files *files, uint64_t number, const uint8_t uuid[static UVM_UUID_SIZE])
{
        (void)files;
        (void)number;
        (void)uuid;
        return true;
}

/* The program counts for itself: host memory of the kernel is in no books here. */
bool files_group_begin(struct files *files, uint64_t number)
{
        (void)files, (void)number;
        return true;
}

void files_group_made(struct files *files, uint64_t number, uint64_t group)
{
        (void)files, (void)number, (void)group;
}

void files_group_end(struct files *files, uint64_t number, uint64_t group)
{
        (void)group;
        (void)files, (void)number;
}

bool uvm_space_leave(const struct gate_driver *driver, int fd, const uint8_t uuid[static UVM_UUID_SIZE])
{
        (void)driver;
        (void)fd;
        (void)uuid;
        return true;
}

/* ---- state/open_files.h: a program sees its own descriptors close ---------------------------------------- */

size_t files_count(struct files *files)
{
        (void)files;
        return 0;
}

uint64_t open_files_find(struct open_files *files, int fd)
{
        (void)files;
        return files_lookup(preload_here, fd);
}

uint64_t open_files_keep(struct open_files *files, int fd)
{
        (void)files;
        return files_number(preload_here, fd);
}

/* ---- state/listens.h: a bound against enemies, of which there is none inside a program --------------------- */

int listens_put(struct listens *listens, uint32_t client, uint32_t number)
{
        (void)listens;
        (void)client;
        (void)number;
        return 0;
}

void listens_take(struct listens *listens, uint32_t client, uint32_t number)
{
        (void)listens;
        (void)client;
        (void)number;
}

size_t listens_some(struct listens *listens, bool (*is_gone)(void *context, uint32_t client), void *context,
                    struct listen *ret, size_t n_room)
{
        (void)listens;
        (void)is_gone;
        (void)context;
        (void)ret;
        (void)n_room;
        return 0;
}

bool probe_listens(struct probe *probe, uint32_t client, uint32_t number)
{
        (void)probe;
        (void)client;
        (void)number;
        return true;
}

/* ---- a supervisor's: the answer is known, or nobody is there to ask -------------------------------------- */

/* The kernel has freed what a process had before anybody hears of its end: nothing of ours keeps it. */
bool has_late(struct gate *gate)
{
        (void)gate;
        return false;
}

bool settle_lately(struct gate *gate)
{
        (void)gate;
        return false; /* what ends is noticed when it ends: descriptors.c, managed.c, usage_segment.c */
}

bool has_managed(struct gate *gate)
{
        (void)gate;
        return false; /* likewise: none waits to be found unmapped */
}

void mappings_check(struct gate *gate)
{
        (void)gate; /* likewise: none is let through unseen */
}

bool sweep_all_managed(struct gate *gate)
{
        (void)gate;
        return false;
}

void gate_tell(struct gate *gate, enum event_kind event, pid_t process, const char *format, ...)
{
        (void)gate;
        (void)event;
        (void)process;
        (void)format; /* H4 */
}

void gate_refused(struct gate *gate, enum rm_kind kind, uint32_t number, unsigned int capability)
{
        (void)gate;
        (void)kind;
        (void)number;
        (void)capability; /* H4 */
}

/* The program's own munmap does not return it earlier: its process does. */
int serve_map(struct request *request)
{
        int r = perform(request);

        return r < 0 ? r : reply(request, r);
}

/* ---- GPU time is not decided here ------------------------------------------------------------------------ */

uint32_t channel_control_reserve(struct request *request)
{
        (void)request;
        return 0; /* RM_STATUS_OK: the driver's own limits hold */
}

void channel_control_begun(struct request *request, const struct ledger_object *object)
{
        (void)request;
        (void)object;
}

void channel_control_placed(struct request *request, const struct ledger_object *object)
{
        (void)request;
        (void)object;
}

uint32_t lent_reserve(struct request *request)
{
        (void)request;
        return RM_STATUS_INSUFFICIENT_RESOURCES; /* no server lends to a program without a gate */
}

void lent_put(struct request *request, const struct ledger_object *object)
{
        (void)request, (void)object;
}

void channel_control_gone(struct gate *gate, uint32_t class_number, uint32_t client, uint32_t handle)
{
        (void)gate;
        (void)class_number;
        (void)client;
        (void)handle;
}

int serve_schedule(struct request *request)
{
        int r = perform(request);

        return r < 0 ? r : reply(request, r);
}

/* What outlives a program is not its gate's any more, which has ended with it. */
void makers_note(const struct request *request)
{
        (void)request;
}

/* There are no jobs here: all processes of the tenant dup as they like. */
void loans_maker(struct request *request)
{
        (void)request;
}

/* ---- move/move.h: a program's memory stays where it is --------------------------------------------------- */

int move_enter(struct request *request)
{
        (void)request;
        return 0;
}

void move_leave(struct request *request)
{
        (void)request;
}

void move_note_object(const struct request *request, uint32_t handle)
{
        (void)request;
        (void)handle;
}

void move_note_map(const struct request *request, uint64_t where)
{
        (void)request;
        (void)where;
}

void move_pin(struct gate *gate, uint32_t client, uint32_t object)
{
        (void)gate;
        (void)client;
        (void)object;
}

void move_pin_named(const struct request *request)
{
        (void)request;
}
