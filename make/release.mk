##@ Release

# The platforms of a release's binaries. The image has those of Linux.
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
# The name of a release's image without a tag, which is also in its chart, and the repository of the chart. The workflow sets both.
RELEASE_IMAGE ?=
RELEASE_CHARTS ?=
# The URL below which the files of each version are published, for the manifest of the kubectl plugin; the project's own by default.
RELEASE_DOWNLOADS ?=
# VERSION counts only when somebody sets it: the default of the Makefile also describes commits without a tag.
release_version := $(if $(filter-out file,$(origin VERSION)),$(VERSION))

.PHONY: release
release: ui $(HELM) ## Build a release of the tagged commit, or of VERSION=v1.2.3, in dist/release/; SIGNING_KEY signs it.
	$(GO) run ./hack/release -version "$(release_version)" -platforms "$(PLATFORMS)" -image "$(RELEASE_IMAGE)" -helm "$(HELM)" \
		$(if $(RELEASE_DOWNLOADS),-downloads "$(RELEASE_DOWNLOADS)") $(if $(BUILDER_ID),-builder-id "$(BUILDER_ID)") $(if $(SIGNING_REQUIRED),-require-signature)

.PHONY: cross-build
cross-build: ## Compile the operator for all PLATFORMS, so that a release does not find out.
	@for platform in $$(tr , ' ' <<<"$(PLATFORMS)"); do \
		echo "$$platform"; GOOS="$${platform%/*}" GOARCH="$${platform#*/}" $(GO) build -o /dev/null ./cmd/scanner-operator; \
	done

.PHONY: release-test
release-test: ui $(HELM) ## Build the release of the last commit twice, in two clones, and compare every byte.
	HELM=$(HELM) $(GO) test -tags release -count=1 -timeout 30m -run '^TestReproducible$$' ./hack/release

# The folder of a release that exists.
release_dir = $(if $(release_version),dist/release/$(release_version),$(error set VERSION=v1.2.3, a release in dist/release))

.PHONY: release-sign
release-sign: ## Sign the release VERSION=v1.2.3 with the key in SIGNING_KEY.
	$(GO) run ./hack/release -sign "$(release_dir)"

.PHONY: release-verify
release-verify: ## Verify the signature of the release VERSION=v1.2.3 with the public key release.pub, and its checksums.
	hack/release/verify.sh "$(release_dir)" release.pub

.PHONY: release-notes
release-notes: ## Print what CHANGELOG.md says of the release VERSION=v1.2.3.
	@hack/release/notes.sh "$(notdir $(release_dir))"

.PHONY: release-push
release-push: $(HELM) ## Push the image index and the chart of the release VERSION=v1.2.3 to their registries.
	$(if $(RELEASE_CHARTS),,$(error set RELEASE_CHARTS=oci://REGISTRY/REPOSITORY))
	$(GO) run ./hack/release -push "$(release_dir)" -image "$(RELEASE_IMAGE)"
	$(HELM) push "$(release_dir)/scanner-operator-$(patsubst v%,%,$(release_version)).tgz" "$(RELEASE_CHARTS)"

##@ Gates that need the internet

.PHONY: vulncheck
vulncheck: ## Check the code against the Go vulnerability database, or the one in GOVULNDB.
	@hack/release/vulncheck.sh

# The severity from which on a vulnerability in our own image fails the gate.
FAIL_ON ?= high

.PHONY: scan-image
scan-image: build ## Scan our own image with our own scanner and the newest vulnerability database, or the one at DATABASE_URL.
	$(GO) run ./hack/image -name "$(IMG)" -version "$(VERSION)" -output dist/scan-image.tar
	bin/scanner-operator db update --data-dir dist/scan-image $(DATABASE_URL:%=--vulnerability-database-url "%")
	bin/scanner-operator scan dist/scan-image.tar --data-dir dist/scan-image --fail-on $(FAIL_ON)
