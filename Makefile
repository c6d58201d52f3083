# Rung's tasks. `make help` lists them; `make demo` and `make test` work as the
# first command on a new machine with Go and make.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.7.0
VERSION     ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS      = -s -w -X main.version=$(VERSION)
GOBUILD      = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
# Flags for `go test`. One package at a time: some measure, and would be in each other's way.
TESTFLAGS   ?=
FUZZTIME    ?= 5s
# Flags for `rung demo`, as in: make demo DEMOFLAGS='--arms grpc-unary --json'
DEMOFLAGS   ?=
# Flags for `make bench-account`, as in: BENCHFLAGS='--quick --only cost'
BENCHFLAGS  ?=
# Guests of `make test-vm`: arm64 or amd64, and kernels as "6.1 6.12 newest".
ARCH        ?= arm64
KERNELS     ?=
# More flags of internal/vmtest, as in: VMFLAGS='--lockdown off --tests Throttled'
VMFLAGS     ?=

.DEFAULT_GOAL := help
.PHONY: help build dist demo demo-jvm check test race truth test-vm bench-account bench-load lint fmt generate fuzz image clean linux

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the static binary build/rung for this machine's architecture
	$(GOBUILD) -o build/rung ./cmd/rung

dist: ## Build the static binaries for linux/amd64 and linux/arm64
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o build/rung-linux-amd64 ./cmd/rung
	GOOS=linux GOARCH=arm64 $(GOBUILD) -o build/rung-linux-arm64 ./cmd/rung

demo: linux build ## Profile the bundled arms step by step (root, about 2.5 minutes)
	build/rung demo $(DEMOFLAGS)

# Its sources are the pom's business; Maven finds what changed.
.PHONY: arms/jvm/target/rung-arm-jvm.jar
arms/jvm/target/rung-arm-jvm.jar:
	mvn --quiet --batch-mode --file arms/jvm/pom.xml package

demo-jvm: linux build arms/jvm/target/rung-arm-jvm.jar ## The same for JVM arms, as a campaign (root, JDK 17, Maven; 6 minutes)
	build/rung run arms/jvm/demo.yaml --out build/demo-jvm
	build/rung report build/demo-jvm

check: linux build ## Say what this machine lacks
	build/rung check

test: ## Run the tests; those of the kernel side and of cgroups need root and skip without
	$(GO) test -p 1 $(TESTFLAGS) ./...

# Not bpf, truth and bench: their tests hold measurements against each other, which the detector
# slows unevenly; its concurrency is the agent's, whose tests are run.
race: ## Run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -p 1 $$($(GO) list ./... | grep -vE '/bpf$$|/internal/(bench|truth)')

truth: linux ## Hold the account against workloads whose answer is known (root, 2 minutes or more; SHORT=1: 40 s)
	@mkdir -p build
	$(GO) build -o build/truth ./internal/truth
	build/truth $(if $(SHORT),--short) $(if $(ONLY),--only '$(ONLY)')

test-vm: ## Test on a stock ARCH kernel under lockdown; or a table of several: KERNELS="6.1 6.12 newest"
	$(GO) run ./internal/vmtest $(if $(KERNELS),matrix --kernels "$(KERNELS)",gate --timeout 10m) --arch $(ARCH) $(VMFLAGS)

bench-account: linux ## Measure the account's cost and the truth of its intervals (root, about 40 minutes)
	$(GO) run ./internal/bench account $(BENCHFLAGS)

bench-load: linux build ## Measure the load generator: lateness, honesty, stalls, CPU beside others (about 3 minutes)
	$(GO) run ./internal/benchload --rung build/rung $(BENCHFLAGS)

lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l .); \
		if [ -n "$$unformatted" ]; then echo "not formatted (run: make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

fmt: ## Format the Go code
	gofmt -w .

generate: ## Make generated code anew: API, payload, BPF objects (needs clang, llvm, libbpf-dev)
	@for tool in clang llvm-strip; do command -v $$tool >/dev/null || \
		{ echo "make generate: $$tool is missing; on Debian: apt-get install clang llvm libbpf-dev" >&2; exit 1; }; done
	@[ -e /usr/include/bpf/bpf_helpers.h ] || \
		{ echo "make generate: bpf/bpf_helpers.h is missing; on Debian: apt-get install libbpf-dev" >&2; exit 1; }
	$(GO) run ./internal/protogen $$(find api arms -name '*.proto' | sort)
	$(GO) generate ./...

# Go's fuzzer at times reports its own end as a failure, "context deadline exceeded"
# and no failing input: that target runs once more.
fuzz: ## Run every fuzz target for FUZZTIME (5s each)
	@set -e; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "fuzz $$(dirname $$file) $$target"; \
			run="$(GO) test -run ^$$ -fuzz ^$$target\$$ -fuzztime $(FUZZTIME) -fuzzminimizetime 5s $$(dirname $$file)"; \
			if $$run >"$$log" 2>&1; then tail -n 1 "$$log"; continue; fi; \
			cat "$$log"; \
			if grep -q 'Failing input' "$$log" || ! grep -q 'context deadline exceeded' "$$log"; then exit 1; fi; \
			$$run; \
		done; done

image: ## Build the container image (needs docker)
	docker build --build-arg VERSION=$(VERSION) -t rung:$(VERSION) .

clean: ## Remove what was built
	rm -rf build

linux:
	@[ "$$(uname -s)" = Linux ] || { echo "rung: needs Linux, found $$(uname -s); run it in a Linux machine or VM, kernel 6.1 or newer" >&2; exit 2; }
