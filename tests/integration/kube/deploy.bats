#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The manifests hold together: what kubectl makes of them names verbs and options that the program has.
# variants: plain, because it is about files
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}

setup() {
        export HOME=$BATS_TEST_TMPDIR
}

# made FOLDER: what kubectl makes of it, in $made. kubectl before 1.22 has a kustomize that does not know `labels`,
# which docs/kubernetes.md says.
made() {
        command -v kubectl > /dev/null || skip "no kubectl"
        mkdir -p "$BATS_TEST_TMPDIR/probe"
        printf 'resources: [a.yaml]\nlabels: [{pairs: {a: b}}]\n' > "$BATS_TEST_TMPDIR/probe/kustomization.yaml"
        printf '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n' > "$BATS_TEST_TMPDIR/probe/a.yaml"
        kubectl kustomize "$BATS_TEST_TMPDIR/probe" > /dev/null 2>&1 || skip "this kubectl's kustomize is older than 4.1"
        made=$BATS_TEST_TMPDIR/$(basename "$1").yaml
        kubectl kustomize "$root/deploy/$1" > "$made"
}

# takes VERB: the program takes its options in $made
takes() {
        local verb=$1 option
        grep -qE "^ +- $verb$" "$made" || { echo "nobody starts $verb"; return 1; }
        "$build/src/sublet" "$verb" --help > "$BATS_TEST_TMPDIR/$verb"
        # shellcheck disable=SC2013  # options have no blanks
        for option in $(awk -v v="$verb" '/- args:|args:/ { on = 0 } $0 ~ "^ +- " v "$" { on = 1; next } on && /^ +- --/ { sub(/=.*/, "", $2); print $2 } !/^ +- / { on = 0 }' "$made"); do
                grep -q -e "$option\b" "$BATS_TEST_TMPDIR/$verb" || { echo "$verb has no $option"; return 1; }
        done
}

# is_there KIND NAME: in $made
is_there() {
        awk -v RS='---\n' -v kind="$1" -v name="$2" '("\n" $0) ~ "\nkind: " kind "\n" && $0 ~ "\n  name: " name "\n" { found = 1 } END { exit !found }' "$made"
}

@test "every command line in the manifests is one that the program takes" {
        made kubernetes
        for verb in daemon keepers device-plugin extender webhook; do takes $verb; done
}

@test "by claims: the driver in the place of plugin and extender" {
        made kubernetes-dra
        for verb in daemon keepers dra-driver webhook; do takes $verb; done
        is_there DaemonSet dra-driver
        is_there DeviceClass sublet
        run ! is_there DaemonSet device-plugin
        run ! is_there Deployment extender
        run -2 env -u NODE_NAME "$build/src/sublet" dra-driver --server http://127.0.0.1:1
        [[ $output = *'--node NAME'* ]]
        mkdir "$BATS_TEST_TMPDIR/layer" # a path from here to there: kustomize takes no absolute one
        printf 'resources: [%s/kubernetes-dra]\ncomponents: [%s/kubernetes-dra/extended]\n' \
                "$(realpath --relative-to="$BATS_TEST_TMPDIR/layer" "$root/deploy")"{,} > "$BATS_TEST_TMPDIR/layer/kustomization.yaml"
        kubectl kustomize "$BATS_TEST_TMPDIR/layer" | grep -A3 '^kind: DeviceClass' | grep -q 'name: sublet'
        kubectl kustomize "$BATS_TEST_TMPDIR/layer" | grep -q 'extendedResourceName: sublet.dev/gpu'
}

@test "what holds tenants is replaced only by hand, and what may be upgraded holds none" {
        kind_of() { # NAME: how a DaemonSet is replaced
                awk -v RS='---\n' -v name="$1" '/\nkind: DaemonSet\n/ && $0 ~ "\n  name: " name "\n" { print /\n  updateStrategy:\n    type: OnDelete\n/ ? "OnDelete" : "RollingUpdate" }' "$made"
        }
        for folder in kubernetes kubernetes-preload; do
                made $folder
                [ "$(kind_of keepers)" = OnDelete ]
                [ "$(kind_of daemon)" = RollingUpdate ]
                [ "$(kind_of device-plugin)" = RollingUpdate ]
        done
}

@test "without a supervisor: the plugin makes the leases, and nothing asks for a runtime, an extender or a webhook" {
        made kubernetes
        is_there RuntimeClass sublet
        is_there Deployment extender
        made kubernetes-preload
        for verb in daemon keepers device-plugin; do takes $verb; done
        grep -qE '^ +- --preload$' "$made"
        run ! grep -qE 'placed|extender|webhook|sublet-scheduler|^kind: RuntimeClass' "$made"
        is_there Namespace sublet
        is_there ClusterRole sublet-device-plugin
        run -2 "$build/src/sublet" device-plugin --preload --placed
        [[ $output == *"--preload goes with neither --placed nor --seats"* ]]
}

@test "a patch of a layer names what is below it" { # kustomize itself does not mind a target that is not there
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        /usr/bin/python3 - "$root/deploy" << 'END'
import pathlib, re, sys, yaml
deploy = pathlib.Path(sys.argv[1])
def below(folder):
    settings = yaml.safe_load((folder / 'kustomization.yaml').read_text())
    for name in settings['resources']:
        where = folder / name
        yield from below(where) if where.is_dir() else yaml.safe_load_all(where.read_text())
    yield from ({'kind': 'ConfigMap', 'metadata': {'name': made['name']}} for made in settings.get('configMapGenerator', []))
def step(at, part):
    return at[int(part)] if isinstance(at, list) else at[part]
layer = deploy / 'kubernetes-preload'
there, n = list(below(layer)), 0
for patch in yaml.safe_load((layer / 'kustomization.yaml').read_text())['patches']:
    kind, name = patch['target'].get('kind', '.*'), patch['target']['name']
    found = [r for r in there if re.fullmatch(kind, r['kind']) and re.fullmatch(name, r['metadata']['name'])]
    assert found, f'{patch["target"]}: nothing is called so'
    change = yaml.safe_load(patch['patch'])
    for one in change if isinstance(change, list) else []:
        for resource in found:
            at = resource
            for part in one['path'].strip('/').split('/'):
                at = step(at, part)
    n += 1
assert n == 4, n
END
}

@test "the daemon's pod sees the bundles of the node's containers where the runtime has them" {
        kubectl kustomize "$root/deploy/kubernetes" > "$BATS_TEST_TMPDIR/all.yaml"
        of_daemon=$(awk -v RS='---\n' '/\nkind: DaemonSet\n/ && /\n  name: daemon\n/' "$BATS_TEST_TMPDIR/all.yaml")
        grep -q 'mountPath: /run/containerd$' <<< "$of_daemon"
        grep -q 'path: /run/containerd$' <<< "$of_daemon"
}

@test "monitoring builds, and asks only for figures that are there" {
        made kubernetes/monitoring
        for figure in $(jq -r '.panels[].targets[].expr' "$root/deploy/kubernetes/monitoring/dashboard.json" | grep -oE 'sublet_[a-z_]+' | sed 's/_bucket$//' | sort -u); do
                grep -rqE "${figure#sublet_}" "$root/src/daemon/api" "$root/src/kube" || grep -q "HEALTH( ${figure#sublet_device_}," "$root/src/gpu/health.def" || { echo "no $figure"; return 1; }
        done
}

@test "the autoscaler's example asks only for figures that the router has" {
        while read -r figure; do
                grep -q "\"$figure\"" "$root/src/route/nginx/metrics.c" || { echo "no $figure"; return 1; }
        done < <(sed -n '/^ *query:/p' "$root/deploy/kubernetes/examples/autoscale.yaml" | grep -oE 'sublet_route_[a-z_]+' | sort -u)
        [ "$(grep -cE '^ *query:' "$root/deploy/kubernetes/examples/autoscale.yaml")" -eq 2 ]
}

@test "a request that is held counts for the autoscaler also while there is no replica" {
        command -v promtool > /dev/null || skip "no promtool (Debian: prometheus)"
        query=$(sed -n 's/^ *query: \(sum(sublet_route_held).*\)/\1/p' "$root/deploy/kubernetes/examples/autoscale.yaml")
        cat > "$BATS_TEST_TMPDIR/wanted.yml" << END
tests:
- input_series: [{series: 'sublet_route_held', values: '1 1'}]
  promql_expr_test: [{expr: '$query', eval_time: 1m, exp_samples: [{labels: '{}', value: 1}]}]
- input_series: [{series: 'sublet_route_held', values: '2 2'}, {series: 'sublet_route_replica_inflight{replica="a"}', values: '3 3'},
    {series: 'sublet_route_replica_inflight{replica="b"}', values: '4 4'}]
  promql_expr_test: [{expr: '$query', eval_time: 1m, exp_samples: [{labels: '{}', value: 9}]}]
END
        promtool test rules "$BATS_TEST_TMPDIR/wanted.yml"
}

@test "the configurations trust the authority of the Secret, and an old one too where they are told to" {
        "$root/deploy/kubernetes/certificate" > "$BATS_TEST_TMPDIR/out"
        sed -n 's/^data: {tls.crt: \([^,]*\),.*/\1/p' "$BATS_TEST_TMPDIR/out" | base64 -d > "$BATS_TEST_TMPDIR/old"
        openssl verify -CAfile "$BATS_TEST_TMPDIR/old" -check_ss_sig "$BATS_TEST_TMPDIR/old"
        openssl x509 -in "$BATS_TEST_TMPDIR/old" -noout -text | grep -q 'CA:TRUE, pathlen:0'
        openssl x509 -in "$BATS_TEST_TMPDIR/old" -noout -checkend $((3600 * 24 * 3640))
        [ "$(sed -n 's/.*caBundle: \([^}]*\)}/\1/p' "$BATS_TEST_TMPDIR/out" | base64 -d | grep -c BEGIN)" -eq 2 ]
        "$root/deploy/kubernetes/certificate" --also "$BATS_TEST_TMPDIR/old" > "$BATS_TEST_TMPDIR/both"
        sed -n 's/.*caBundle: \([^}]*\)}/\1/p' "$BATS_TEST_TMPDIR/both" | head -1 | base64 -d > "$BATS_TEST_TMPDIR/bundle"
        [ "$(grep -c BEGIN "$BATS_TEST_TMPDIR/bundle")" -eq 2 ]
        openssl verify -CAfile "$BATS_TEST_TMPDIR/bundle" "$BATS_TEST_TMPDIR/old"
        run -2 "$root/deploy/kubernetes/certificate" --also "$BATS_TEST_TMPDIR/nothing"
        [[ $output == *"--also wants a file"* ]]
}

@test "the API server asks about pods that rent, name our class or carry our annotations, and about no others" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        "$root/deploy/kubernetes/certificate" > "$BATS_TEST_TMPDIR/out"
        /usr/bin/python3 "$root/tests/fakes/conditions.py" "$BATS_TEST_TMPDIR/out"
}

@test "in a cluster that knows no conditions a webhook that is away stops pods only where that was asked for" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        "$root/deploy/kubernetes/certificate" --before-1.28 > "$BATS_TEST_TMPDIR/out"
        /usr/bin/python3 - "$BATS_TEST_TMPDIR/out" << 'END'
import sys, yaml
for one in yaml.safe_load_all(open(sys.argv[1])):
    for webhook in one.get('webhooks', []):
        assert 'matchConditions' not in webhook
        found = {e['key']: (e['operator'], e['values']) for e in webhook['namespaceSelector']['matchExpressions']}
        assert found['kubernetes.io/metadata.name'] == ('NotIn', ['kube-system', 'sublet'])
        assert found['sublet.dev/webhook'] == ('In' if webhook['failurePolicy'] == 'Fail' else 'NotIn', ['required'])
    assert 'webhooks' not in one or sorted(w['failurePolicy'] for w in one['webhooks']) == ['Fail', 'Ignore']
END
}

@test "containerd's settings are appended once, and the second time is refused with the file as it was" {
        config=$BATS_TEST_TMPDIR/config.toml
        echo 'version = 2' > "$config"
        "$build/src/sublet" oci config >> "$config"
        cp "$config" "$config.first"
        run -1 bash -c "'$build/src/sublet' oci config >> '$config'"
        [[ $output == *"runtime sublet is in that file already"* ]]
        cmp "$config" "$config.first"
        "$build/src/sublet" oci config --name other >> "$config"
        "$build/src/sublet" oci config | grep -q 'runtimes.sublet]'
}

@test "uninstalling takes the webhook's configurations away first, and is refused while pods rent" {
        bin=$BATS_TEST_TMPDIR/bin
        mkdir -p "$bin"
        cat > "$bin/kubectl" << 'END'
#!/bin/sh
printf '%s\n' "$*" >> "$KUBECTL_LOG"
case "$*" in
"get pods"*) printf '%s' "$KUBECTL_PODS" ;;
api-resources*) printf '%s' "$KUBECTL_KINDS" ;;
esac
END
        chmod +x "$bin/kubectl"
        export KUBECTL_KINDS='' KUBECTL_LOG=$BATS_TEST_TMPDIR/log KUBECTL_PODS='default/one sublet
default/two gvisor
'
        PATH=$bin:$PATH run -1 "$root/deploy/kubernetes/uninstall"
        [[ $output == *"1 pod rents"*"--with-pods"*"default/one"* ]]
        run ! grep -q delete "$KUBECTL_LOG"
        : > "$KUBECTL_LOG"
        PATH=$bin:$PATH run -0 "$root/deploy/kubernetes/uninstall" --with-pods
        [ "$(grep -c . "$KUBECTL_LOG")" -eq 6 ]
        [[ $(sed -n 2p "$KUBECTL_LOG") == "delete --ignore-not-found mutatingwebhookconfiguration,validatingwebhookconfiguration sublet" ]]
        [[ $(sed -n 3p "$KUBECTL_LOG") == "delete --ignore-not-found -n default pod one" ]]
        [[ $(sed -n 4p "$KUBECTL_LOG") == "delete --ignore-not-found clusterrolebinding sublet-scheduler sublet-scheduler-volumes" ]]
        [[ $(sed -n 6p "$KUBECTL_LOG") == "delete --ignore-not-found -k "*/kubernetes ]]
        # a cluster of 1.30 has the guard's kinds: it goes before the accounts it is about
        : > "$KUBECTL_LOG"
        KUBECTL_PODS='' KUBECTL_KINDS=validatingadmissionpolicies.admissionregistration.k8s.io PATH=$bin:$PATH run -0 "$root/deploy/kubernetes/uninstall"
        [[ $(tail -2 "$KUBECTL_LOG" | head -1) == "delete --ignore-not-found -k "*/guard ]]
        [[ $(tail -1 "$KUBECTL_LOG") == "delete --ignore-not-found -k "*/kubernetes ]]
}

@test "each of our pods has its network policy, and each policy, budget and mount names what is there" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        made kubernetes
        made_all=$made
        made kubernetes/guard
        "$root/deploy/kubernetes/scheduler-certificate" > "$BATS_TEST_TMPDIR/certificates"
        "$root/deploy/kubernetes/certificate" > "$BATS_TEST_TMPDIR/webhook"
        /usr/bin/python3 - "$made_all" "$made" "$BATS_TEST_TMPDIR/certificates" "$BATS_TEST_TMPDIR/webhook" << 'END'
import sys, yaml
there = [one for path in sys.argv[1:] for one in yaml.safe_load_all(open(path)) if one]
def of(*kinds):
    return [one for one in there if one['kind'] in kinds]
pods = {one['metadata']['name']: one['spec']['template'] for one in of('Deployment', 'DaemonSet')}
def selected(selector):
    return [name for name, pod in pods.items() if selector['matchLabels'].items() <= pod['metadata']['labels'].items()]
ruled = {}
for rule in of('NetworkPolicy'):
    assert rule['spec']['policyTypes'] == ['Ingress', 'Egress'], rule
    [name] = selected(rule['spec']['podSelector'])
    ruled[name] = {port['port'] for way in rule['spec'].get('ingress') or [] for port in way['ports']}
open_ports = {name: {port['containerPort'] for c in pod['spec']['containers'] for port in c.get('ports', [])} for name, pod in pods.items()}
assert ruled == open_ports, (ruled, open_ports)
[budget] = of('PodDisruptionBudget')
assert selected(budget['spec']['selector']) == ['webhook']
secrets = {one['metadata']['name']: set(one['data']) for one in of('Secret')}
for name, pod in pods.items():
    mounted = {v['name']: secrets[v['secret']['secretName']] for v in pod['spec'].get('volumes', []) if 'secret' in v}
    for container in pod['spec']['containers']:
        keys = {m['mountPath']: mounted[m['name']] for m in container['volumeMounts'] if m['name'] in mounted} if mounted else {}
        for arg in container['args']:
            for path in keys:
                if arg.partition('=')[2].startswith(path + '/'):
                    assert arg.rpartition('/')[2] in keys[path], arg
        for probe in ('livenessProbe', 'readinessProbe'):
            if probe in container:
                asked = container[probe]['httpGet']
                assert (asked.get('scheme') == 'HTTPS') == any(a.startswith('--cert=') for a in container['args']), name
[config] = [yaml.safe_load(one['data']['scheduler.yaml']) for one in of('ConfigMap')]
[extender] = config['extenders']
assert extender['urlPrefix'].startswith('https://') and extender['enableHTTPS']
for file in ('caFile', 'certFile', 'keyFile'):
    assert extender['tlsConfig'][file].rpartition('/')[2] in secrets['scheduler-certificate']
assert '--host=' + extender['tlsConfig']['serverName'] in pods['extender']['spec']['containers'][0]['args']
[policy] = of('ValidatingAdmissionPolicy')
[account] = [one for one in of('ServiceAccount') if one['metadata']['name'] == 'device-plugin']
assert f"system:serviceaccount:{account['metadata']['namespace']}:device-plugin'" in policy['spec']['matchConditions'][0]['expression']
END
}

@test "with cert-manager: what the webhook mounts, serves and is trusted by is one certificate's" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        made kubernetes-cert-manager
        takes webhook
        "$root/deploy/kubernetes/certificate" --cert-manager > "$BATS_TEST_TMPDIR/webhook"
        run ! grep -E 'caBundle|Secret' "$BATS_TEST_TMPDIR/webhook"
        /usr/bin/python3 - "$made" "$BATS_TEST_TMPDIR/webhook" << 'END'
import sys, yaml
there = [one for path in sys.argv[1:] for one in yaml.safe_load_all(open(path)) if one]
def of(kind):
    return {one['metadata']['name']: one for one in there if one['kind'] == kind}
certificates, issuers = of('Certificate'), of('Issuer')
for one in list(certificates.values()) + list(issuers.values()):
    assert one['metadata']['namespace'] == 'sublet'
for one in certificates.values():
    assert one['spec']['issuerRef']['name'] in issuers
leaf = certificates['webhook']['spec']
[authority] = [c['spec'] for c in certificates.values() if c['spec'].get('isCA')]
assert issuers[leaf['issuerRef']['name']]['spec']['ca']['secretName'] == authority['secretName'] != leaf['secretName']
pod = of('Deployment')['webhook']['spec']['template']['spec']
assert [v['secret']['secretName'] for v in pod['volumes']] == [leaf['secretName']]
assert not [arg for arg in pod['containers'][0]['args'] if arg.startswith('--host')], 'it would make certificates of one that is none'
for kind in ('MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'):
    one = of(kind)['sublet']
    assert one['metadata']['annotations']['cert-manager.io/inject-ca-from'] == 'sublet/webhook'
    for webhook in one['webhooks']:
        service = webhook['clientConfig']['service']
        assert leaf['dnsNames'] == [f"{service['name']}.{service['namespace']}.svc"]
END
}

@test "a second scheduler holds a lease of its own, which it may, and mounts what its configuration names" {
        /usr/bin/python3 -c 'import yaml' 2> /dev/null || skip "no yaml in this python3"
        /usr/bin/python3 - "$root/deploy/kubernetes" << 'END'
import sys, yaml
there = list(yaml.safe_load_all(open(sys.argv[1] + '/second-scheduler/deployment.yaml')))
config = yaml.safe_load(open(sys.argv[1] + '/scheduler.yaml'))
lease = config['leaderElection']
assert lease['resourceName'] != 'kube-scheduler' and lease['resourceNamespace'] == 'sublet', lease
[role] = [one for one in there if one['kind'] == 'Role']
assert any(rule.get('resourceNames') == [lease['resourceName']] and 'update' in rule['verbs'] for rule in role['rules'])
[pod] = [one['spec']['template']['spec'] for one in there if one['kind'] == 'Deployment']
[container] = pod['containers']
mounts = {m['mountPath']: m['name'] for m in container['volumeMounts']}
sources = {v['name']: v for v in pod['volumes']}
assert container['command'][1] == '--config=/config/scheduler.yaml'
assert sources[mounts['/config']]['configMap']['name'] == 'sublet-scheduler'
assert sources[mounts['/certificate']]['secret']['secretName'] == 'scheduler-certificate'
assert all(config['extenders'][0]['tlsConfig'][file].startswith('/certificate/') for file in ('caFile', 'certFile', 'keyFile'))
for binding in there:
    if binding['kind'].endswith('Binding'):
        assert binding['subjects'] == [{'kind': 'ServiceAccount', 'name': pod['serviceAccountName'], 'namespace': 'sublet'}]
END
}

@test "the scheduler's certificate is signed by the extender's authority, for callers only" {
        "$root/deploy/kubernetes/scheduler-certificate" > "$BATS_TEST_TMPDIR/out"
        sed -n 's/.* tls.key: .*, callers.crt: \([^}]*\)}/\1/p' "$BATS_TEST_TMPDIR/out" | base64 -d > "$BATS_TEST_TMPDIR/authority"
        sed -n '/name: scheduler-certificate/,$s/^data: {tls.crt: \([^,]*\),.*/\1/p' "$BATS_TEST_TMPDIR/out" | base64 -d > "$BATS_TEST_TMPDIR/cert"
        openssl verify -purpose sslclient -CAfile "$BATS_TEST_TMPDIR/authority" "$BATS_TEST_TMPDIR/cert"
        run ! openssl verify -purpose sslserver -CAfile "$BATS_TEST_TMPDIR/authority" "$BATS_TEST_TMPDIR/cert"
        [[ $(openssl x509 -in "$BATS_TEST_TMPDIR/cert" -noout -subject -nameopt RFC2253) = *CN=sublet-scheduler ]]
        openssl x509 -in "$BATS_TEST_TMPDIR/cert" -noout -checkend $((3600 * 24 * 3640))
        of() { sed -n "/name: $1-certificate/,/^data/s/^data: {tls.crt: \([^,]*\),.*/\1/p" "$BATS_TEST_TMPDIR/out" | base64 -d > "$BATS_TEST_TMPDIR/cert"; }
        of metrics
        openssl verify -purpose sslclient -CAfile "$BATS_TEST_TMPDIR/authority" "$BATS_TEST_TMPDIR/cert"
        [[ $(openssl x509 -in "$BATS_TEST_TMPDIR/cert" -noout -subject -nameopt RFC2253) = *CN=sublet-metrics ]]
        of daemon
        openssl verify -purpose sslserver -verify_hostname daemon.sublet.svc -CAfile "$BATS_TEST_TMPDIR/authority" "$BATS_TEST_TMPDIR/cert"
        run ! openssl verify -purpose sslclient -CAfile "$BATS_TEST_TMPDIR/authority" "$BATS_TEST_TMPDIR/cert"
        run -2 "$root/deploy/kubernetes/scheduler-certificate" --also "$BATS_TEST_TMPDIR/nothing"
        [[ $output == *"--also wants a file"* ]]
        run -2 "$root/deploy/kubernetes/scheduler-certificate" more
        [[ $output == usage:* ]]
}
