# The commands of every day. Each sets up what it needs first; ./setup says what it installs.
PRESET ?= release
BUILD := build/$(PRESET)
PACELINE := build/release/bin/paceline
RECIPE ?= recipes/fashion_mnist.toml
RANKS ?= 2
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_RUNS ?= 1000000
RUNS ?= 300
SEED ?= 1

.PHONY: help train test test-gpu build bench soak fuzz format lint install clean

help:
	@echo "make train    train $(RECIPE) on $(RANKS) ranks (another: make train RECIPE=recipes/NAME.toml RANKS=N); results in runs/"
	@echo "make test     build and run every test: under sanitizers, a minute of fuzzing, then optimised"
	@echo "make test-gpu on a machine with a GPU: compare kernels, steps and ranks there with what defines right; one table"
	@echo "make build    build everything in build/PRESET (make build PRESET=release|dev|asan|tsan|cuda)"
	@echo "make bench    measure a training step beside PyTorch's, and all-reduce beside OpenMPI's and Gloo's, each in one run"
	@echo "make soak     $(RUNS) disturbed runs (SEED=$(SEED)) and the long randomised tests; goes on where it stopped"
	@echo "make fuzz     $(FUZZ_RUNS) inputs (FUZZ_RUNS=N) for every parser, by coverage, under sanitizers"
	@echo "make format   lay out the sources (clang-format)"
	@echo "make lint     check the sources (clang-format, clang-tidy)"
	@echo "make install  install program, library and headers in PREFIX ($(PREFIX))"
	@echo "make clean    remove build/ (not .venv, not runs/)"

train:
	@./setup
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build --preset release --target paceline -- --quiet
	@$(PACELINE) train $(RECIPE) --ranks $(RANKS)

build:
	@./setup $(if $(filter cuda,$(PRESET)),--cuda)
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET)

# What lies above the libtorch line builds in a minute, so it is tested under sanitizers each time. Address randomisation is off where
# that is allowed: the thread sanitizer of g++ 12 cannot start under the wide one of newer kernels.
test:
	@./setup --tests
	@fixed=$$(setarch -R true 2>/dev/null && echo "setarch -R"); \
	for preset in asan tsan fuzz release; do \
	  cmake --preset $$preset && cmake --build --preset $$preset && $$fixed ctest --preset $$preset -j $(JOBS) || exit 1; \
	done

# Ranks may share a GPU: one is enough.
test-gpu:
	@./setup --cuda
	@cmake --preset cuda && cmake --build --preset cuda --target paceline gpu_checks nccl_checks
	@timeout -k 5 900 build/cuda/bin/gpu_checks
	@timeout -k 5 300 build/cuda/bin/paceline launch -n 2 -- build/cuda/bin/nccl_checks
	@tests/gpu/nccl_training.sh

bench:
	@./setup --peers
	@cmake --preset release && cmake --build --preset release --target step_bench paceline
	@.venv/bin/python bench/step.py
	@for ranks in 2 4; do $(PACELINE) bench allreduce --ranks $$ranks --peers openmpi,gloo || exit 1; done
	@for engine in gloo mpi; do for ranks in 2 4; do $(PACELINE) bench allreduce --engine $$engine --ranks $$ranks || exit 1; done; done

soak:
	@./setup --tests
	@cmake --preset release && cmake --build --preset release
	@tests/soak/run.py $(PACELINE) build/release --runs $(RUNS) --seed $(SEED)
	@PACELINE_SOAK=1 ctest --preset release -L soak --timeout 14400

fuzz:
	@./setup --fuzz
	@cmake --preset fuzz && cmake --build --preset fuzz
	@fixed=$$(setarch -R true 2>/dev/null && echo "setarch -R"); $$fixed tests/fuzz/run.py build/fuzz --runs $(FUZZ_RUNS) --jobs $(JOBS)

SOURCES = $(shell git ls-files '*.cc' '*.h' '*.cu')

format:
	@./setup --lint
	@clang-format -i $(SOURCES)

lint:
	@./setup --lint
	@clang-format --dry-run --Werror $(SOURCES)
	@cmake --preset dev >/dev/null
	@clang-tidy -p build/dev --quiet $(filter paceline/core/%.cc paceline/metrics/%.cc paceline/schedule/%.cc paceline/kernels/%.cc \
	  paceline/data/%.cc paceline/comm/%.cc paceline/rendezvous/%.cc paceline/launch/%.cc paceline/collectives/%.cc,$(filter-out %_test.cc,$(SOURCES)))

install:
	@./setup
	@cmake --preset release && cmake --build --preset release
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
