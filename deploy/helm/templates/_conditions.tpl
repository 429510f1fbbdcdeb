{{- /* About which pods the API server asks: the expressions of deploy/kubernetes/certificate (a test compares them). */ -}}
{{- define "sublet.resources" -}}
has(c.resources) && has(c.resources.{{ . }}) && c.resources.{{ . }}.exists(r, r.startsWith('sublet.dev/') || r.startsWith('aliyun.com/gpu-') || r.startsWith('nvidia.com/gpumem') || r == 'nvidia.com/gpucores' || r == 'nvidia.com/priority')
{{- end -}}
{{- define "sublet.rents" -}}
has(object.spec.{{ . }}) && object.spec.{{ . }}.exists(c, {{ include "sublet.resources" "limits" }} || {{ include "sublet.resources" "requests" }})
{{- end -}}
{{- define "sublet.annotated" -}}
has({{ . }}.metadata.annotations) && {{ . }}.metadata.annotations.exists(a, a.startsWith('sublet.dev/') || a.startsWith('ALIYUN_COM_GPU_MEM_'))
{{- end -}}
{{- define "sublet.concerns" -}}
({{ include "sublet.rents" "containers" }}) || ({{ include "sublet.rents" "initContainers" }}) || (has(object.spec.runtimeClassName) && object.spec.runtimeClassName == 'sublet') || ({{ include "sublet.annotated" "object" }}) || (oldObject != null && {{ include "sublet.annotated" "oldObject" }})
{{- end -}}
{{- define "sublet.changes" -}}
oldObject == null || object.spec != oldObject.spec || (has(object.metadata.annotations) ? object.metadata.annotations : {}) != (has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {})
{{- end -}}

{{- /* One webhook. dict: name, policy, path, rules (resources by operations), bundle, operator (of sublet.dev/webhook; ""), conditions */ -}}
{{- define "sublet.webhook" -}}
- name: {{ .name }}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: {{ .policy }}
  timeoutSeconds: 5
  clientConfig: {service: {name: webhook, namespace: sublet, path: {{ .path }}}{{ with .bundle }}, caBundle: {{ . }}{{ end }}}
  rules:
{{- range $operations, $resources := .rules }}
  - {apiGroups: [""], apiVersions: [v1], operations: {{ $operations }}, resources: {{ $resources }}}
{{- end }}
  namespaceSelector:
    matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, sublet]}
{{- if .operator }}
    - {key: sublet.dev/webhook, operator: {{ .operator }}, values: [required]}
{{- else }}
  matchConditions:
  - {name: concerns-sublet, expression: {{ include "sublet.concerns" . | quote }}}
  - {name: changes, expression: {{ include "sublet.changes" . | quote }}}
{{- end }}
{{- end -}}
