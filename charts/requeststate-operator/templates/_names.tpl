{{/* What the names of a release begin with. The release "requeststate" has the names that config/ gives. */}}
{{- define "requeststate.prefix" -}}
{{- if contains "." .Release.Name -}}
{{- fail (printf "the release's name is %s: one with a dot cannot be that of a Service, choose another" .Release.Name) -}}
{{- end -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "requeststate.manager" -}}
{{- include "requeststate.prefix" . }}-manager
{{- end -}}

{{/* The labels by which a release's managers are found. They never change. */}}
{{- define "requeststate.selector" -}}
app.kubernetes.io/name: requeststate-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: manager
{{- end -}}

{{/* The labels of every object of a release. */}}
{{- define "requeststate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: requeststate-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* A reference to an image. Arguments: the chart's root, and the values of the image. */}}
{{- define "requeststate.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The sidecar's default resources as the annotation requeststate.dev/resources has them. */}}
{{- define "requeststate.sidecarResources" -}}
{{- $r := .Values.injection.sidecar.resources -}}
{{- $pairs := list -}}
{{- range $name := list "cpu" "memory" -}}
{{- with index (default dict $r.requests) $name -}}{{- $pairs = append $pairs (printf "%s=%v" $name .) -}}{{- end -}}
{{- end -}}
{{- range $name := list "cpu" "memory" -}}
{{- with index (default dict $r.limits) $name -}}{{- $pairs = append $pairs (printf "%s-limit=%v" $name .) -}}{{- end -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}
