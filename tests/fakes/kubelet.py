#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Replaces kubelet (tests/cluster has the real one). It uses gRPC's own library, which shares no code with ours.

    kubelet.py DIR COMMAND...        serves Registration at DIR/kubelet.sock; a command per line of its input, an answer per line

    wait RESOURCE [N]                until RESOURCE is registered (for the Nth time), and its list is followed
    list RESOURCE                    "TOTAL HEALTHY" of the newest list
    ids RESOURCE N...                N ids of the newest list, starting there
    prefer RESOURCE SIZE [ID...]     of all ids but those
    allocate RESOURCE ID...          the answer, as sorted words; or "error CODE TEXT"
    prestart RESOURCE ID...          "ok"; or "error CODE TEXT"
    call RESOURCE METHOD HEX         any bytes to any method: the length of the answer; or "error CODE TEXT"
    authority RESOURCE               GetDevicePluginOptions with the :authority of a kubelet before 1.26
    restart                          as kubelet restarts: the folder is emptied, and it listens anew
    lists RESOURCE                   how many lists have come
    refuse RESOURCE                  the next registration of it
"""
import concurrent.futures
import glob
import os
import sys
import threading
import time

import grpc


# Protobuf by hand: what a peer that shares no code with the plugin needs.
def varint(n):
    out = b''
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data):
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            size = number()
            yield key >> 3, data[at:at + size]
            at += size


def texts(data, number):
    return [value.decode() for n, value in fields(data) if n == number]


class Kubelet:
    def __init__(self, folder):
        self.folder, self.plugins, self.seen, self.refused = folder, {}, {}, set()
        self.lock = threading.Condition()
        self.begin()

    def begin(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('v1beta1.Registration', {
            'Register': grpc.unary_unary_rpc_method_handler(self.register, None, None)}),))
        self.server.add_insecure_port('unix:' + self.folder + '/kubelet.sock')
        self.server.start()

    def restart(self):
        self.server.stop(0).wait()
        for path in glob.glob(self.folder + '/*'):
            os.unlink(path)
        for plugin in list(self.plugins.values()):
            plugin['channel'].close()
        self.plugins = {}
        self.begin()
        return 'ok'

    def register(self, request, context):
        got = dict(fields(request))
        if got[1] != b'v1beta1':
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, 'version')
        name = got[3].decode()
        if name in self.refused:
            self.refused.remove(name)
            context.abort(grpc.StatusCode.UNAVAILABLE, 'not now')
        # Kubelet dials back before it answers.
        channel = grpc.insecure_channel('unix:' + self.folder + '/' + got[2].decode())
        grpc.channel_ready_future(channel).result(10)
        options = channel.unary_unary('/v1beta1.DevicePlugin/GetDevicePluginOptions')(b'', timeout=5)
        plugin = {'channel': channel, 'options': dict(fields(options)), 'path': got[2].decode(), 'list': [], 'lists': 0}
        with self.lock:
            self.plugins[name] = plugin
            self.seen[name] = self.seen.get(name, 0) + 1
        threading.Thread(target=self.follow, args=(plugin,), daemon=True).start()
        return b''

    def follow(self, plugin):
        try:
            for answer in plugin['channel'].unary_stream('/v1beta1.DevicePlugin/ListAndWatch')(b''):
                rows = [value for n, value in fields(answer) if n == 1]
                with self.lock:
                    plugin['list'] = [(texts(row, 1)[0], texts(row, 2)[0]) for row in rows]
                    plugin['lists'] += 1
                    self.lock.notify_all()
        except (grpc.RpcError, ValueError):
            pass

    def call(self, name, method, data):
        try:
            return self.plugins[name]['channel'].unary_unary('/v1beta1.DevicePlugin/' + method)(data, timeout=10)
        except grpc.RpcError as error:
            return 'error %s %s' % (error.code().name, error.details())

    def wait(self, name, times='1'):
        with self.lock:
            for _ in range(200):
                if self.seen.get(name, 0) >= int(times) and self.plugins.get(name, {}).get('lists'):
                    return 'ok'
                self.lock.wait(.1)
        return 'never'

    def list(self, name):
        rows = self.plugins[name]['list']
        return '%d %d' % (len(rows), sum(health == 'Healthy' for _, health in rows))

    def lists(self, name):
        return str(self.plugins[name]['lists'])

    def refuse(self, name):
        self.refused.add(name)
        return 'ok'

    def ids(self, name, first, n):
        return ' '.join(row[0] for row in self.plugins[name]['list'][int(first):int(first) + int(n)])

    def prefer(self, name, size, *without):
        available = [row[0] for row in self.plugins[name]['list'] if row[0] not in without]
        ask = b''.join(field(1, i.encode()) for i in available) + varint(3 << 3) + varint(int(size))
        answer = self.call(name, 'GetPreferredAllocation', field(1, ask))
        return answer if isinstance(answer, str) else ' '.join(texts(next(fields(answer))[1], 1))

    def allocate(self, name, *ids):
        answer = self.call(name, 'Allocate', field(1, b''.join(field(1, i.encode()) for i in ids)))
        if isinstance(answer, str):
            return answer
        words = []
        for n, value in fields(dict(fields(answer)).get(1, b'')):
            parts = [v.decode() if isinstance(v, bytes) else str(v) for _, v in fields(value)]
            words.append({1: 'env', 2: 'mount', 3: 'node', 4: 'annotation', 5: 'cdi'}[n] + ':' + '='.join(parts))
        return ' '.join(sorted(words))

    def prestart(self, name, *ids):
        answer = self.call(name, 'PreStartContainer', b''.join(field(1, i.encode()) for i in ids))
        return answer if isinstance(answer, str) else 'ok'

    def raw(self, name, method, data=''):
        answer = self.call(name, method, bytes.fromhex(data))
        return answer if isinstance(answer, str) else str(len(answer))

    def authority(self, name):
        path = self.folder + '/' + self.plugins[name]['path']
        channel = grpc.insecure_channel('unix:' + path, options=[('grpc.default_authority', path.replace('/', '%2F'))])
        try:
            return str(len(channel.unary_unary('/v1beta1.DevicePlugin/GetDevicePluginOptions')(b'', timeout=5)))
        finally:
            channel.close()


def main():
    kubelet = Kubelet(sys.argv[1])
    print('ready', flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            print(getattr(kubelet, {'call': 'raw'}.get(command, command))(*arguments), flush=True)
        except Exception as error:  # a test reads one line per command
            print('failed', repr(error), flush=True)


main()
