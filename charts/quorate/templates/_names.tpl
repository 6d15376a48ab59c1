{{/* The name of everything: the release's. */}}
{{- define "quorate.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "quorate.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "quorate.name" .) -}}
{{- end -}}

{{/* What selects the controller's pods; never changes, since a Deployment's selector cannot. */}}
{{- define "quorate.selector" -}}
app.kubernetes.io/name: quorate-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "quorate.labels" -}}
{{ include "quorate.selector" . }}
app.kubernetes.io/part-of: quorate
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* repository@digest, else repository:tag */}}
{{- define "quorate.image" -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (required "an image needs a tag or a digest" .tag) -}}
{{- end -}}
{{- end -}}
