{{- define "gvList" -}}
{{- $groupVersions := . -}}

# API reference

Generated from api/ by `make api-docs`; do not edit. `kubectl explain requeststatekey.spec --recursive` says the same of the version that is installed.

## Packages
{{- range $groupVersions }}
- {{ markdownRenderGVLink . }}
{{- end }}

{{ range $groupVersions }}
{{ template "gvDetails" . }}
{{ end }}

{{- end -}}
