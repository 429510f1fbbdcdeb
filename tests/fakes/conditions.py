#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The API server's match conditions: decides of pods whether it asks the webhook about them.

    conditions.py FILE      FILE: what deploy/kubernetes/certificate prints

The expressions are CEL. Of CEL this knows what they use, by making Python of it: a macro's body is its argument, `has`
is false where a field is absent, and reading an absent field is an error, as it is there.
"""
import copy
import re
import sys

import yaml


class Fields(dict):
    def __getattr__(self, name):
        return wrap(self[name])


def wrap(value):
    return Fields(value) if isinstance(value, dict) else [wrap(v) for v in value] if isinstance(value, list) else value


def closing(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += {'(': 1, ')': -1}.get(text[i], 0)
        if not depth:
            return i
    raise SyntaxError(text)


def python(cel):
    cel = re.sub(r"'[^']*'", lambda m: m[0].replace('.', '\0'), cel)  # what looks like a field there is none
    while (found := re.search(r'([\w.]+)\.exists\((\w+), ', cel)):
        end = closing(cel, cel.index('(', found.start(2) - 2))
        cel = f'{cel[:found.start()]}any(({python(cel[found.end():end])}) for {found[2]} in {found[1]}){cel[end + 1:]}'
    cel = re.sub(r'has\(([\w.]+)\.(\w+)\)', r'("\2" in \1)', cel)
    cel = re.sub(r'\((\("\w+" in [\w.]+\)) \? ([\w.]+) : \{\}\)', r'(\2 if \1 else {})', cel)
    for old, new in (('&&', ' and '), ('||', ' or '), ('startsWith', 'startswith'), ('null', 'None')):
        cel = cel.replace(old, new)
    return cel.replace('\0', '.')


def pod(containers=({'name': 'c', 'resources': {}},), init=None, annotations=None, labels=None, **spec):
    made = {'metadata': {'name': 'p'}, 'spec': {'containers': copy.deepcopy(list(containers)), **spec}}
    if init:
        made['spec']['initContainers'] = init
    if annotations:
        made['metadata']['annotations'] = annotations
    if labels:
        made['metadata']['labels'] = labels
    return made


def asks(name, part='limits'):
    return [{'name': 'b'}, {'name': 'c', 'resources': {part: {'cpu': '1', name: '1'}}}]


ALLOCATION = {'sublet.dev/allocation': '{}'}
SECCOMP = {'container.seccomp.security.alpha.kubernetes.io/c': 'unconfined'}
RENTING = pod(asks('sublet.dev/gpu-mem'), annotations=ALLOCATION)
CASES = [  # object, old object, whether the webhook is asked
    (pod(), None, False),
    (pod([{'name': 'c'}]), None, False),
    (pod(asks('nvidia.com/gpu')), None, False),
    (pod(annotations={'mine': '1'}), None, False),
    (pod(runtimeClassName='gvisor'), None, False),
    (pod(runtimeClassName='sublet'), None, True),
    *[(pod(asks(name, part)), None, True) for part in ('limits', 'requests')
      for name in ('sublet.dev/gpu-mem', 'sublet.dev/gpu-share', 'sublet.dev/gpu-count', 'aliyun.com/gpu-mem', 'nvidia.com/gpumem',
                   'nvidia.com/gpumem-percentage', 'nvidia.com/gpucores', 'nvidia.com/priority')],
    (pod(asks('nvidia.com/gpu.shared')), None, False),
    (pod(init=asks('sublet.dev/gpu-mem')), None, True),
    (pod(annotations=ALLOCATION), None, True),
    (pod(annotations={'ALIYUN_COM_GPU_MEM_IDX': '0'}), None, True),
    (pod(), pod(annotations=ALLOCATION), True),
    (pod(annotations=ALLOCATION), pod(), True),
    (pod(annotations={'mine': '2'}), pod(annotations={'mine': '1'}), False),
    (pod(ephemeralContainers=[{'name': 'd'}]), pod(), False),
    (dict(RENTING, spec=dict(RENTING['spec'], ephemeralContainers=[{'name': 'd'}])), RENTING, True),
    (dict(RENTING, metadata={'name': 'p', 'annotations': ALLOCATION | SECCOMP}), RENTING, True),
    (dict(RENTING, metadata={'name': 'p', 'annotations': ALLOCATION, 'finalizers': ['a']}), RENTING, False),
]


def main():
    configurations = [one for one in yaml.safe_load_all(open(sys.argv[1])) if 'webhooks' in one]
    assert len(configurations) == 2
    for configuration in configurations:
        (webhook,) = configuration['webhooks']
        assert webhook['failurePolicy'] == 'Fail'
        conditions = [python(c['expression']) for c in webhook['matchConditions']]
        for new, old, expected in CASES:
            names = {'object': wrap(new), 'oldObject': wrap(old)}
            found = all([eval(condition, dict(names)) for condition in conditions])  # each, as an error counts
            assert found == expected, f'{configuration["kind"]}: {new} {old}: {found}'
    print(f'{len(CASES)} pods')


if __name__ == '__main__':
    main()
