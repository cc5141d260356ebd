##@ Test

# The steps of "make test". Those with operators that have deadlines, and those in a browser, follow one another: beside others with the same priority,
# two processors start pods and answer later than the tests permit, and Chromium stands still for seconds. They wait more than they compute, so what
# only computes runs meanwhile with a lower priority, first what takes longest.
TEST_STEPS := setup ui -- e2e scale-sample faults-sample test-ui ui-scale-sample test-race+hostile -- nice test-plain parity lint verify test-modules
# The race detector instruments all but SQLite, which is C code translated to Go and would be 20 times slower.
RACE       := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
# The hostile corpus, which "make hostile" runs: without the race detector, since parsers of others race when they panic.
HOSTILE_TESTS := ^TestHostile
# Tests that kill or interrupt what they start, and those with much content. "make test-full" has them do so at every point.
CRASH_TESTS   := TestKilledMigration|TestKilledProcessLosesNothing|TestKilledProcessLeavesOneResultSet|TestInterruptedDiscard|TestLargeContent|TestMigrationOfContent|TestKill
# The suites of the store: the concurrent part with the race detector, and the whole of each without it.
STORE_SUITES  := TestSQLite|TestPostgres|TestMySQL
# Packages without concurrency: no test does two things at a time. All others are tested with the race detector. test/docs looks for goroutines.
PLAIN := api cmd hack internal/advice internal/candidates internal/controller/bellerophon internal/controller/exceptions \
	internal/controller/notificationrules internal/controller/policies internal/controller/reportsinks internal/controller/vexsources internal/coverage \
	internal/decision internal/inventory internal/manifest internal/model internal/outbound internal/places internal/plugin internal/policy \
	internal/policyreports internal/registries internal/report internal/ring internal/scanjob internal/server/exceptions internal/server/seal \
	internal/since internal/summary internal/truncate internal/version internal/vex internal/vexdecisions internal/vulndb/sample test web
# Packages of whose tests a part is concurrent: that part is tested with the race detector, and everything else without it.
MIXED := internal/catalog internal/controller/mycustomresource internal/controller/podset internal/controller/scanner internal/match internal/matching internal/server \
	internal/store/sqlstore internal/vulndb
# The concurrent tests of these packages, in the same order.
CONCURRENT_TESTS := TestCancelled|TestLayers.*|TestPlatforms|TestPullByDigest|TestRootFSLimits|TestSlowRegistry|TestTempDirIsRestored|TestUnknownLayers|TestWatchScratch
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestStrangersAreNoBurden
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestSlowStartStopsAtTheFirstRefusal|TestTwoLeaders.*
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestScansOfNewPodsStartBetweenReconciles|TestReconcilesCountScansOfNewPods|TestReconcilesStartNothingTwice|TestNewPodsAreBounded
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestStartsThatHangHoldNoLock|TestRegistriesOfOthersStopNoNewPods|TestScansOfAKilledManagerHaveFailed|TestChildrenShareTheMemory|TestEndedScansAreTracedOnce
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestHotSwap
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestImportedDatabaseReachesOtherReplicas|TestMatchesWhenTheDatabaseArrives|TestPreviewer|TestRunRecordsTheDayWithoutADatabase
# Of the server: streams and those who read them slowly, several replicas, sessions that are refreshed, and everything that is shared or limited.
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestStoreGoesAway.*|TestStoreStaysAway.*|TestReplicas.*|TestDatabaseServerRestarts|TestFailover.*|TestFeed.*|TestDeploymentFeed.*
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestEvents.*|TestFilteredEvents|TestNoEventIsLostOrTwice|.*Subscri.*|TestMetrics
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestSlow.*|TestExportSlots|TestConnections.*|TestShutdown.*|TestHandlerWithoutStart|TestMatrixOfStreams|TestMemoryOfAnswersIsBounded
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestConcurrentReviewsAreOne|TestDueCountsAreShared|TestEachCallerHasAnAllowance|TestLimitedWebSocket|TestPreviewsAreLimited|TestSearch
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestSessionIsRefreshed|TestSessionOfManyNamespaces|TestSessionsOfReplicas|TestRefreshBesideOtherRequests|TestParallelRequestsAfterLongIdling
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestClientGone|TestListEndsWithThePermission|TestUploadsAreBoundedByMemory|TestUploadsWaitForEachOther|TestWebSocketsOf.*|TestBehindProxy
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestBusyDatabase|TestDecisionsOfReplicas|TestLostConnections|TestMigrationWaits|TestOpenAtOnce|TestOpenWithoutServer
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestOtherStoresAreNotified|TestTwoStores|TestUnavailableServer|TestWriterWaits
CONCURRENT_TESTS := $(CONCURRENT_TESTS)|TestRematchRequestsAtOnce|TestRun.*|TestTwoProcesses|TestUpdate
PACKAGES    = $$($(GO) list ./... | grep -v '/test/parity$$')
plain      := -E '^$(MODULE)/($(shell echo '$(PLAIN)' | tr ' ' '|'))(/|$$)'
mixed      := -E '^$(MODULE)/($(shell echo '$(MIXED)' | tr ' ' '|'))$$'
# The packages that take longest, which start first: the last to end would otherwise run alone.
SLOW       := ./internal/store/sqlstore ./internal/matching ./internal/server ./internal/catalog
# Smaller binaries: the linker is a good part of what testing costs. "make lint" has vet's checks, and all others of it.
GO_TEST    := $(GO) test -timeout 40m -ldflags=-w -vet=off
# Fewer garbage collections: a tenth less processor time for what has memory enough. Not for tests that compare memory with a bound.
GARBAGE    := GOGC=400
# Modules other than the main one that hold code of ours, and not only the pins of tools.
MODULES    := hack/gobuild hack/devcluster hack/devcluster/coredns test/dex test/s3 test/parity/grypecli

.PHONY: test
test: ## Run all tests that CI runs, installing what they lack; CI_E2E=skip leaves out the end-to-end tests.
	@hack/steps.sh test $(TEST_STEPS)

.PHONY: cold
cold: ## Measure "make run" up to the first scanned image, and "make test", with empty caches (70 minutes on two processors).
	@hack/cold.sh

.PHONY: setup
setup: ## Install the Debian packages that the tests need (as root), or name what is missing.
	@hack/setup.sh

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go, without the race detector.
	env -u KUBEBUILDER_ASSETS -u CI $(GO_TEST) $(PACKAGES)

.PHONY: test-integration
test-integration: test-plain test-race test-modules ## Run all Go tests, against a real kube-apiserver and etcd, with the race detector where there is concurrency.

go_test_with_servers = assets=$$($(GO) run -C hack/devcluster . assets); export KUBEBUILDER_ASSETS="$$assets" HELM=$(HELM) $(GARBAGE)

.PHONY: test-plain
test-plain: $(HELM) ## Run the Go tests without concurrency.
	$(go_test_with_servers); \
	$(GO_TEST) -skip '$(HOSTILE_TESTS)|^($(CONCURRENT_TESTS))$$' $(SLOW) $$($(GO) list ./... | grep $(mixed)); \
	$(GO_TEST) -skip '$(HOSTILE_TESTS)' ./cmd/scanner-operator $$($(GO) list ./... | grep $(plain) | grep -v '/test/parity$$')

# One package more than processors at a time: some wait for their servers. The detector itself takes memory, so the test that measures it runs without.
.PHONY: test-race
test-race: $(HELM) ## Run the concurrent Go tests with the race detector.
	$(go_test_with_servers) CGO_ENABLED=1; \
	$(GO_TEST) $(RACE) -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -skip '$(HOSTILE_TESTS)' ./internal/setup/... $$($(GO) list ./... | grep -v $(plain) | grep -v $(mixed)); \
	$(GO_TEST) $(RACE) -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -skip '$(HOSTILE_TESTS)' -run '^($(STORE_SUITES)|$(CONCURRENT_TESTS))$$' $$($(GO) list ./... | grep $(mixed)); \
	CGO_ENABLED=0 GOGC= $(GO_TEST) -run '^TestMemoryOfUploads$$' ./internal/setup

# The tests of the local cluster start a simulated one, for a minute.
.PHONY: test-modules
test-modules: ## Run the Go tests of the other modules.
	@for module in $(MODULES); do \
		echo "$$module:"; \
		case "$$module" in \
		hack/gobuild | hack/devcluster) (cd "$$module" && env -u CI CGO_ENABLED=1 DEVCLUSTER_TEST=simulated $(GO_TEST) $(RACE) ./...) ;; \
		*) (cd "$$module" && env -u CI $(GO_TEST) ./...) ;; \
		esac; \
	done

# The packages that hold the hostile corpus.
HOSTILE := ./cmd/scanner-operator ./internal/candidates ./internal/catalog ./internal/match ./internal/report ./internal/server

.PHONY: hostile
hostile: ## Run the hostile corpus by itself, without the race detector, and count its cases.
	@results=$$(mktemp); trap 'rm -f "$$results"' EXIT; browser=(); \
	if command -v npm >/dev/null; then \
		browser=(-browser "$$results"); $(MAKE) web/node_modules/.package-lock.json; \
		PLAYWRIGHT_JSON_OUTPUT_NAME="$$results" npm --prefix web run e2e -- e2e/hostile.spec.ts --reporter=list,json || true; \
	else \
		hack/missing.sh "Node, for the tests of the UI"; \
	fi; \
	{ $(GO_TEST) -json -run '$(HOSTILE_TESTS)' $(HOSTILE) || true; } | $(GO) run ./hack/hostile "$${browser[@]}"

.PHONY: test-chart
test-chart: $(HELM) ## Test the Helm chart.
	HELM=$(HELM) $(GO_TEST) ./test/chart/... ./test/upgrade/...

# An API server emulates the three minor versions before its own; the one of OLDEST, in a module of its own, is built.
EMULATED := 1.34 1.35 1.36
OLDEST   := hack/devcluster/oldest

.PHONY: test-versions
test-versions: $(HELM) ## Test the CRDs, roles and admission policies with older API servers (seven minutes of CPU time to build the oldest).
	@assets=$$($(GO) run -C hack/devcluster . assets); mkdir -p bin/oldest; ln -sf "$$assets/etcd" "$$assets/kubectl" bin/oldest; \
	oldest=$$($(GO) list -C $(OLDEST) -m -f '{{.Version}}' k8s.io/kubernetes); IFS=. read -r major minor _ <<<"$${oldest#v}"; \
	package=k8s.io/component-base/version; \
	$(GO) run -C hack/gobuild ./cmd -title "kube-apiserver $$oldest" -dir "$(CURDIR)/$(OLDEST)" -output "$(CURDIR)/bin/oldest/kube-apiserver" \
		-ldflags "-X $$package.gitVersion=$$oldest -X $$package.gitMajor=$$major -X $$package.gitMinor=$$minor" k8s.io/kubernetes/cmd/kube-apiserver; \
	run() { \
		echo "Kubernetes $$1:"; \
		KUBE_EMULATED_VERSION="$$1" KUBEBUILDER_ASSETS="$$2" HELM=$(HELM) CI=true $(GO_TEST) ./test/admission; \
	}; \
	run "$$major.$$minor" "$(CURDIR)/bin/oldest"; \
	for version in $(EMULATED); do run "$$version" "$$assets"; done

.PHONY: screenshots
screenshots: web/node_modules/.package-lock.json ## Make the pictures of the pages in web/e2e/screenshots, with which "make test-ui" compares them, and those of mails in docs/images, with Chromium.
	npm --prefix web run e2e -- e2e/screenshots.spec.ts --update-snapshots=all
	$(GO) test ./internal/notify -run '^TestPictures$$' -count 1 -pictures "$(CURDIR)/docs/images"

.PHONY: test-ui
test-ui: ## Test the UI: types, unit tests, and in a browser, except for the hostile corpus.
	@if command -v npm >/dev/null; then \
		$(MAKE) web/dist/index.html && npm --prefix web run test && npm --prefix web run e2e -- --grep-invert hostile.spec.ts; \
	else \
		hack/missing.sh "Node, for the tests of the UI"; \
	fi

.PHONY: test-headlamp
test-headlamp: $(HEADLAMP)/node_modules/.package-lock.json ## Lint, test and build the Headlamp plugin (installs 850 MB; "make test-ui" tests what needs no Headlamp).
	npm --prefix $(HEADLAMP) run --silent lint
	npm --prefix $(HEADLAMP) run --silent typecheck
	npm --prefix $(HEADLAMP) run --silent test
	$(MAKE) headlamp

.PHONY: parity
parity: ## Compare our findings, and the difference of databases, with Grype's own on the same input.
	$(GARBAGE) $(GO_TEST) ./test/parity/...

.PHONY: vex-examples
vex-examples: ## Read the published examples of CSAF and CycloneDX, from the internet or the copies in VEX_EXAMPLES.
	@hack/vex-examples.sh

.PHONY: test-full
test-full: ## Run the random and crash tests in full, without the race detector (half an hour on two processors).
	SCANNER_TEST_FULL=1 $(GO) test -timeout 60m -run '^($(CRASH_TESTS)|$(STORE_SUITES)|TestVisible)$$' ./internal/store/sqlstore
	SCANNER_PARITY_RANDOM=700 $(GO) test -timeout 60m -run '^TestRandomParity$$' ./test/parity
	$(GO) test -timeout 60m -run '^(TestFullEqualsIncremental|TestEveryKindOfChange|TestKill)$$' ./internal/matching

.PHONY: e2e
e2e: ui $(HELM) ## Run the end-to-end tests on a local cluster (Linux, root); CI_E2E=skip leaves them out.
	@if [[ "$${CI_E2E:-}" == skip ]]; then \
		echo "end-to-end tests left out: CI_E2E=skip"; \
	elif [[ "$$(uname -s)" != Linux || "$$(id -u)" != 0 ]]; then \
		hack/missing.sh "Linux and root, for the end-to-end tests (CI_E2E=skip leaves them out)"; \
	else \
		HELM=$(HELM) $(GO) test -tags e2e -count=1 -timeout 90m ./test/e2e/...; \
	fi

.PHONY: cold-install
cold-install: ui $(HELM) ## Measure how long the images of a node take on a local cluster with the default limits (Linux, root).
	HELM=$(HELM) $(GO) test -tags e2e,install -count=1 -timeout 30m -v -run '^TestColdInstall$$' ./test/e2e

# Flags of TestChurn, such as -churn=50 for a churn of 50 pods per second.
SCALE_ARGS ?=
scale_test := $(GO) test -tags scale -count=1 -v ./test/scale

.PHONY: scale
scale: ## Run the operator with 2,000 pods on simulated nodes, then with 30,000 of which 100 per second are replaced; the report is dist/scale.md (20 minutes on two processors).
	@mkdir -p dist
	$(scale_test) -timeout 30m -skip '^TestChurn$$'
	$(scale_test) -timeout 60m -run '^TestChurn$$' -args -report '$(CURDIR)/dist/scale.md' $(SCALE_ARGS)

# The tests of PodSets wait for the node controller most of the time.
.PHONY: scale-sample
scale-sample: ## Run the operator with 600 pods on simulated nodes, and with 600 in another cluster of which 20 per second are replaced (three minutes on two processors).
	@output=$$(mktemp); trap 'rm -f "$$output"' EXIT; status=0; \
	$(scale_test) -short -timeout 45m -run '^TestChurn$$' -args -cluster scale-churn >"$$output" 2>&1 & churn=$$!; \
	$(scale_test) -short -timeout 45m -skip '^TestChurn$$' || status=$$?; \
	wait "$$churn" || status=$$?; cat "$$output"; exit "$$status"

# Shows the UI in Chromium with a real server and PostgreSQL: $(call ui_scale,flags of the test).
define ui_scale
	@if ! command -v npm >/dev/null; then \
		hack/missing.sh "Node, for the tests of the UI"; \
	elif [[ -z "$${CHROMIUM:-}" && ! -e /usr/bin/chromium-headless-shell && ! -e /usr/bin/chromium ]]; then \
		hack/missing.sh "Chromium, for the tests of the UI (hack/setup.sh installs it)"; \
	elif [[ ! -e /usr/lib/postgresql ]] && ! command -v postgres >/dev/null; then \
		hack/missing.sh "PostgreSQL, for the tests of the UI with many images (hack/setup.sh installs it)"; \
	else \
		mkdir -p dist && $(MAKE) web/dist/index.html && $(GO) test -tags uiscale -count=1 -v -timeout 60m ./test/uiscale -args $(1); \
	fi
endef

.PHONY: ui-scale
ui-scale: ## Show the UI in Chromium with 10,000 images on PostgreSQL while others come and go; print what was measured, write it to dist/ui-scale.md, and fail if a page misses a bound (15 minutes on two processors).
	$(call ui_scale,-images 10000 -bounds -report '$(CURDIR)/dist/ui-scale.md')

.PHONY: ui-scale-sample
ui-scale-sample: ## Show the UI in Chromium with 300 images on PostgreSQL (two minutes on two processors).
	$(call ui_scale,-images 300)

# Flags of test/faults, such as -shard=1/4 for the first of four parts.
FAULTS_ARGS ?=
# The maximum of concurrent runs. Most of them only watch that an operator writes nothing, for which each has 240 MiB.
FAULTS_PARALLEL ?= 48
faults_results = -results '$(CURDIR)/dist/faults.jsonl' -report '$(CURDIR)/dist/faults.md'

.PHONY: faults
faults: setup ## Inject every fault at every request, watch event and transaction of the operator, and write the results to dist/faults.md (hours; continues where it was interrupted).
	@mkdir -p dist
	assets=$$($(GO) run -C hack/devcluster . assets); CI=true $(GARBAGE) KUBEBUILDER_ASSETS="$$assets" \
	$(GO) test -tags faults -count=1 -timeout 24h -parallel $(FAULTS_PARALLEL) ./test/faults -args -resume $(faults_results) $(FAULTS_ARGS)

.PHONY: faults-report
faults-report: ## Write dist/faults.md from the results that an interrupted "make faults" has left in dist/faults.jsonl.
	$(GO) test -tags faults -count=1 -run '^$$' ./test/faults -args $(faults_results)

.PHONY: faults-sample
faults-sample: ## Inject some faults at requests, watch events and transactions of the operator (five minutes on two processors, and ten more to build the operator).
	assets=$$($(GO) run -C hack/devcluster . assets); $(GARBAGE) KUBEBUILDER_ASSETS="$$assets" \
	$(GO) test -tags faults -short -count=1 -timeout 70m -parallel 8 ./test/faults

.PHONY: bench
bench: ## Run the benchmarks, the last of them against the grype command.
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $$($(GO) list ./... | grep -v '/test/bench$$')
	$(GO) test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 90m ./test/bench

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

##@ Check

.PHONY: lint
lint: $(GOLANGCI_LINT) $(HELM) ## Lint prose, Go code, the chart and the UI.
	$(GO) run ./hack/prose
	$(GOLANGCI_LINT) run --allow-serial-runners ./...
	@for module in $(MODULES); do \
		echo "$$module:"; (cd "$$module" && $(GOLANGCI_LINT) run --allow-serial-runners --config "$(CURDIR)/.golangci.yml" ./...); \
	done
	$(HELM) lint --strict --quiet --set image.repository=scanner-operator charts/scanner-operator
	@if command -v npm >/dev/null; then \
		$(MAKE) web/node_modules/.package-lock.json && hack/unchanged.sh .editorconfig web integrations/headlamp -- npm --prefix web run lint; \
	else \
		hack/missing.sh "Node, for the lint of the UI"; \
	fi

.PHONY: verify
verify: ## Check in a copy of the tree that generated files, go.mod files and formatting are up to date.
	@hack/verify.sh
