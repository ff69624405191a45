# Everything this project needs comes from Go modules: tools are built once from hack/tools into bin/, and rebuilt when their go.mod changes.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ifneq ($(words $(CURDIR)),1)
$(error the path of this folder has spaces, which make cannot do: move it)
endif
BIN := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBECTL ?= kubectl
# Of the images. GOARCH, amd64 or arm64, is that of their binaries; what runs here stays of this machine.
IMAGE_TAG ?= dev
CONTAINER_TOOL ?= docker
IMAGE_ARCH := $(or $(GOARCH),$(shell go env GOARCH))
IMAGE_SETTINGS = VERSION='$(VERSION)' GOARCH=$(IMAGE_ARCH) IMAGE_TAG='$(IMAGE_TAG)' CONTAINER_TOOL='$(CONTAINER_TOOL)'
# What make deploy and make build-installer install.
IMG ?= requeststate-manager:dev
SIDECAR_IMG ?= requeststate-sidecar:dev
# The race detector needs cgo, and so a C compiler.
RACE := $(shell command -v "$$(go env CC)" >/dev/null && echo -race)

CONTROLLER_GEN := bin/controller-gen
CRD_REF_DOCS := bin/crd-ref-docs
GOLANGCI_LINT := bin/golangci-lint
HELM := bin/helm
BINARIES := bin/manager bin/sidecar bin/kubectl-requeststate

GO_SOURCES := $(shell find api cmd controllers internal sidecar clients -name '*.go' -not -name '*_test.go' 2>/dev/null) go.mod go.sum
IMAGE_BINARIES := bin/linux-$(IMAGE_ARCH)/manager bin/linux-$(IMAGE_ARCH)/sidecar
IMAGES := bin/images/requeststate-manager.tar bin/images/requeststate-sidecar.tar
DEMO_SOURCES := $(shell find test -name '*.go' -not -name '*_test.go' 2>/dev/null) test/go.mod test/go.sum
SCRIPTS := .ci/run $(shell find hack test -name '*.sh')

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "\nUsage:\n  make \033[36m<target>\033[0m\n"} \
		/^[a-zA-Z_-]+:.*?##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/demo $(BINARIES) control-plane ## Run three MCP servers through a rotation on a local control plane. DEMO_FLAGS is passed on. The first run builds for up to 20 minutes.
	bin/demo $(DEMO_FLAGS)

.PHONY: soak
soak: bin/demo $(BINARIES) control-plane ## Rotate back to back for 10 minutes while processes and the API server are killed. SOAK_FLAGS is passed on: -duration, -seed, -v.
	bin/demo soak $(SOAK_FLAGS)

.PHONY: scale
scale: control-plane ## Bring 1,000 keys to life by a KMS that allows 5 requests a second, and print what it was asked (10 minutes).
	cd test && go test -count=1 -timeout 30m ./scale -v -keys 1000

##@ Development

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRDs, the manager's RBAC role and the chart's copies of config/.
	hack/generate.sh . crds rbac chart

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the DeepCopy methods.
	hack/generate.sh . deepcopy

.PHONY: api-docs
api-docs: $(CRD_REF_DOCS) ## Generate the API reference, docs/api.md.
	hack/generate.sh . api-docs

.PHONY: fmt
fmt: ## Format the Go code.
	gofmt -w $(wildcard api cmd controllers internal sidecar clients test)

.PHONY: vet
vet: ## Run go vet on the main module, on test/ and on the image builder.
	go vet ./...
	cd test && go vet -tags e2e ./...
	cd hack/tools/image && go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Lint the main module, test/, the image builder and the scripts.
	@failed=0; $(GOLANGCI_LINT) run ./... || failed=1; \
		(cd test && $(BIN)/golangci-lint run --config ../.golangci.yml ./...) || failed=1; \
		(cd hack/tools/image && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
		exit $$failed
	@for script in $(SCRIPTS); do bash -n "$$script"; done
	@if command -v shellcheck >/dev/null; then shellcheck --external-sources --source-path=SCRIPTDIR $(SCRIPTS); fi

.PHONY: test
test: control-plane $(HELM) ## Run unit and envtest suites of the main module and of test/, with -race. TEST_FLAGS is passed on.
	@[ -n "$(RACE)" ] || echo "no C compiler: the tests run without the race detector"
	go test $(RACE) -timeout 20m $(TEST_FLAGS) $$(go list ./... | grep -v /internal/rotation/model)
	@# The search of the protocol is millions of pure steps, which the race detector would make ten times as slow.
	go test -timeout 20m $(TEST_FLAGS) ./internal/rotation/model
	@# Never from the cache: what these tests read lies outside their module, where go test does not look for changes.
	cd test && go test $(RACE) -timeout 20m -count=1 $(TEST_FLAGS) ./...
	cd hack/tools/image && go test $(RACE) $(TEST_FLAGS) ./...

.PHONY: moto
moto: ## Install moto, a stand-in for AWS in Python, into bin/moto, once; make test then runs the tests that need it. Needs Python 3.10.
	hack/tools/moto.sh

.PHONY: conformance
conformance: bin/conformance bin/everything-server bin/sidecar ## Run the official MCP suite against a server bare and behind the proxy (1 minute). Installs the suite and Node.js once; needs npm.
	hack/tools/conformance.sh
	bin/conformance $(CONFORMANCE_FLAGS)

.PHONY: bench
bench: ## Run the benchmarks. Those of the proxy have a peer in the same run, net/http's reverse proxy: compare with it, not with yesterday. BENCH_FLAGS is passed on.
	go test -run '^$$' -bench . $(BENCH_FLAGS) ./internal/... ./sidecar/...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each (30s). What it finds lands in the package's testdata.
	hack/fuzz.sh $(FUZZTIME)

.PHONY: verify
verify: $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Fail if anything generated is stale; change nothing.
	hack/verify.sh

##@ Build

.PHONY: build
build: $(BINARIES) ## Build the manager, the sidecar and the kubectl plugin into bin/.

$(BINARIES): bin/%: $(GO_SOURCES) bin/.version
	@echo "building $@ $(VERSION); up to 4 minutes the first time on 2 cores"
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/$*

bin/demo: $(GO_SOURCES) $(DEMO_SOURCES)
	@echo "building $@; up to 4 minutes the first time on 2 cores"
	cd test && CGO_ENABLED=0 go build -trimpath -o ../$@ ./demo

bin/conformance: $(DEMO_SOURCES)
	cd test && CGO_ENABLED=0 go build -trimpath -o ../$@ ./conformance

# go-sdk's own server for the conformance suite.
bin/everything-server: test/go.mod test/go.sum
	cd test && CGO_ENABLED=0 go build -trimpath -o ../$@ github.com/modelcontextprotocol/go-sdk/conformance/everything-server
	@touch $@

# Touched only when the version differs from the last build's.
bin/.version: FORCE
	@mkdir -p bin
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@

.PHONY: FORCE
FORCE:

.PHONY: images
images: $(IMAGES) ## Make the images, without a container engine, as archives in bin/images. IMAGE_TAG (dev) and GOARCH choose.

.PHONY: docker-build
docker-build: $(IMAGE_BINARIES) ## Make the images by the Dockerfile and CONTAINER_TOOL: docker, podman or buildah. IMAGE_TAG (dev) and GOARCH choose.
	@for name in manager sidecar; do $(IMAGE_SETTINGS) hack/image.sh engine $$name; done

.PHONY: image-check
image-check: $(IMAGES) ## Check that the Dockerfile makes the same images as make images, and that they run. Needs buildah and root.
	@$(IMAGE_SETTINGS) hack/check-dockerfile.sh

# What runs in the pods of the end-to-end tests, and in every pod of the cluster of make cluster-up.
bin/images/requeststate-e2e-pod.tar: bin/image $(DEMO_SOURCES)
	cd test && CGO_ENABLED=0 GOOS=linux GOARCH=$(IMAGE_ARCH) go build -trimpath -ldflags '-s -w' -o ../bin/linux-$(IMAGE_ARCH)/e2e-pod ./e2e/pod
	@mkdir -p bin/images
	bin/image -binary bin/linux-$(IMAGE_ARCH)/e2e-pod -tag requeststate-e2e-pod:dev -out $@

bin/images/pause.tar: bin/image hack/tools/pause/main.go
	cd hack/tools && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(BIN)/linux-$(IMAGE_ARCH)/pause ./pause
	@mkdir -p bin/images
	bin/image -binary bin/linux-$(IMAGE_ARCH)/pause -tag localhost/pause:dev -out $@

$(IMAGES): bin/images/requeststate-%.tar: bin/linux-$(IMAGE_ARCH)/% bin/image bin/images/.settings hack/image.sh
	@$(IMAGE_SETTINGS) hack/image.sh archive $*
	@echo "$@: requeststate-$*:$(IMAGE_TAG), linux/$(IMAGE_ARCH)"

$(IMAGE_BINARIES): bin/linux-$(IMAGE_ARCH)/%: $(GO_SOURCES) bin/.version
	@echo "building $@ $(VERSION); up to 4 minutes the first time on 2 cores"
	CGO_ENABLED=0 GOOS=linux GOARCH=$(IMAGE_ARCH) go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/$*

# What is in the archives beside the binaries. Touched only when it differs from the last build's.
bin/images/.settings: FORCE
	@mkdir -p bin/images
	@{ echo '$(IMAGE_ARCH) $(IMAGE_TAG)'; hack/image-labels.sh manager '$(VERSION)'; hack/image-labels.sh sidecar '$(VERSION)'; } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

.PHONY: clean
clean: ## Remove what is built here; the control plane in bin/k8s and the tools stay. rm -r bin removes them too.
	rm -f $(BINARIES) bin/demo bin/conformance bin/everything-server bin/.version
	rm -rf bin/images bin/linux-*

##@ Cluster

.PHONY: cluster-up
cluster-up: bin/images/pause.tar ## Start a one-node Kubernetes with a real kubelet, in namespaces of its own. Needs root, and Debian or Ubuntu. Builds for up to 25 minutes, once.
	@hack/cluster/up.sh

.PHONY: cluster-down
cluster-down: ## End that cluster and remove all that it left.
	@hack/cluster/down.sh

.PHONY: cluster-load
cluster-load: ## Make IMAGE, the path of an archive, known to that cluster.
	@[ -n "$(IMAGE)" ] || { echo "say which: make cluster-load IMAGE=bin/images/requeststate-sidecar.tar" >&2; exit 2; }
	@hack/cluster/load.sh "$(IMAGE)"

.PHONY: e2e
e2e: images bin/images/requeststate-e2e-pod.tar bin/images/pause.tar bin/helm bin/kubectl-requeststate ## Run the end-to-end tests where KUBECONFIG points, else on a cluster that it starts and ends (root). TEST_FLAGS is passed on.
	@hack/e2e.sh $(TEST_FLAGS)

##@ Deployment

.PHONY: run
run: bin/manager ## Run the manager against the current kubeconfig. RUN_FLAGS is passed on.
	bin/manager $(RUN_FLAGS)

.PHONY: install
install: kubectl ## Install the CRDs into the cluster of the current kubeconfig.
	$(KUBECTL) apply --server-side -f config/crd/bases

.PHONY: uninstall
uninstall: kubectl ## Delete the CRDs, and with them every RequestStateKey and its ring.
	$(KUBECTL) delete --ignore-not-found -f config/crd/bases

.PHONY: deploy
deploy: kubectl ## Install everything, with the images IMG and SIDECAR_IMG, into the cluster of the current kubeconfig.
	hack/overlay.sh dist/overlay '$(IMG)' '$(SIDECAR_IMG)'
	$(KUBECTL) apply --server-side -k dist/overlay

.PHONY: undeploy
undeploy: kubectl ## Delete what deploy installed, but for the CRDs: keys and rings stay. make uninstall deletes those.
	@# What refuses pods without a sidecar goes before what adds the sidecar.
	$(KUBECTL) delete --ignore-not-found -f config/injection/sidecar-required.yaml
	@for part in injection manager rbac policy; do $(KUBECTL) delete --ignore-not-found -k config/$$part; done

.PHONY: build-installer
build-installer: kubectl ## Write dist/install.yaml, which installs everything with IMG and SIDECAR_IMG: kubectl apply --server-side -f.
	hack/overlay.sh dist/overlay '$(IMG)' '$(SIDECAR_IMG)'
	$(KUBECTL) kustomize dist/overlay >dist/install.yaml.tmp
	mv dist/install.yaml.tmp dist/install.yaml
	@echo "wrote dist/install.yaml for $(IMG) and $(SIDECAR_IMG)"

.PHONY: kubectl
kubectl:
	@command -v $(KUBECTL) >/dev/null || { \
		echo "no $(KUBECTL): install kubectl, name one with KUBECTL=PATH," >&2; \
		echo "or build one (up to 5 minutes): hack/tools/control-plane.sh kubectl, then KUBECTL=bin/k8s/kubectl" >&2; exit 1; }

##@ Tools

.PHONY: control-plane
control-plane: ## Build etcd and kube-apiserver into bin/k8s, once (up to 15 minutes); KUBEBUILDER_ASSETS, if set, is used instead.
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then hack/tools/control-plane.sh; else \
		for name in etcd kube-apiserver; do \
			[ -x "$$KUBEBUILDER_ASSETS/$$name" ] || { echo "no $$name in KUBEBUILDER_ASSETS=$$KUBEBUILDER_ASSETS: unset it to use bin/k8s" >&2; exit 1; }; \
		done; fi

$(CONTROLLER_GEN): hack/tools/go.mod hack/tools/go.sum
	@echo "building $@ from its Go module; about 1 minute on 2 cores, once"
	cd hack/tools && CGO_ENABLED=0 go build -trimpath -o $(BIN)/ sigs.k8s.io/controller-tools/cmd/controller-gen
	@touch $@

$(CRD_REF_DOCS): hack/tools/go.mod hack/tools/go.sum
	@echo "building $@ from its Go module; about 1 minute on 2 cores, once"
	cd hack/tools && CGO_ENABLED=0 go build -trimpath -o $(BIN)/ github.com/elastic/crd-ref-docs
	@touch $@

bin/image: $(wildcard hack/tools/image/*.go) hack/tools/image/go.mod hack/tools/image/go.sum
	cd hack/tools/image && env -u GOOS -u GOARCH CGO_ENABLED=0 go build -trimpath -o $(BIN)/image .
	@touch $@

# Helm learns its own version, and the Kubernetes that it renders for without a cluster, when it is linked.
HELM_VERSION = $(shell cd hack/tools/helm && go list -m -f '{{.Version}}' helm.sh/helm/v3)
HELM_LDFLAGS = -s -w -X helm.sh/helm/v3/internal/version.version=$(HELM_VERSION) $(foreach p,chartutil lint/rules, \
	-X helm.sh/helm/v3/pkg/$(p).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(p).k8sVersionMinor=37)
$(HELM): hack/tools/helm/go.mod hack/tools/helm/go.sum
	@echo "building $@ from its Go module; 2 to 4 minutes on 2 cores, once"
	cd hack/tools/helm && CGO_ENABLED=0 go build -trimpath -ldflags '$(HELM_LDFLAGS)' -o $(BIN)/ helm.sh/helm/v3/cmd/helm
	@touch $@

$(GOLANGCI_LINT): hack/tools/lint/go.mod hack/tools/lint/go.sum
	@echo "building $@ from its Go module; 3 to 6 minutes on 2 cores, once"
	cd hack/tools/lint && CGO_ENABLED=0 go build -trimpath -o $(BIN)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
