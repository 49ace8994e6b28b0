# Makefile - the front door of Spillway: every command a person types. `make help` lists them all.
#
# A build is a VARIANT with a folder of its own, build/<variant>/:
#   host             g++ and runtime/hostcuda, optimized, kernels at one thread a block: what runs without a GPU
#   cuda             nvcc and the CUDA toolkit
#   fiber            kernels at many threads a block (fibers), under AddressSanitizer and UBSan
#   tsan, asan, fiber-tsan   host and fiber under the other sanitizers

# ---- what a person can set ------------------------------------------------------------------------------------------
MODEL ?=#           preset (tiny, small, qwen2.5-0.5b, ...) or a folder with config.json; default: by the device
SEQ ?=#             tokens a row
BATCH ?=#           rows a step
STRATEGIES ?=#      comma list of baseline, checkpoint, offload, hybrid, offload-pageable; default: the first four
STRATEGY ?=#        the one that baseline, train, explain and verify use, and bench when STRATEGIES is not set
WORKLOAD ?=#        of bench instead of SEQ: smoke (512) or pressure (768)
DTYPE ?=#           arithmetic of a step: float32, bfloat16 (bf16) or, on a GPU, tf32
TUNED ?=#           what the tuned arm of baseline changes: dtype=D, lmhead-chunk=N, strategy=S or batch=N; default: dtype=bfloat16
WARMUP ?=#          steps before measuring
ITERS ?=#           measured steps a repeat
REPEATS ?=#         times each strategy is measured, in balanced order
STEPS ?=#           training steps of train
SEED ?=#            of weights and random tokens
DATA ?=#            a text file, or token ids (.u16, .u32); default: random tokens
LMHEAD_CHUNK ?=#    tokens of logits at a time; 0: all at once
MEMORY_CAP_MB ?=#   the budget of the decision, MiB
MIN_SAMPLES_PER_S ?=#   the throughput floor of the decision
MAX_VAL_LOSS ?=#    the quality floor of the decision; default: the baseline's evaluation loss x 1.02
CAPS ?=#            caps of decide's grid: comma list of MiB, or of multiples of the baseline's peak like 1.02x
INPUT ?=#           the 76 record that decide reads; default: the one of RUN, else of the latest run
DEVICE_MEMORY ?=#   size of the host device's memory (8GiB); only without a GPU
RUN ?=#             name of the run's folder under results/
ARGS ?=#            further arguments for the program, as they are
DEVICE ?=#          host or cuda; default: cuda when a GPU and nvcc answer, else host
DEPS ?=#            skip: do not check or install packages
CUDA_ARCHS ?=#      compute capabilities to build for; default: the GPU's, else 80 90 (with PTX)
MARCH ?= native#    the processor to build the host for (x86-64-v3 for a portable program)
V ?=#               1: print whole command lines
VARIABLES := MODEL SEQ BATCH STRATEGIES STRATEGY WORKLOAD DTYPE TUNED WARMUP ITERS REPEATS STEPS SEED DATA LMHEAD_CHUNK \
             MEMORY_CAP_MB MIN_SAMPLES_PER_S MAX_VAL_LOSS CAPS INPUT DEVICE_MEMORY RUN ARGS DEVICE DEPS CUDA_ARCHS MARCH V
export $(VARIABLES)

# ---- which device ---------------------------------------------------------------------------------------------------
NVCC := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
ifeq ($(DEVICE),)
  GPU := $(if $(NVCC),$(shell nvidia-smi -L 2>/dev/null | grep -m 1 -o '^GPU'))
  override DEVICE := $(if $(GPU),cuda,host)
endif
ifeq ($(filter host cuda,$(DEVICE)),)
  $(error DEVICE is host or cuda, not '$(DEVICE)')
endif
VARIANT ?= $(DEVICE)
B := build/$(VARIANT)
PROGRAM := build/$(DEVICE)/spillway

# ---- commands -------------------------------------------------------------------------------------------------------
.DEFAULT_GOAL := help
.PHONY: help baseline bench oom-boundary decide profile chain check report train explain info verify test cuda lint bench-peer bench-alloc bench-kernels readme clean deps-% program \
        test-programs

# Flags of the program from the variables that are set. The values travel through the environment, so that no
# character in them means anything to the shell.
flag = $(if $($(1)),--$(2) "$$$(1)")
COMMON = $(call flag,MODEL,model) $(call flag,SEQ,seq) $(call flag,BATCH,batch) $(call flag,LMHEAD_CHUNK,lmhead-chunk) \
         $(call flag,SEED,seed) $(call flag,DATA,data) $(call flag,DTYPE,dtype) $(call flag,DEVICE_MEMORY,device-memory)
STEP_COUNTS = $(call flag,WARMUP,warmup) $(call flag,ITERS,iters) $(call flag,REPEATS,repeats)
BUDGET = $(call flag,MEMORY_CAP_MB,memory-cap-mb) $(call flag,MIN_SAMPLES_PER_S,min-samples-per-s) \
         $(call flag,MAX_VAL_LOSS,max-val-loss)
BUILD = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

help: ## this list
	@echo "Spillway: where the memory of a training step goes, and what each way of saving it costs."
	@echo; echo "targets:"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 24
	@echo; echo "variables (make bench SEQ=768):"
	@sed -nE 's/^([A-Z_]+) \?= *([^# ]*)#  *(.*)/  \1\t\3/p' Makefile | expand -t 24

baseline: deps-build ## 73: a step against the same step with one thing changed (TUNED MODEL SEQ ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) baseline $(COMMON) $(STEP_COUNTS) $(call flag,STRATEGY,strategy) $(call flag,TUNED,tuned) \
	  $(call flag,RUN,run) $(ARGS)

bench: deps-build ## 76: train one step at a time under every strategy, compare, decide, write a record (MODEL SEQ ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) bench $(COMMON) $(STEP_COUNTS) $(or $(call flag,STRATEGIES,strategies),$(call flag,STRATEGY,strategies)) $(call flag,WORKLOAD,workload) \
	  $(BUDGET) $(call flag,RUN,run) $(ARGS)

# Without a GPU the boundaries are searched by the books, in seconds; ARGS=--confirm then trains at each of them.
oom-boundary: deps-build ## 76, further: the longest sequence that each strategy can train (MODEL BATCH MEMORY_CAP_MB ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) oom-boundary $(call flag,MODEL,model) $(call flag,BATCH,batch) $(call flag,DTYPE,dtype) \
	  $(call flag,LMHEAD_CHUNK,lmhead-chunk) $(call flag,STRATEGIES,strategies) $(call flag,MEMORY_CAP_MB,memory-cap-mb) \
	  $(call flag,DEVICE_MEMORY,device-memory) $(call flag,RUN,run) $(if $(filter host,$(DEVICE)),--books-only) $(ARGS)

chain: deps-build ## 73, 76, 75 and 74 into one run folder, and what check says of it (MODEL SEQ TUNED ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) chain $(COMMON) $(STEP_COUNTS) $(call flag,STRATEGIES,strategies) $(call flag,TUNED,tuned) $(BUDGET) \
	  $(call flag,RUN,run) $(ARGS)

profile: deps-build ## 74: why the strategy that 75 chose costs what it costs (RUN, with 73, 76 and 75; ITERS REPEATS ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) profile "results/$${RUN:-latest}" $(call flag,MODEL,model) $(call flag,DATA,data) $(call flag,SEQ,seq) \
	  $(STEP_COUNTS) $(call flag,DEVICE_MEMORY,device-memory) $(ARGS)

decide: deps-build ## 75: a 76 record's decision under a grid of budgets (INPUT, else RUN's record; CAPS MEMORY_CAP_MB ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) decide --input "$${INPUT:-$$(ls "results/$${RUN:-latest}"/76_*_memory.json 2>/dev/null | head -n 1 | grep . || echo "results/$${RUN:-latest}/76_host_memory.json")}" $(BUDGET) \
	  $(call flag,CAPS,caps) $(ARGS)

check: deps-build ## the protocol's four questions of a run (RUN; default: the latest)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) check "results/$${RUN:-latest}" $(ARGS)

report: deps-build ## a run as one page, results/<run>/report.html, from its files alone (RUN; default: the latest)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) report "results/$${RUN:-latest}" $(ARGS)

train: deps-build ## train on a text file and print the loss (DATA=file, MODEL STRATEGY STEPS SEQ ...)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) train $(COMMON) $(call flag,STRATEGY,strategy) $(call flag,STEPS,steps) $(ARGS)

explain: deps-build ## print a plan, its schedule and the checker's verdict (STRATEGY=hybrid MODEL SEQ BATCH)
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) explain $(call flag,MODEL,model) $(call flag,SEQ,seq) $(call flag,BATCH,batch) $(call flag,DTYPE,dtype) \
	  $(call flag,STRATEGY,strategy) $(ARGS)

info: deps-build ## device, versions, presets, strategies
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) info $(ARGS)

verify: deps-build ## compare with the golden losses, gradients and stepped parameters of test/fixtures/tiny_qwen2
	+@$(BUILD) VARIANT=$(DEVICE) program
	@$(PROGRAM) verify test/fixtures/tiny_qwen2 test/fixtures/tiny_qwen2/golden.safetensors \
	  $(call flag,STRATEGY,strategy) $(ARGS)

# Every suite as it trains, every suite again with real threads in a block under ASan and UBSan, and what has
# streams under ThreadSanitizer. Tests of the command line run the program as trained.
test: deps-test ## build and run every test
	+@$(BUILD) VARIANT=host program test-programs
	+@$(BUILD) VARIANT=fiber test-programs
	+@$(BUILD) VARIANT=tsan SUITES="$(TSAN_SUITES)" test-programs
	@SPILLWAY_BIN=build/host/spillway test/run.sh $(call programs,host,$(ALL_SUITES)) \
	  $(call programs,fiber,$(ALL_SUITES)) $(call programs,tsan,$(TSAN_SUITES))

cuda: deps-test ## build the CUDA program and its tests, without running them (CUDA_ARCHS)
	+@$(BUILD) DEVICE=cuda VARIANT=cuda program test-programs

lint: deps-lint ## format, static analysis, include rules, links in the documents
	@test/lint.sh

bench-peer: deps-build deps-peer ## step time against PyTorch on this CPU, interleaved (ARGS, see test/peer/compare.py)
	+@$(BUILD) VARIANT=host program
	@/usr/bin/python3 test/peer/compare.py $(ARGS)

bench-alloc: deps-build ## the caching allocator's hot path, ns a malloc + free pair
	+@$(BUILD) VARIANT=host build/host/test/bench/allocator
	@build/host/test/bench/allocator

bench-kernels: deps-build ## GB/s and GFLOP/s of every kernel on this CPU
	+@$(BUILD) VARIANT=host build/host/test/bench/kernels
	@build/host/test/bench/kernels

readme: ## rewrite the table in README.md from the kept record
	@python3 test/readme_table.py

clean: ## delete build/
	rm -rf build

deps-%:
	@test/dependencies.sh $*

# ---- what is built ----------------------------------------------------------------------------------------------------
FOLDERS := kernels runtime runtime/memory runtime/activation model data profiler decision decision/report
KERNELS := $(wildcard kernels/*.cu)
LIBRARY := $(foreach p,$(FOLDERS),$(wildcard $(p)/*.cpp))
HOSTCUDA := $(filter-out runtime/hostcuda/fiber%.cpp,$(wildcard runtime/hostcuda/*.cpp))
FIBERS := $(wildcard runtime/hostcuda/fiber*.cpp)
# The first two are about the host device itself, or drive the store with tasks of it.
ALL_SUITES := runtime/hostcuda runtime/activation runtime/memory kernels model data profiler decision
SUITES := $(if $(filter cuda,$(VARIANT)),$(filter-out runtime/hostcuda runtime/activation,$(ALL_SUITES)),$(ALL_SUITES))
TSAN_SUITES := runtime/hostcuda runtime/activation model profiler

comma := ,
CXX := g++
CPPFLAGS := -I. -MMD -MP
CXXFLAGS := -std=c++20 -Wall -Wextra
LDLIBS := -lfmt -lsimdjson -pthread
# Vectorize, but keep NaN and rounding as written: a NaN loss must be seen, and every run must give the same bits.
# (No SLP vectorizer: GCC 12 with AVX-512 turns the copy of {1, 1, 1, 0} into one of {1, 1, 1, 1}.)
MATH := -march=$(MARCH) -fopenmp-simd -fno-math-errno -fno-trapping-math -fno-tree-slp-vectorize

ifeq ($(VARIANT),cuda)
  ifneq ($(filter program test-programs $(B)/%,$(MAKECMDGOALS)),)
    ifeq ($(NVCC),)
      $(error DEVICE=cuda needs nvcc: install the CUDA Toolkit (12.4 or later) and set CUDA_HOME to its folder)
    endif
  endif
  CUDA_ROOT := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
  ARCHS := $(or $(CUDA_ARCHS),$(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader \
             2>/dev/null | grep -E '^[0-9]+\.[0-9]+$$'))),80 90)
  GENCODE := $(foreach a,$(ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(ARCHS)),code=compute_$(lastword $(ARCHS))
  NVCCFLAGS := -std=c++20 -O3 -I. -MMD -MP $(GENCODE) --threads 2 -Xcompiler -Wall,-Wextra
  CPPFLAGS += $(if $(filter /usr,$(CUDA_ROOT)),,-isystem $(CUDA_ROOT)/include)
  CXXFLAGS += -O2 -g1
  LDFLAGS += -L$(CUDA_ROOT)/lib64 -Wl,-rpath,$(CUDA_ROOT)/lib64
  LDLIBS += -lcudart -lcublas -lcupti
else
  CPPFLAGS += -Iruntime/hostcuda/include -DSPILLWAY_HOST
  LIBRARY += $(HOSTCUDA)
  SANITIZE := $(if $(filter asan fiber,$(VARIANT)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
              $(if $(filter tsan fiber-tsan,$(VARIANT)),-fsanitize=thread)
  CXXFLAGS += $(MATH) $(if $(filter host,$(VARIANT)),-O2,-O1 -g1 -fno-omit-frame-pointer) $(SANITIZE)
  # What computes is vectorized; everything else compiles faster without.
  COMPUTES := $(if $(filter host,$(VARIANT)),-O3)
  LDFLAGS += $(filter -fsanitize=%,$(SANITIZE))
  ifneq ($(filter fiber fiber-tsan,$(VARIANT)),)
    CPPFLAGS += -DSPILLWAY_FIBER
    LIBRARY += $(FIBERS)
    LDLIBS += -lboost_context
  else
    CPPFLAGS += -DSPILLWAY_SERIAL
  endif
endif

OBJECTS := $(LIBRARY:%.cpp=$(B)/%.o) $(KERNELS:%.cu=$(B)/%.cu.o)
# In suites/, because test/kernels is a folder of objects.
programs = $(foreach s,$(2),build/$(1)/suites/$(subst /,_,$(s)))
quiet = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(patsubst build/%,%,$@)';)

program: $(B)/spillway ; @:
test-programs: $(call programs,$(VARIANT),$(SUITES)) ; @:

$(B)/spillway: $(B)/main.o $(B)/libspillway.a
	$(call quiet,LINK)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/libspillway.a: $(OBJECTS)
	$(call quiet,AR)rm -f $@ && ar rcs $@ $(OBJECTS)

define suite
build/$(VARIANT)/suites/$(subst /,_,$(1)): $(patsubst %.cu,$(B)/%.cu.o,$(wildcard test/$(1)/*.cu)) \
    $(patsubst %.cpp,$(B)/%.o,$(wildcard test/$(1)/*.cpp)) $(B)/test/main.o $(B)/libspillway.a
	@mkdir -p $$(@D)
	$$(call quiet,LINK)$(CXX) $(LDFLAGS) -o $$@ $$^ $(LDLIBS) -lboost_unit_test_framework
endef
$(foreach s,$(SUITES),$(eval $(call suite,$(s))))

$(B)/test/bench/%: $(B)/test/bench/%.o $(B)/libspillway.a
	$(call quiet,LINK)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Everything is compiled anew when the flags change.
FLAGS := $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(NVCCFLAGS)
ifneq ($(filter program test-programs $(B)/%,$(MAKECMDGOALS)),)
  $(shell mkdir -p $(B) && { [ "$$(cat $(B)/flags 2>/dev/null)" = '$(FLAGS)' ] || echo '$(FLAGS)' >$(B)/flags; })
endif

$(B)/%.o: %.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call quiet,CXX)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@

$(B)/%.cu.o: %.cu $(B)/flags
	@mkdir -p $(@D)
ifeq ($(VARIANT),cuda)
	$(call quiet,NVCC)$(NVCC) $(NVCCFLAGS) -c $< -o $@
else
	$(call quiet,CXX)$(CXX) -x c++ $(CPPFLAGS) $(CXXFLAGS) $(COMPUTES) -c $< -o $@
endif

# Under a sanitizer, what is tested is optimized and watched; the tests themselves compile three times faster without.
ifneq ($(filter asan tsan fiber fiber-tsan,$(VARIANT)),)
$(B)/test/%.o: CXXFLAGS += -O0 -g0 -fno-sanitize=undefined
endif
$(B)/runtime/hostcuda/gemm.o: CXXFLAGS += $(COMPUTES)
# The fiber runner is not instrumented by ThreadSanitizer: see runtime/hostcuda/sanitizers.h.
$(FIBERS:%.cpp=$(B)/%.o): CXXFLAGS := $(if $(filter fiber-tsan,$(VARIANT)),\
  $(filter-out -fsanitize=thread,$(CXXFLAGS)) -DSPILLWAY_TSAN,$(CXXFLAGS))

.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
