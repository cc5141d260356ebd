##@ Image

# The image as archives: the OCI archive for containerd and podman, the Docker archive for docker and kind.
OCI_ARCHIVE    := dist/scanner-operator.tar
DOCKER_ARCHIVE := dist/scanner-operator.docker.tar
BUILD_IMAGE     = $(GO) run ./hack/image -name "$(IMG)" -version "$(VERSION)" -output $(OCI_ARCHIVE) -docker-output $(DOCKER_ARCHIVE)

.PHONY: docker-build
docker-build: ui ## Build the image IMG, as archives in dist/ and, when a Docker engine is running, into it.
	$(BUILD_IMAGE)
	@if docker info >/dev/null 2>&1; then \
		docker load -i $(DOCKER_ARCHIVE); \
	else \
		echo "no Docker engine is running: the image is only in $(OCI_ARCHIVE) and $(DOCKER_ARCHIVE)" >&2; \
	fi

.PHONY: docker-push
docker-push: ui ## Build the image IMG and push it to its registry, with the credentials of "docker login".
	$(BUILD_IMAGE) -push

.PHONY: kind-load
kind-load: ## Load the image of docker-build into the nodes of the local cluster (kind cluster NAME, or hack/devcluster).
	@test -f $(DOCKER_ARCHIVE) || { echo "there is no image: run make docker-build" >&2; exit 1; }
	@hack/kind/cluster.sh load $(DOCKER_ARCHIVE) $(OCI_ARCHIVE)

##@ Local cluster

.PHONY: cluster-up
cluster-up: ## Start a local Kubernetes with a real node (Linux, root); prints the KUBECONFIG to use.
	@$(GO) run -C hack/devcluster . up --mode=real

.PHONY: cluster-down
cluster-down: ## Stop the local Kubernetes.
	@$(GO) run -C hack/devcluster . down --mode=real

.PHONY: cycle
cycle: teardown-cluster setup-cluster build-frontend setup-db docker-build kind-load helm-deploy start-scanner ## Recreate the local cluster with the operator built from this tree, and a Scanner.

# Both are for hack/kind/cluster.sh: NAME is that of a kind cluster.
export NAME    ?= kind
export CLUSTER ?=

.PHONY: setup-cluster
setup-cluster: ## Create the local cluster: with kind and Docker, else the real one of hack/devcluster (Linux, root).
	@hack/kind/cluster.sh up

.PHONY: teardown-cluster
teardown-cluster: ## Delete the local cluster.
	@hack/kind/cluster.sh down

.PHONY: build-frontend
build-frontend: ui ## Build the UI, as "make ui" does.

# $(call on_local_cluster,command): with the kubeconfig of the local cluster.
on_local_cluster = kubeconfig=$$(hack/kind/cluster.sh kubeconfig); KUBECONFIG="$$kubeconfig" $(1)

DATABASE ?= sqlite
postgres_values := --set database.type=postgres \
	--set-string database.dsn='host=postgres-service.default.svc user=user password=password dbname=db port=5432 sslmode=disable'

.PHONY: setup-db
setup-db: ## With DATABASE=postgres, deploy PostgreSQL into the local cluster; the default is SQLite.
ifeq ($(DATABASE),postgres)
	$(call on_local_cluster,$(KUBECTL) apply -n default -f hack/kind/postgres.yaml)
endif

# The tag of IMG, and what is in front of it.
IMG_TAG        = $(lastword $(subst :, ,$(IMG)))
IMG_REPOSITORY = $(patsubst %:$(IMG_TAG),%,$(IMG))
chart_image    = --set image.registry= --set image.repository=$(IMG_REPOSITORY) --set image.tag=$(IMG_TAG)

.PHONY: helm-deploy
helm-deploy: $(HELM) ## Install the chart, with the image IMG, into scanner-system of the local cluster.
	$(call on_local_cluster,$(HELM) upgrade --install scanner charts/scanner-operator -n scanner-system --create-namespace \
		$(chart_image) --set persistence.enabled=false \
		$(if $(filter postgres,$(DATABASE)),$(postgres_values)) --wait --timeout 5m)

.PHONY: start-scanner
start-scanner: ## Apply a Scanner in the namespace default of the local cluster.
	$(call on_local_cluster,$(KUBECTL) apply -n default -f config/samples/scanner_v1_scanner.yaml)

##@ Install into the cluster that KUBECONFIG names

CHART_COPY := chart

# The copy names the image, without which the chart cannot be installed: "helm install scanner ./chart" needs no values.
.PHONY: chart-copy
chart-copy:
	rm -rf $(CHART_COPY) && cp -R charts/scanner-operator $(CHART_COPY)
	sed -e '/^image:/,/^[^ ]*:$$/{s|^  repository: ""|  repository: $(IMG_REPOSITORY)|;s|^  tag: ""|  tag: "$(IMG_TAG)"|;}' \
		charts/scanner-operator/values.yaml >$(CHART_COPY)/values.yaml

.PHONY: helm
helm: manifests chart chart-copy ## Bring the chart up to date with config/: a copy with the image IMG in chart/, the package and all manifests in dist/.
	$(HELM) template scanner charts/scanner-operator -n scanner-system $(chart_image) >dist/scanner-operator.yaml

MONITORING := monitoring

.PHONY: setup-prometheus
setup-prometheus: $(HELM) $(KUSTOMIZE) ## Install kube-prometheus-stack if the cluster has no Prometheus Operator, and scrape the operator of make deploy.
	@if $(KUBECTL) get crd servicemonitors.monitoring.coreos.com >/dev/null; then \
		echo "the cluster has a Prometheus Operator: installing the ServiceMonitor only"; \
	else \
		$(HELM) upgrade --install prometheus kube-prometheus-stack --repo https://prometheus-community.github.io/helm-charts \
			-n $(MONITORING) --create-namespace --wait --timeout 10m \
			--set prometheus.prometheusSpec.serviceMonitorSelectorNilUsesHelmValues=false; \
	fi
	{ $(kustomize_monitoring); } | $(KUBECTL) apply --server-side -f -
	@echo "open Prometheus at http://127.0.0.1:9090 after: kubectl port-forward service/prometheus-operated -n $(MONITORING) 9090:9090"

.PHONY: install
install: $(KUSTOMIZE) ## Install the CRDs.
	$(KUSTOMIZE) build config/crd | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: $(KUSTOMIZE) ## Remove the CRDs, and with them every object of their kinds.
	$(KUSTOMIZE) build config/crd | $(KUBECTL) delete --ignore-not-found -f -

# The image is set in a copy, so that the working tree stays as it is.
define kustomize_default
tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cp -R config "$$tmp/"; \
(cd "$$tmp/config/manager" && $(KUSTOMIZE) edit set image controller=$(IMG)); \
$(KUSTOMIZE) build "$$tmp/config/default"
endef

# The ServiceMonitor with the names of config/default.
define kustomize_monitoring
tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cp -R config "$$tmp/"; mkdir "$$tmp/config/monitoring"; \
(cd "$$tmp/config/monitoring" && $(KUSTOMIZE) create --resources ../prometheus --namespace scanner-system --nameprefix scanner-); \
$(KUSTOMIZE) build "$$tmp/config/monitoring"
endef

# Only the nodes of the local cluster have the default image.
needs_image = { echo 'set IMG=REGISTRY/REPOSITORY:TAG, an image that the cluster can pull; "make docker-push" pushes it' >&2; exit 1; }

.PHONY: deploy
deploy: $(KUSTOMIZE) ## Install the CRDs and the operator, with the image IMG, into scanner-system. The local cluster needs no IMG after kind-load.
	@$(if $(filter file,$(origin IMG)),KUBECTL="$(KUBECTL)" hack/kind/cluster.sh current || $(needs_image),:)
	{ $(kustomize_default); } | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: $(KUSTOMIZE) ## Remove the operator and the CRDs.
	{ $(kustomize_default); } | $(KUBECTL) delete --ignore-not-found -f -
