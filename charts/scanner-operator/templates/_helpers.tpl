{{/* The prefix of all names is the release name, so that "helm install scanner" creates the same names as config/default. */}}
{{- define "scanner-operator.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 33 | trimSuffix "-" -}}
{{- end -}}

{{- define "scanner-operator.manager" -}}
{{ include "scanner-operator.fullname" . }}-controller-manager
{{- end -}}

{{/* The prefix of the names of cluster-scoped objects. */}}
{{- define "scanner-operator.clusterName" -}}
{{- $fullname := include "scanner-operator.fullname" . -}}
{{- if eq .Release.Namespace (printf "%s-system" $fullname) -}}
{{ $fullname }}
{{- else -}}
{{ printf "%s-%s" .Release.Namespace $fullname | trunc 100 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "scanner-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "scanner-operator.manager" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is required when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "scanner-operator.selectorLabels" -}}
control-plane: controller-manager
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "scanner-operator.labels" -}}
{{ include "scanner-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "scanner-operator.metadata" -}}
labels:
  {{- include "scanner-operator.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "scanner-operator.image" -}}
{{- with .Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is required, because no images of scanner-operator are published yet: build one with \"make docker-push IMG=REGISTRY/REPOSITORY:TAG\", and set image.registry, image.repository and image.tag" -}}
{{- end -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "scanner-operator.apiURL" -}}
{{- if .Values.catalog.apiURL -}}
{{ .Values.catalog.apiURL }}
{{- else -}}
{{ include "scanner-operator.apiScheme" . }}://{{ include "scanner-operator.manager" . }}-api-service.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}
{{- end -}}

{{/* The base path without a slash at its end; "/" without one. */}}
{{- define "scanner-operator.basePath" -}}
/{{ .Values.api.basePath | default (get (urlParse .Values.api.externalURL) "path") | trimAll "/" }}
{{- end -}}

{{- define "scanner-operator.apiScheme" -}}
{{ ternary "https" "http" .Values.tls.enabled }}
{{- end -}}

{{/* The value of --tls. */}}
{{- define "scanner-operator.tls" -}}
{{- if not .Values.tls.enabled -}}
off
{{- else if or .Values.tls.existingSecret .Values.tls.certManager.enabled -}}
files
{{- else -}}
operator
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the API. */}}
{{- define "scanner-operator.tlsSecret" -}}
{{- if .Values.tls.existingSecret -}}
{{ .Values.tls.existingSecret }}
{{- else -}}
{{ include "scanner-operator.manager" . }}-api-{{ ternary "cert" "tls" .Values.tls.certManager.enabled }}
{{- end -}}
{{- end -}}

{{/* Which credentials notification rules can use, and where they may send without one, as internal/notify reads it; empty for nothing. */}}
{{- define "scanner-operator.notifications" -}}
{{- $config := dict -}}
{{- with .Values.notifications.allowedNetworks -}}
{{- $_ := set $config "allowedNetworks" . -}}
{{- end -}}
{{- range .Values.notifications.credentials -}}
{{- $entry := dict "name" .name "namespaces" (default list .namespaces) -}}
{{- $_ := set $config "credentials" (append (default list $config.credentials) $entry) -}}
{{- end -}}
{{- range $name, $template := .Values.notifications.templates -}}
{{- if $template -}}
{{- $_ := set $config "templates" (set (default dict $config.templates) $name $template) -}}
{{- end -}}
{{- end -}}
{{- if $config -}}
{{- toRawJson $config -}}
{{- end -}}
{{- end -}}

{{/* The names of the credentials that ReportSinks can use, as internal/sinks reads them. */}}
{{- define "scanner-operator.reportSinks" -}}
{{- $names := list -}}
{{- range . -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- toJson (dict "credentials" $names) -}}
{{- end -}}

{{/* Rejects values that must not be combined. */}}
{{- define "scanner-operator.check" -}}
{{- if and (eq .Values.database.type "sqlite") (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount above 1 requires database.type postgres or mysql: SQLite supports only one replica" -}}
{{- end -}}
{{- if and (ne .Values.database.type "sqlite") (not .Values.database.dsn) (not .Values.database.existingSecret) -}}
{{- fail (printf "database.type %s requires database.dsn or database.existingSecret" .Values.database.type) -}}
{{- end -}}
{{- if and .Values.database.dsn .Values.database.existingSecret -}}
{{- fail "database.dsn and database.existingSecret exclude each other" -}}
{{- end -}}
{{- if and (eq .Values.auth.mode "none") (eq .Values.catalog.mode "job") -}}
{{- fail "with auth.mode none the API listens on the loopback interface only, which scan Jobs cannot reach: set catalog.mode to in-process" -}}
{{- end -}}
{{- if and .Values.auth.anonymousRead (ne .Values.auth.mode "kubernetes") -}}
{{- fail "auth.anonymousRead requires auth.mode kubernetes" -}}
{{- end -}}
{{- with .Values.auth.oidc -}}
{{- if ne (empty .issuer) (empty .clientID) -}}
{{- fail "auth.oidc.issuer and auth.oidc.clientID must be set together" -}}
{{- end -}}
{{- if and .issuer (ne $.Values.auth.mode "kubernetes") -}}
{{- fail "auth.oidc.issuer requires auth.mode kubernetes: permissions come from Kubernetes" -}}
{{- end -}}
{{- if and .issuer (not $.Values.api.externalURL) -}}
{{- fail "auth.oidc.issuer requires api.externalURL, the URL at which browsers reach the UI: the provider sends them back there" -}}
{{- end -}}
{{- end -}}
{{- with .Values.auth.frontProxy -}}
{{- if and .clientCARef.name (ne $.Values.auth.mode "kubernetes") -}}
{{- fail "auth.frontProxy.clientCARef requires auth.mode kubernetes: permissions come from Kubernetes" -}}
{{- end -}}
{{- if and .clientCARef.name (not $.Values.tls.enabled) -}}
{{- fail "auth.frontProxy.clientCARef requires tls.enabled: a front proxy proves itself with a TLS client certificate" -}}
{{- end -}}
{{- if and .allowedNames (not .clientCARef.name) -}}
{{- fail "auth.frontProxy.allowedNames requires auth.frontProxy.clientCARef.name: without it, no front proxy is trusted" -}}
{{- end -}}
{{- end -}}
{{- with .Values.api -}}
{{- if and .basePath .externalURL (ne (trimAll "/" .basePath) (trimAll "/" (get (urlParse .externalURL) "path"))) -}}
{{- fail "api.basePath is not the path of api.externalURL: leave out api.basePath" -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.ingress.enabled .Values.httpRoute.enabled) (eq .Values.auth.mode "none") -}}
{{- fail "ingress and httpRoute require auth.mode kubernetes: with none, the API listens on the loopback interface only" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled requires httpRoute.parentRefs with a Gateway" -}}
{{- end -}}
{{- if and .Values.tls.enabled .Values.tls.certManager.enabled .Values.tls.existingSecret -}}
{{- fail "tls.certManager.enabled and tls.existingSecret exclude each other" -}}
{{- end -}}
{{- if and .Values.tls.enabled .Values.tls.certManager.enabled (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.enabled requires tls.certManager.issuerRef with the name of an issuer" -}}
{{- end -}}
{{- if and .Values.tls.enabled (eq .Values.catalog.mode "job") (hasPrefix "http://" .Values.catalog.apiURL) -}}
{{- fail "catalog.apiURL begins with http://, but the API is served over TLS: use https://, or set tls.enabled to false" -}}
{{- end -}}
{{- if and (gt (int .Values.replicaCount) 1) .Values.persistence.enabled (not (has "ReadWriteMany" .Values.persistence.accessModes)) -}}
{{- fail "replicaCount above 1 requires persistence.enabled false, or persistence.accessModes with ReadWriteMany" -}}
{{- end -}}
{{- $notifications := len (include "scanner-operator.notifications" .) -}}
{{- if gt $notifications 122880 -}}
{{- fail (printf "notifications: %d bytes as JSON, the maximum is 122880: shorten notifications.templates, or list fewer namespaces in notifications.credentials" $notifications) -}}
{{- end -}}
{{- end -}}

{{/* The value of --controllers. */}}
{{- define "scanner-operator.controllers" -}}
{{- $entries := list "*" -}}
{{- range $controller, $runs := .Values.controllers -}}
{{- if not $runs -}}
{{- $entries = append $entries (printf "-%s" $controller) -}}
{{- end -}}
{{- end -}}
{{- join "," $entries -}}
{{- end }}

{{/* The priority class of scan pods, if any. */}}
{{- define "scanner-operator.scanPriorityClass" -}}
{{- if .Values.scans.priorityClass.name -}}
{{- .Values.scans.priorityClass.name -}}
{{- else if and .Values.scans.priorityClass.create (eq .Values.catalog.mode "job") -}}
{{- include "scanner-operator.clusterName" . }}-scans
{{- end -}}
{{- end }}

{{/* How scans reach registries, as JSON; empty if nothing is configured. */}}
{{- define "scanner-operator.registries" -}}
{{- $config := dict }}
{{- if and .Values.scans.proxy.noProxy (not .Values.scans.proxy.url) }}
{{- fail "scans.proxy.noProxy requires scans.proxy.url" }}
{{- end }}
{{- if .Values.scans.proxy.url }}
{{- $_ := set $config "proxy" .Values.scans.proxy }}
{{- end }}
{{- with .Values.scans.caBundle }}
{{- $_ := set $config "caBundle" . }}
{{- end }}
{{- with .Values.scans.registries }}
{{- $_ := set $config "registries" . }}
{{- end }}
{{- with .Values.scans.attestations }}
{{- $_ := set $config "attestations" . }}
{{- end }}
{{- if and .Values.scans.imageVolumeLayers (not .Values.networkPolicy.enabled) }}
{{- $_ := set $config "askLayers" true }}
{{- end }}
{{- if $config }}
{{- $text := toJson $config }}
{{- if gt (len $text) 65536 }}
{{- fail (printf "scans.proxy, scans.caBundle, scans.registries and scans.attestations have %d bytes together, at most 65536 are allowed: shorten the CA bundles" (len $text)) }}
{{- end }}
{{- $text }}
{{- end }}
{{- end }}
