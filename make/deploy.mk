##@ Local cluster

.PHONY: cluster-up
cluster-up: ## Start a local Kubernetes with a real node (Linux, root); prints the KUBECONFIG to use.
	@$(GO) run -C hack/devcluster . up --mode=real

.PHONY: cluster-down
cluster-down: ## Stop the local Kubernetes.
	@$(GO) run -C hack/devcluster . down --mode=real

##@ Install into the cluster that KUBECONFIG names

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

.PHONY: deploy
deploy: $(KUSTOMIZE) ## Install the CRDs and the operator, with the image IMG, into scanner-system.
	{ $(kustomize_default); } | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: $(KUSTOMIZE) ## Remove the operator and the CRDs.
	{ $(kustomize_default); } | $(KUBECTL) delete --ignore-not-found -f -
