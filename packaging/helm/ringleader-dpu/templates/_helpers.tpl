{{/* Everything is named after the release: there may be several, for several groups. */}}
{{- define "ringleader-dpu.name" -}}
{{- printf "%s-ringleader-dpu" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ringleader-dpu.selector" -}}
app.kubernetes.io/name: ringleader-dpu
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ringleader-dpu.labels" -}}
{{ include "ringleader-dpu.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What the container gets, and gets no more of: extended resources are asked for and limited alike. */}}
{{- define "ringleader-dpu.resources" -}}
{{- $all := dict .Values.subFunctions.resource (.Values.subFunctions.count | toString) -}}
{{- with .Values.hugepages -}}
{{- $_ := set $all (printf "hugepages-%s" .size) .amount -}}
{{- end -}}
{{- $all = merge (dict) .Values.serviceDaemonSet.resources .Values.resources $all -}}
{{- toYaml $all -}}
{{- end -}}
