##@ Test

# The steps of "make test", in order. Every one can be run by itself.
TEST_STEPS := setup lint verify test-ui test-unit test-integration parity test-chart e2e scale
GO_TEST    := $(GO) test -race -timeout 20m
# Parity is a step of its own: it compares thousands of images, which the race detector would make ten times slower.
PACKAGES   = $$($(GO) list ./... | grep -v '/test/parity$$')
# Modules other than the main one that hold code of ours, and not only the pins of tools.
MODULES    := hack/devcluster hack/devcluster/coredns test/parity/grypecli

.PHONY: test
test: ## Run everything that CI runs, installing what it lacks; CI_E2E=skip leaves out the end-to-end tests.
	@for step in $(TEST_STEPS); do \
		printf '\n\033[1m=== %s\033[0m\n' "$$step"; begin=$$SECONDS; \
		$(MAKE) "$$step"; \
		printf '(%s took %ds)\n' "$$step" $$((SECONDS - begin)); \
	done; \
	printf '\nok  \tmake test\t%ds\n' $$SECONDS

.PHONY: setup
setup: ## Install the Debian packages that the tests need (as root), or name what is missing.
	@hack/setup.sh

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go, with the race detector.
	env -u KUBEBUILDER_ASSETS -u CI $(GO_TEST) $(PACKAGES)
	@for module in $(MODULES); do echo "$$module:"; (cd "$$module" && env -u CI $(GO_TEST) ./...); done

# The same packages again: Go's test cache leaves only those to run that look at KUBEBUILDER_ASSETS, HELM or CI.
.PHONY: test-integration
test-integration: $(HELM) ## Run the tests against a real kube-apiserver and etcd too.
	assets=$$($(GO) run -C hack/devcluster . assets); \
	KUBEBUILDER_ASSETS="$$assets" HELM=$(HELM) $(GO_TEST) $(PACKAGES)

.PHONY: test-chart
test-chart: $(HELM) ## Test the Helm chart.
	HELM=$(HELM) $(GO) test ./test/chart/...

.PHONY: test-ui
test-ui: ## Test the UI: types, unit tests, and in a browser.
	@if command -v npm >/dev/null; then \
		$(MAKE) web/dist/index.html && npm --prefix web run test && npm --prefix web run e2e; \
	else \
		hack/missing.sh "Node, for the tests of the UI"; \
	fi

.PHONY: parity
parity: ## Compare our findings, and the difference of databases, with Grype's own on the same input, and stores with models.
	$(GO) test -timeout 20m ./test/parity/...
	$(GO) test -timeout 20m -run '^TestCompare$$' ./internal/vulndb
	$(GO) test -timeout 20m -run '^(TestFullEqualsIncremental|TestEveryKindOfChange)$$' ./internal/assess
	$(GO) test -timeout 20m -run '^(TestSQLite|TestPostgres|TestMySQL)$$/random' ./internal/store/sqlstore

.PHONY: e2e
e2e: ui $(HELM) ## Run the end-to-end tests on a local cluster (Linux, root); CI_E2E=skip leaves them out.
	@if [[ "$${CI_E2E:-}" == skip ]]; then \
		echo "end-to-end tests left out: CI_E2E=skip"; \
	elif [[ "$$(uname -s)" != Linux || "$$(id -u)" != 0 ]]; then \
		hack/missing.sh "Linux and root, for the end-to-end tests (CI_E2E=skip leaves them out)"; \
	else \
		HELM=$(HELM) $(GO) test -tags e2e -count=1 -timeout 30m ./test/e2e/...; \
	fi

.PHONY: scale
scale: ## Run the operator with 2,000 pods on simulated nodes (five minutes on two processors).
	$(GO) test -tags scale -count=1 -timeout 20m -v ./test/scale/...

.PHONY: bench
bench: ## Run the benchmarks, the last of them against the grype command (20 minutes on two processors).
	$(GO) test -run '^$$' -bench . -benchmem $$($(GO) list ./... | grep -v '/test/bench$$')
	$(GO) test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 90m ./test/bench

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

##@ Check

.PHONY: lint
lint: $(GOLANGCI_LINT) $(HELM) ## Lint Go code, the chart and the UI.
	$(GOLANGCI_LINT) run ./...
	@for module in $(MODULES); do \
		echo "$$module:"; (cd "$$module" && $(GOLANGCI_LINT) run --config "$(CURDIR)/.golangci.yml" ./...); \
	done
	$(HELM) lint --strict --quiet charts/scanner-operator
	@if command -v npm >/dev/null; then \
		$(MAKE) web/node_modules/.package-lock.json && npm --prefix web run lint; \
	else \
		hack/missing.sh "Node, for the lint of the UI"; \
	fi

.PHONY: verify
verify: ## Check in a copy of the tree that generated files, go.mod files and formatting are up to date.
	@hack/verify.sh
