/* What the gate's files ask of rooms that are not inside a program: the short answers. */
#include "preload/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

/* ---- memory of the program: in place ----------------------------------------------------------------- */

/* Where the kernel lets us, a bad pointer is EFAULT, as the driver would say; else it is the program's fault, as in
 * any function that is given one. */
static ssize_t copy(const struct iovec *to, const struct iovec *from, unsigned long n)
{
        ssize_t sum = 0;

        for (unsigned long i = 0; i < n; i++) {
                memcpy(to[i].iov_base, from[i].iov_base, to[i].iov_len);
                sum += (ssize_t)to[i].iov_len;
        }
        return sum;
}

ssize_t stub_readv(pid_t thread, const struct iovec *ours, unsigned long n, const struct iovec *theirs,
                   unsigned long n_theirs, unsigned long flags)
{
        ssize_t r = process_vm_readv(getpid(), ours, n, theirs, n_theirs, flags);

        (void)thread;
        return r < 0 && (errno == ENOSYS || errno == EPERM || errno == ESRCH) ? copy(ours, theirs, n) : r;
}

ssize_t stub_writev(pid_t thread, const struct iovec *ours, unsigned long n, const struct iovec *theirs,
                    unsigned long n_theirs, unsigned long flags)
{
        ssize_t r = process_vm_writev(getpid(), ours, n, theirs, n_theirs, flags);

        (void)thread;
        return r < 0 && (errno == ENOSYS || errno == EPERM || errno == ESRCH) ? copy(theirs, ours, n) : r;
}

int remote_read(pid_t thread, void *to, uint64_t from, size_t size)
{
        struct iovec ours = { to, size }, theirs = { (void *)(uintptr_t)from, size };
        ssize_t n = size ? stub_readv(thread, &ours, 1, &theirs, 1, 0) : 0;

        return n < 0 ? -errno : (size_t)n == size ? 0 : -EFAULT;
}

int remote_write(pid_t thread, uint64_t to, const void *from, size_t size)
{
        struct iovec ours = { (void *)(uintptr_t)from, size }, theirs = { (void *)(uintptr_t)to, size };
        ssize_t n = size ? stub_writev(thread, &ours, 1, &theirs, 1, 0) : 0;

        return n < 0 ? -errno : (size_t)n == size ? 0 : -EFAULT;
}

/* ---- descriptors: the program's own -------------------------------------------------------------------- */

int process_fd(const struct process *process, int fd)
{
        (void)process;
        return fcntl(fd, F_GETFD) < 0 ? -errno : fd;
}

/* closep in the gate's files (meson.build): what process_fd gave is not ours to close. */
void stub_keep(int *fd)
{
        *fd = -1;
}

uint64_t files_find(struct files *files, int fd)
{
        (void)files;
        return files_lookup(preload_here, fd);
}

uint64_t files_keep(struct files *files, int fd, bool is_space)
{
        (void)files;
        (void)is_space;
        return files_number(preload_here, fd);
}

/* ---- a supervisor's: the answer is known, or nobody is there to ask ---------------------------------------- */

bool request_is_alive(const struct request *request)
{
        (void)request;
        return true;
}

void reader_release(struct worker *worker)
{
        (void)worker;
}

/* The kernel has freed what a process had before anybody hears of its end: nothing of ours keeps it. */
bool has_late(struct gate *gate)
{
        (void)gate;
        return false;
}

bool settle_lately(struct gate *gate)
{
        (void)gate;
        return false; /* what ends is noticed when it ends: descriptors.c, managed.c, region.c */
}

bool has_managed(struct gate *gate)
{
        (void)gate;
        return false; /* likewise: none waits to be found unmapped */
}

bool sweep_all_managed(struct gate *gate, bool is_audit)
{
        (void)gate;
        (void)is_audit;
        return false;
}

void gate_tell(struct gate *gate, enum event_kind event, pid_t process, const char *format, ...)
{
        (void)gate;
        (void)event;
        (void)process;
        (void)format; /* H4 */
}

/* ---- GPU time is not decided here --------------------------------------------------------------------------- */

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
