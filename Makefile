# Makefile - the front door of Spillway: every command a person types. `make help` lists them.
#
# A build is a VARIANT with a folder of its own under build/:
#   host        g++, hostcuda, kernels as one thread a block, optimized: what runs where there is no GPU
#   asan, tsan  host under AddressSanitizer + UBSan, and under ThreadSanitizer
#   fiber       g++, hostcuda, kernels with real threads a block (fibers), under ASan + UBSan: verifies the parallel logic
#   fiber-tsan  the same under ThreadSanitizer
#   cuda        nvcc, the CUDA toolkit
VARIANT ?= host
O ?= build
B := $(O)/$(VARIANT)
PARTS ?= kernels runtime runtime/memory runtime/activation profiler model data decision

KERNELS := $(if $(filter kernels,$(PARTS)),$(wildcard kernels/*.cu))
LIBRARY := $(foreach p,$(PARTS),$(wildcard $(p)/*.cpp))
HOSTCUDA := $(filter-out runtime/hostcuda/fiber.cpp,$(wildcard runtime/hostcuda/*.cpp))
SUITES := $(foreach s,runtime/hostcuda runtime/memory runtime/activation kernels model data decision,\
            $(if $(wildcard test/$(s)/*.cpp test/$(s)/*.cu),$(s)))

CXX := g++
CPPFLAGS := -I. -MMD -MP
CXXFLAGS := -std=c++20 -Wall -Wextra -g1
MARCH ?= native
FAST := -O3 -march=$(MARCH) -fopenmp-simd -fno-math-errno -fno-trapping-math
ASAN := -O1 -march=$(MARCH) -fopenmp-simd -fno-math-errno -fno-trapping-math -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
TSAN := -O1 -march=$(MARCH) -fopenmp-simd -fno-math-errno -fno-trapping-math -fsanitize=thread
LDLIBS := -lfmt -lsimdjson -pthread

ifeq ($(VARIANT),cuda)
  CUDA_HOME ?= /usr/local/cuda
  CPPFLAGS += -isystem $(CUDA_HOME)/include
  CXXFLAGS += -O2
  LDFLAGS += -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64
  LDLIBS += -lcudart -lcublas
  CUDA_ARCHS ?= 80 90
  GENCODE := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
  NVCC := $(CUDA_HOME)/bin/nvcc
else
  CPPFLAGS += -Iruntime/hostcuda/include -DSPILLWAY_HOST
  LIBRARY += $(HOSTCUDA)
  CXXFLAGS += $(if $(filter host,$(VARIANT)),$(FAST)) $(if $(filter asan fiber,$(VARIANT)),$(ASAN)) \
              $(if $(filter tsan fiber-tsan,$(VARIANT)),$(TSAN))
  LDFLAGS += $(filter -fsanitize%,$(CXXFLAGS))
  ifneq ($(filter fiber fiber-tsan,$(VARIANT)),)
    CPPFLAGS += -DSPILLWAY_FIBER
    LIBRARY += runtime/hostcuda/fiber.cpp
    LDLIBS += -lboost_context
  else
    CPPFLAGS += -DSPILLWAY_SERIAL
  endif
endif

OBJECTS := $(LIBRARY:%.cpp=$(B)/%.o) $(KERNELS:%.cu=$(B)/%.cu.o)
TESTS := $(foreach s,$(SUITES),$(B)/test/$(subst /,_,$(s)))

.DEFAULT_GOAL := help
.PHONY: help build tests clean

help: ## list targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

build: $(B)/spillway ## build the program: build/<variant>/spillway
tests: $(TESTS)

$(B)/spillway: $(B)/main.o $(B)/libspillway.a
	$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/libspillway.a: $(OBJECTS)
	@rm -f $@
	ar rcs $@ $(OBJECTS)

define suite
$(B)/test/$(subst /,_,$(1)): $(patsubst %.cu,$(B)/%.cu.o,$(wildcard test/$(1)/*.cu)) \
    $(patsubst %.cpp,$(B)/%.o,$(wildcard test/$(1)/*.cpp)) $(B)/test/main.o $(B)/libspillway.a
	@mkdir -p $$(@D)
	$(CXX) $(LDFLAGS) -o $$@ $$^ $(LDLIBS) -lboost_unit_test_framework
endef
$(foreach s,$(SUITES),$(eval $(call suite,$(s))))

$(B)/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@

ifeq ($(VARIANT),cuda)
$(B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++20 -O3 -I. -MMD -MP $(GENCODE) --threads 2 -Xcompiler -Wall,-Wextra -c $< -o $@
else
$(B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(CXX) -x c++ $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@
endif

clean: ## delete build/
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
