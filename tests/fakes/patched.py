#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the API server makes of a pod and the patches of a webhook's answer (RFC 6902: add, remove, replace).

    patched.py POD < ANSWER     both JSON; prints the pod
"""
import base64
import json
import sys


def apply(document, patch):
    *way, last = [t.replace('~1', '/').replace('~0', '~') for t in patch['path'].split('/')[1:]]
    for token in way:
        document = document[int(token) if isinstance(document, list) else token]
    if patch['op'] != 'add':  # what is replaced or removed must be there
        del document[int(last) if isinstance(document, list) else last]
    if patch['op'] == 'remove':
        return
    if isinstance(document, list):
        document.insert(len(document) if last == '-' else int(last), patch['value'])
    else:
        document[last] = patch['value']


def main():
    pod, response = json.loads(sys.argv[1]), json.load(sys.stdin)['response']
    for patch in json.loads(base64.b64decode(response.get('patch', 'W10='))):
        apply(pod, patch)
    print(json.dumps(pod))


if __name__ == '__main__':
    main()
