{{/*
The objects of the files of config/ that a pattern names, as a YAML list, with the labels of the release. config/ is written for the release "requeststate" in the
namespace requeststate-system. Arguments: the chart's root, and the pattern.
*/}}
{{- define "requeststate.config" -}}
{{- $root := index . 0 -}}
{{- $objects := list -}}
{{- range $path, $_ := $root.Files.Glob (index . 1) -}}
{{- range $text := regexSplit "(?m)^---\\s*$" ($root.Files.Get $path) -1 -}}
{{- $object := fromYaml $text -}}
{{- if hasKey $object "Error" -}}
{{- fail (printf "%s: %s" $path $object.Error) -}}
{{- end -}}
{{- if $object -}}
{{- $labels := merge (include "requeststate.labels" $root | fromYaml) (default dict $object.metadata.labels) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $objects -}}
{{- fail (printf "no object in %s" (index . 1)) -}}
{{- end -}}
{{- toYaml $objects -}}
{{- end -}}

{{/* The name that an object of config/ has in this release. Arguments: the chart's root, and the name in config/. */}}
{{- define "requeststate.rename" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" (include "requeststate.prefix" $root) (index . 1 | trimPrefix "requeststate-") -}}
{{- end -}}
