#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A fake of `sublet daemon`, for tests that set the shared control block directly: it grants all requests, starts the shim,
and then obeys lines on its stdin, each answered with one line of JSON on stdout.

        lessor.py SUBLET DIR [--quota BYTES] [--off]

        off|on                  writes the desired state (a real daemon also makes the driver call; here the shim is tested)
        slice NSEC              watch NSEC
        set JSON                sends a message to the shim          end        ends the tenant
        death PID               kills the process: microseconds from its end until its memory is accounted as free
        block                   the control block with its channels  stop       no heartbeat from here on; beat: again
        words                   the messages of the shims since the last call
--off: tenants begin with channels disabled. A fake that is killed is as dead as a daemon.
"""
import array, fcntl, json, mmap, os, select, socket, struct, subprocess, sys, time

DEVICE, DEVICES, CHANNELS, DEVICE_SIZE, ROWS = 160, 32, 160 + 120 * 32, 120, 1536
SIZE = CHANNELS + 24 * ROWS
sublet, where = sys.argv[1], sys.argv[2]
options = sys.argv[3:]
quota = int(options[options.index('--quota') + 1]) if '--quota' in options else 8 << 30


class ControlBlock:
    def __init__(self, fd):
        self.map = mmap.mmap(fd, SIZE)
        os.close(fd)

    def get(self, at, kind='<Q'):
        return struct.unpack_from(kind, self.map, at)[0]

    def put(self, at, value, kind='<Q'):
        struct.pack_into(kind, self.map, at, value)

    def device(self, index):
        return DEVICE + DEVICE_SIZE * index

    def notify(self):
        self.put(152, (self.get(152, '<I') + 1) & 0xffffffff, '<I')
        import ctypes
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.map)) + 152
        ctypes.CDLL(None).syscall(202, ctypes.c_void_p(address), 1, 2**31 - 1, None, None, 0)

    def heartbeat(self):
        self.put(144, time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    def show(self):
        names = {'quota': (0, '<Q'), 'held': (8, '<Q'), 'peak': (16, '<Q'), 'n_refused': (24, '<Q'),
                 'launched_at': (32, '<Q'), 'n_pending': (40, '<I'), 'can_watch': (44, '<I'), 'checked_at': (48, '<Q'),
                 'slice_set': (56, '<Q'), 'n_slice_failed': (64, '<I'), 'is_reenabled': (68, '<I'), 'is_disabled': (72, '<I'),
                 'slice': (80, '<Q'), 'watch': (88, '<Q')}
        rows = []
        for i in range(self.get(96, '<I')):
            client, handle, group, cid, device, compute, _, order = struct.unpack_from('<IIIIHBBI', self.map,
                                                                                   CHANNELS + 24 * i)
            if handle:
                rows.append([client, handle, group, cid, device, compute, order])
        return {'tenant': self.map[20:84].split(b'\0')[0].decode(), 'keeper': self.get(16, '<I'),
                'n_processes': self.get(100, '<I'), 'has_ended': self.get(104, '<I'),
                'now': time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                'channels': rows, 'n_compute': sum(r[5] for r in rows),
                'devices': [{n: self.get(self.device(i) + at, kind) for n, (at, kind) in names.items()}
                            for i in range(self.get(88, '<I'))]}


def listen(name, mode):
    path = os.path.join(where, name)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener_socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener_socket.bind(path)
    os.chmod(path, mode)
    listener_socket.listen(64)
    return listener_socket


def receive(peer):
    data, ancillary, _, _ = peer.recvmsg(65536, socket.CMSG_SPACE(16))
    fds = array.array('i')
    for level, kind, cmsg in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(cmsg[:len(cmsg) - len(cmsg) % 4])
    return (json.loads(data) if data else None), list(fds)


def send(peer, kind, **fields):
    peer.send(json.dumps({'v': 1, 'type': kind, **fields}).encode())


def spawn(lease, listener, run):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    text = os.memfd_create('lease')
    os.write(text, json.dumps(lease).encode())
    os.lseek(text, 0, 0)
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (listener, theirs.fileno(), run.fileno(), text)]
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, fd in zip((3, 4, 5, 6), moved):
            os.dup2(fd, number, inheritable=True)
        os.closerange(7, 256)
        os.dup2(os.open('/dev/null', os.O_RDWR), 0)
        os.dup2(0, 1)
        os.execv(sublet, ['sublet', 'keeper', '--dir', where])
    for fd in moved + [listener, text]:
        os.close(fd)
    theirs.close()
    run.close()
    return ours


tenant_listener, shim_listener = listen('tenant.sock', 0o666), listen('keeper.sock', 0o600)
runs, shims, blocks, words, newest = {}, [], {}, [], []
has_heartbeat = True
print('ready', flush=True)


def on_run(peer):
    try:
        message, fds = receive(peer)
    except OSError:
        message, fds = None, []
    if not message:
        runs.pop(peer)
        peer.close()
    elif message['type'] == 'lease':
        runs[peer] = message
        send(peer, 'granted', tenant=message['tenant'], env={})
    elif message['type'] == 'listener':
        asked = runs.pop(peer)
        lease = {'tenant': asked['tenant'], 'command': asked['command'], 'mode': '', 'owner': os.getuid(), 'since': 1,
                 'share': asked['share'], 'cap': asked['cap'], 'class': asked['class'], 'ipc_host': False,
                 'audit_ms': asked['audit_ms'], 'devices': [{'index': 0, 'quota_bytes': quota}],
                 'host_bytes': 64 << 30, 'managed': 'charge', 'groups_max': 512, 'channels_max': 1536}
        shims.append(spawn(lease, fds[0], peer))


def on_shim(peer):
    try:
        message, fds = receive(peer)
    except OSError:
        message, fds = None, []
    if not message:
        shims.remove(peer)
        peer.close()
        return
    if message['type'] == 'hello':
        blocks[peer] = ControlBlock(fds[0])
        newest.append(blocks[peer])
        blocks[peer].put(blocks[peer].device(0) + 72, '--off' in options, '<I')
        blocks[peer].heartbeat()
        blocks[peer].notify()
    words.append(message)


def obey(line):
    global has_heartbeat
    verb, *rest = line.split(None, 1)
    rest = rest[0] if rest else ''
    peer = shims[-1] if shims else None
    block = blocks[peer] if peer in blocks else newest[-1] if newest and not shims else None
    if verb in ('off', 'on'):
        block.put(block.device(0) + 72, verb == 'off', '<I')
        block.notify()
    elif verb in ('slice', 'watch'):
        block.put(block.device(0) + (80 if verb == 'slice' else 88), int(rest))
        block.notify()
    elif verb == 'set':
        send(peer, 'set', **json.loads(rest))
    elif verb == 'end':
        send(peer, 'end')
    elif verb == 'stop':
        has_heartbeat = False
    elif verb == 'beat':
        has_heartbeat = True
    elif verb == 'death':
        gone = os.pidfd_open(int(rest))
        os.kill(int(rest), 9)
        select.select([gone], [], [])
        start = time.monotonic_ns()
        while block.get(block.device(0) + 8) and time.monotonic_ns() - start < 5e9:
            time.sleep(0.0002)
        return {'took': (time.monotonic_ns() - start) // 1000}
    elif verb == 'block':
        return block.show() if block else {}
    elif verb == 'words':
        said = list(words)
        words.clear()
        return said
    return {}


while True:
    ready, _, _ = select.select([tenant_listener, shim_listener, sys.stdin, *runs, *shims], [], [], 0.05)
    for source in ready:
        if source is tenant_listener:
            runs[source.accept()[0]] = None
        elif source is shim_listener:
            shims.append(source.accept()[0])
        elif source is sys.stdin:
            text = sys.stdin.readline()
            if not text:
                sys.exit(0)
            print(json.dumps(obey(text)), flush=True)
        elif source in runs:
            on_run(source)
        elif source in shims:
            on_shim(source)
    if has_heartbeat:
        for peer in shims:
            if peer in blocks:
                blocks[peer].heartbeat()
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
