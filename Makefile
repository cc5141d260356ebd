# scanner-operator. "make help" lists what there is to do.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
MODULE  := github.com/scanner-operator/scanner-operator
# Functions begin at a multiple of 8 bytes instead of 32, which makes the program 1.5 MB smaller (docs/decisions/0113-size-of-the-program-again.md).
LDFLAGS := -s -w -funcalign=8 -X $(MODULE)/internal/version.Version=$(VERSION)
GO      ?= go
KUBECTL ?= kubectl
IMG     ?= localhost/scanner-operator:dev

# One set of build flags for everything: other flags would compile every package once more. Only the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -buildvcs=false

# The Headlamp plugin is a package of its own, and not part of "make test": its dependencies are 850 MB.
HEADLAMP := integrations/headlamp

include make/tools.mk
include make/test.mk
include make/deploy.mk
include make/release.mk

##@ Build

.PHONY: build
build: ui ## Build bin/scanner-operator, with the UI inside when Node is there.
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/scanner-operator ./cmd/scanner-operator

.PHONY: run
run: ui ## Start everything on this machine: a control plane, a registry, the operator and its UI.
	@$(GO) run -C hack/gobuild ./cmd -title "the programs of make run" -dir "$(CURDIR)" -output bin/demo ./hack/demo
	@bin/demo $(RUN_ARGS)

UI_SOURCES := $(shell find web openapi -type f -not -path '*/node_modules/*' -not -path 'web/dist/*' \
	-not -path 'web/coverage/*' -not -path 'web/test-results/*' -not -path 'web/playwright-report/*' 2>/dev/null)

.PHONY: ui
ui: ## Build the UI into web/dist; without Node an existing one, or none, is used.
ifneq ($(shell command -v npm),)
ui: web/dist/index.html
else
	@echo "Node is not installed: the binary gets the UI that is in web/dist, if any" >&2
endif

# What the lock file pins comes from the cache of npm, if it is there, without a request per package.
web/node_modules/.package-lock.json: web/package-lock.json | $(NODE)
	npm --prefix web ci --no-audit --no-fund --prefer-offline
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(UI_SOURCES)
	hack/unchanged.sh web integrations/headlamp -- npm --prefix web run --silent typecheck
	npm --prefix web run --silent bundle -- --logLevel=warn
	@touch web/dist/.keep $@

headlamp_version = $(patsubst v%,%,$(release_version))

$(HEADLAMP)/node_modules/.package-lock.json: $(HEADLAMP)/package-lock.json | $(NODE)
	npm --prefix $(HEADLAMP) ci --no-audit --no-fund --ignore-scripts
	@touch $@

.PHONY: headlamp
headlamp: $(HEADLAMP)/node_modules/.package-lock.json ## Package the Headlamp plugin into dist/, with VERSION=v1.2.3 as its version (installs 850 MB).
	npm --prefix $(HEADLAMP) run --silent build
	@rm -rf dist/headlamp && mkdir -p dist/headlamp/scanner-operator
	@cp $(HEADLAMP)/dist/main.js dist/headlamp/scanner-operator
	@sed 's/"version": "0.0.0"/"version": "$(or $(headlamp_version),0.0.0)"/' $(HEADLAMP)/package.json >dist/headlamp/scanner-operator/package.json
	tar -C dist/headlamp -czf dist/scanner-operator-headlamp.tar.gz scanner-operator

.PHONY: image
image: ui ## Build the image as an OCI archive in dist/, without Docker.
	$(GO) run ./hack/image -name "$(IMG)" -version "$(VERSION)"

.PHONY: chart
chart: $(HELM) ## Package the Helm chart into dist/.
	@mkdir -p dist
	$(HELM) package charts/scanner-operator --destination dist

.PHONY: clean
clean: ## Remove what was built; the caches of tools and of the local cluster stay.
	rm -rf bin dist coverage chart
	find web/dist -mindepth 1 -not -name .keep -delete 2>/dev/null || true

##@ Generate

.PHONY: generate
generate: $(CONTROLLER_GEN) $(OAPI_CODEGEN) ## Generate Go code: deep copies and the server's interface; the page about metrics; and the UI's client.
	$(CONTROLLER_GEN) object paths=./api/...
	$(OAPI_CODEGEN) --config openapi/oapi-codegen.yaml openapi/openapi.yaml
	$(GO) run ./hack/metrics
	@if command -v npm >/dev/null; then \
		$(MAKE) web/node_modules/.package-lock.json && npm --prefix web run gen; \
	else \
		hack/missing.sh "Node, for the UI's client"; \
	fi

.PHONY: gen
gen: generate ## The same as generate.

# Who needs rights, and the packages whose markers say which, separated by commas: the controllers by name, "write-exceptions" for what a
# chart value enables, and "api" for the rest.
RIGHTS := api=internal/setup write-exceptions=internal/server/exceptions policy-reports=internal/policyreports scanner=internal/controller/scanner podset=internal/controller/podset mycustomresource=internal/controller/mycustomresource \
	exceptions=internal/controller/exceptions policies=internal/controller/policies vexsources=internal/controller/vexsources notifications=internal/controller/notificationrules reportsinks=internal/controller/reportsinks bellerophonsimple=internal/controller/bellerophon rollout=internal/deploymentfeed,internal/rollout

# What a quantity may be. controller-gen's pattern lets through what cannot be read, and 1e-100000000, which takes minutes.
QUANTITY := ^[+-]?([0-9]{1,19}(\\.[0-9]{0,9})?|\\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$$

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRDs and the manager's roles, and copy them and the admission policies into the chart.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	sed -i 's/pattern: .*numkMGTPE.*/pattern: $(QUANTITY)/' config/crd/bases/*.yaml
	@# Policy reports are off by default, and need a permission of their own.
	@packages="$$(grep -rl '+kubebuilder:rbac' internal --include='*.go' | xargs -n1 dirname | sort -u | grep -v -x internal/policyreports)"; \
		paths="$$(printf './%s;' $$packages)"; \
		$(CONTROLLER_GEN) rbac:roleName=manager-role paths="$${paths%;}" output:rbac:artifacts:config=config/rbac
	@mkdir -p charts/scanner-operator/files/crds
	cp config/crd/bases/*.yaml charts/scanner-operator/files/crds/
	@rm -rf charts/scanner-operator/files/roles charts/scanner-operator/files/admission
	@mkdir -p charts/scanner-operator/files/admission
	cp $(filter-out %/kustomization.yaml,$(wildcard config/admission/*.yaml)) charts/scanner-operator/files/admission/
	@for part in $(RIGHTS); do \
		packages="$${part#*=}"; \
		$(CONTROLLER_GEN) rbac:roleName=manager-role,fileName="$${part%%=*}.yaml" paths="./$${packages//,/;./}" \
			output:rbac:artifacts:config=charts/scanner-operator/files/roles; \
	done

.PHONY: align
align: ## Give all modules of this repository the same versions of the modules that they share.
	$(GO) run ./hack/align -write

##@ Help

.PHONY: env
env: ## Print the build flags and the PATH of this Makefile, for a shell to evaluate: eval "$$(make env)".
	@echo 'export CGO_ENABLED=$(CGO_ENABLED) GOFLAGS="$(GOFLAGS)"$(if $(NODE), PATH="$(NODE_DIR)/node_modules/.bin:$$PATH")'

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
		/^[a-zA-Z0-9_-]+:.*## / {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
