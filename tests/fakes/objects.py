#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of Kubernetes objects are the same: objects.py FILE[,FILE...] FILE[,FILE...]

The order counts for nothing, nor do the hash that kustomize puts behind a ConfigMap's name, what certificates and keys
are in a Secret, and which authority a webhook is known by; it has to be known by one. Prints what differs.
"""
import re
import sys

import yaml


def plain(one):
    if one['kind'] == 'Secret':
        one['data'] = sorted(one['data'])
    for webhook in one.get('webhooks', []):
        assert webhook['clientConfig'].pop('caBundle', None) or 'cert-manager.io/inject-ca-from' in one['metadata']['annotations']
    if one['kind'] == 'ConfigMap':
        one['metadata']['name'] = re.sub(r'-[a-z0-9]{10}$', '', one['metadata']['name'])
        one['data'] = {name: yaml.safe_load(text) for name, text in one['data'].items()}
    return one


def read(paths):
    found = {}
    for path in paths.split(','):
        for one in filter(None, yaml.safe_load_all(open(path))):
            one = plain(one)
            key = (one['kind'], one['metadata'].get('namespace', ''), one['metadata']['name'])
            if key[0] == 'Namespace' and key in found:  # several files begin with it
                one['metadata']['labels'].update(found[key]['metadata']['labels'])
            elif key in found:
                sys.exit(f'{path}: {key} twice')
            found[key] = one
    return found


def differences(a, b, at):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from differences(a.get(key), b.get(key), f'{at}.{key}')
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, pair in enumerate(zip(a, b)):
            yield from differences(*pair, f'{at}[{i}]')
    elif a != b:
        yield f'{at}: {a!r}, {b!r}'


def main():
    first, second = map(read, sys.argv[1:])
    wrong = [line for key in sorted(first.keys() | second.keys())
             for line in differences(first.get(key), second.get(key), '/'.join(key))]
    print('\n'.join(wrong) if wrong else f'{len(first)} objects')
    sys.exit(bool(wrong))


if __name__ == '__main__':
    main()
