{{- /* An object of the manifests as kustomize would write it, with the values. dict: root, object */ -}}
{{- define "sublet.object" -}}
{{- $object := .object -}}
{{- $metadata := $object.metadata -}}
{{- $_ := set $metadata "labels" (merge (dict "app.kubernetes.io/name" "sublet") ($metadata.labels | default dict)) -}}
{{- $everywhere := list "Namespace" "RuntimeClass" "ClusterRole" "ClusterRoleBinding" "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyBinding" -}}
{{- if not (has $object.kind $everywhere) -}}
{{-   $_ := set $metadata "namespace" "sublet" -}}
{{- end -}}
{{- if eq $object.kind "RuntimeClass" -}}
{{-   $_ := set $object.scheduling "nodeSelector" .root.Values.nodeSelector -}}
{{- end -}}
{{- if has $object.kind (list "DaemonSet" "Deployment") -}}
{{-   include "sublet.pod" (dict "values" .root.Values "name" $metadata.name "spec" $object.spec.template.spec) -}}
{{- end -}}
{{- toYaml $object -}}
{{- end -}}

{{- /* Changes a pod's spec. dict: values, name (of its Deployment or DaemonSet), spec */ -}}
{{- define "sublet.pod" -}}
{{- $values := .values -}}
{{- $parts := dict "daemon" "daemon" "keepers" "shims" "device-plugin" "devicePlugin" "extender" "extender" "webhook" "webhook" "scheduler" "scheduler" -}}
{{- $part := get $values (get $parts .name) | default dict -}}
{{- if .spec.nodeSelector -}}
{{-   $_ := set .spec "nodeSelector" $values.nodeSelector -}}
{{- end -}}
{{- if $values.imagePullSecrets -}}
{{-   $_ := set .spec "imagePullSecrets" $values.imagePullSecrets -}}
{{- end -}}
{{- range $container := .spec.containers -}}
{{-   $_ := set $container "image" (eq $.name "scheduler" | ternary $values.scheduler.image (printf "%s:%s" $values.image.repository $values.image.tag)) -}}
{{-   if and $values.certificates.certManager (eq $.name "webhook") -}}
{{-     $_ := set $container "args" (without $container.args "--host=webhook.sublet.svc") -}}
{{-   end -}}
{{-   if $part.extraArgs -}}
{{-     $_ := set $container "args" (concat ($container.args | default list) $part.extraArgs) -}}
{{-   end -}}
{{-   if $part.resources -}}
{{-     $_ := set $container "resources" $part.resources -}}
{{-   end -}}
{{-   range $mount := $container.volumeMounts -}}
{{-     if eq $mount.name "runtime" -}}
{{-       $_ := set $mount "mountPath" $values.containerdState -}}
{{-     end -}}
{{-   end -}}
{{- end -}}
{{- range $volume := .spec.volumes -}}
{{-   if eq $volume.name "runtime" -}}
{{-     $_ := set $volume.hostPath "path" $values.containerdState -}}
{{-   end -}}
{{- end -}}
{{- end -}}
