{{- define "resonance.pod" -}}
enableServiceLinks: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
volumes: [{name: settings, configMap: {name: {{ .Release.Name }}}}, {name: temporary, emptyDir: {{ .Values.disk | empty | ternary dict (dict "sizeLimit" .Values.disk) | toJson }}}]
{{- with .Values.pod }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "resonance.container" -}}
image: {{ .Values.image }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
volumeMounts: [{name: settings, mountPath: /etc/resonance}, {name: temporary, mountPath: /tmp}]
{{- end }}

{{- define "resonance.token" -}}
- {name: RESONANCE_WORKER__WEB_TOKEN, valueFrom: {secretKeyRef: {name: {{ .Values.secrets.resonance }}, key: token}}}
{{- end }}

{{- define "resonance.login" -}}
{{- with .Values.secrets.kafka -}}
- {name: RESONANCE_BROKER__LIBRDKAFKA__SASL_USERNAME, valueFrom: {secretKeyRef: {name: {{ . }}, key: username}}}
- {name: RESONANCE_BROKER__LIBRDKAFKA__SASL_PASSWORD, valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
