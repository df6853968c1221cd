# Few targets on purpose; each is a line that one could type.
GO ?= go

.PHONY: build test deps lint unit real page imports fresh buildkit cluster oracle fuzz bench load scale release image release-check vuln weaknesses

build: ## the program, at bin/imgcheck
	$(GO) build -trimpath -o bin/imgcheck ./cmd/imgcheck

test: deps lint unit ## everything that must hold, without the real images

deps: ## what the tests need; installs it as root on Debian and Ubuntu
	./test/deps.sh

lint: ## vet, staticcheck, gofumpt, shellcheck, actionlint, Vale for the English, and no file forgotten in go.mod
	$(GO) vet ./... ./testdata/images
	for main in test/gpucode test/types release/weaknesses; do $(GO) vet "./$$main/main.go" || exit 1; done
	$(GO) tool staticcheck -checks inherit,ST1000,ST1020,ST1021,ST1022 ./...
	@test -z "$$($(GO) tool gofumpt -l .)" || { $(GO) tool gofumpt -l .; echo "gofumpt would change these files: go tool gofumpt -w ."; exit 1; }
	$(GO) mod tidy -diff
	./test/lint.sh

# Packages whose tests run without the race detector: they start no goroutines, or are
# whole programs that take minutes with it. The tests of pkg/fix run lint and replay with it
# on all text images, those of pkg/layers pkg/inflate on several processors.
PLAIN = /cmd/|/test/|/release|/rules$$|/internal/(deflatetail|version)$$|/pkg/(builds|buildkit|dockerfile|dockerlint|elfdeps|explain|imagerefs|inflate|inventory|ldd|lint|nodejs|packs|predict|pycode|pyenv|pyimport|pysource|replay|report|signature|size|startup|templates)$$

# Garbage is collected seldom below a gigabyte, which saves a fifth of the tests' time.
unit: export GOGC = 400
unit: export GOMEMLIMIT = 1GiB
unit: ## all tests, with the race detector where goroutines meet
	$(GO) test -timeout 60m $$($(GO) list ./... | grep -E '$(PLAIN)')
	CGO_ENABLED=1 $(GO) test -race -timeout 60m $$($(GO) list ./... | grep -vE '$(PLAIN)')

real: ## images of Debian and npm, and the git hook beside hook managers; root, 20 GB, some minutes
	$(GO) test -count=1 -tags managers -run TestHookManagers ./cmd/imgcheck
	./test/real/run.sh
	./test/real/slim.sh

page: ## pages of reports in Chromium, with screenshots in .page; chromium, node, npm, minutes
	./test/page/run.sh .page

imports: ## real imports of every module of ROOT's Python, recorded in RECORD, against the predictions; root, minutes
	[ -e $(RECORD) ] || ./test/imports/record.sh $(ROOT) $(RECORD).changes $(RECORD)
	$(GO) run ./test/imports/main.go $(ROOT) $(RECORD)

fresh: ## the README's commands on a Debian that has nothing, as far as they set things up (test/fresh.sh whole: all of it), and a release built there; root, some minutes
	./test/fresh.sh

buildkit: ## pkg/buildkit, pkg/dockerline, and what --emit writes, against a buildkitd that is built here; root
	./test/deps.sh buildkit
	$(GO) build -C test/buildkit -o $(CURDIR)/bin/ tool
	BUILDKIT=$(CURDIR)/bin $(GO) test -count=1 -tags buildkitd ./pkg/buildkit ./pkg/dockerline
	BUILDKIT=$(CURDIR)/bin $(GO) test -count=1 -tags buildkitd -run '^TestEmitted' -skip '^TestEmittedSources$$' ./cmd/imgcheck

cluster: ## what gpus --emit, fleet and attest write, against Kubernetes' own evaluators and checks
	$(GO) test -C test/cluster -count=1 ./...

N ?= 2000
SEED ?= 1
RUN ?= TestRandom
ROOT ?= /
oracle: ## N random worlds from SEED on, of each kind that RUN names, against this machine's glibc and musl, or ROOT's (test/loaders.sh); root
	ELFDEPS_WORLDS=$(N) ELFDEPS_SEED=$(SEED) $(GO) test -count=1 -timeout 24h -run '^$(RUN)' ./pkg/elfdeps -loaderroot $(realpath $(ROOT))

T ?= $(or $(FUZZTIME),30s)
fuzz: ## each fuzz target for T (30s, 10m, 500x), and as often as FUZZLEAST at least
	FUZZTIME=$(T) ./test/fuzz.sh

bench: ## what a scan costs, as one table (docs/speed.md); BENCH_SMALL=1 tries it; 15 GB, some 15 minutes
	./test/bench/run.sh

load: ## 200 scans, 16 at a time, with one cache and one registry, and 200 processes that are killed; minutes
	LOAD=200,200 $(GO) test -count=1 -v -timeout 30m ./test/load

SCALE ?= 1000,10000
scale: build ## what images with N of one thing take, for each N of SCALE (docs/speed.md); CASES= some of `go run ./test/scale/main.go list`; minutes
	$(GO) run ./test/scale/main.go bin/imgcheck $(SCALE) $(CASES)

release: ## reproducible programs for Linux and macOS in dist, with their Go modules and checksums
	GO="$(GO)" ./release/release.sh

image: release ## a container image of imgcheck at dist/imgcheck.oci, without a daemon
	$(GO) run ./release/image/main.go -dist dist -version "$$(git describe --tags --match 'v*' --always --dirty)" -commit "$$(git rev-parse HEAD)"

release-check: ## the release names its modules and is signed; the image runs as a user without rights; what pre-commit installs (root)
	./test/release.sh

vuln: ## known weaknesses of dependencies that the program reaches; asks vuln.go.dev
	"$$($(GO) -C release/tools tool -n govulncheck)" ./...

weaknesses: build ## known weaknesses of modules in bin/imgcheck, by a database that the Go module proxy has
	$(GO) run ./release/weaknesses/main.go -govulncheck "$$($(GO) -C release/tools tool -n govulncheck)"
