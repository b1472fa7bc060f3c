{{- define "maskedbandits.labels" -}}
app.kubernetes.io/name: maskedbandits
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "maskedbandits.allLabels" -}}
{{ include "maskedbandits.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "maskedbandits.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
