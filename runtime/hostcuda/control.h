// control.h - the knobs of the CUDA device that runs on a CPU: its memory, its threads, its faults. CUDA has no such
// calls; only tests and the command line (main.cpp, DEVICE=host) use them. Everything else sees CUDA's own names.
// Values that make no sense throw std::invalid_argument, in one line that says what would be right.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::hostcuda {

// ---- the device -----------------------------------------------------------------------------------------------------

// Bytes that cudaMalloc can hand out in all. Default: three quarters of the machine's available memory at start.
void set_device_memory(std::int64_t bytes);
std::int64_t device_memory();
// Threads that run a kernel's blocks (>= 1; the stream's own thread is one of them). Default: the processors that we
// may use. Waits for every stream first.
void set_pool_threads(int threads);
int pool_threads();
// Books only: device memory keeps exact books on address space that is never touched; kernels, products, copies and
// memsets do nothing, and what the host reads back (up to 1 MiB a copy) is zero. For peaks of models that do not fit
// here.
void set_books_only(bool on);
bool books_only();

// ---- faults ---------------------------------------------------------------------------------------------------------

// The k-th call from now (k >= 1) of `function` ("cudaMalloc", "cudaLaunchKernel", "cublasGemmEx") returns `error`;
// a sticky error answers every later call too.
void fail_call(std::string_view function, std::uint64_t k, cudaError_t error, bool sticky = false);
// Every task of the stream created as number `index` (0 = first; numbers start over when no stream is left) first
// sleeps this long; with a seed: a random time up to it. index -1: every stream that has no delay of its own.
void delay_stream(int index, std::chrono::microseconds delay, std::uint64_t seed = 0);
// Every launch of a kernel or product takes the host this much longer.
void delay_host(std::chrono::microseconds delay);
// Copies between host and device take at least bytes / (gbps * 1e9) seconds, each direction its own link. 0: no limit.
void set_link_gbps(double gbps);
// Removes every fault and clears sticky errors.
void reset_faults();
// The armed calls that have not failed yet, a line each: "cudaMalloc was to fail at call 40; it was called 6 times".
std::vector<std::string> pending_faults();
// Why the device's context was lost (a kernel that failed, an armed sticky fault); "" when it was not.
std::string last_failure();
// Calls of `function` so far.
std::uint64_t calls(std::string_view function);

// Parses one --fault argument and arms it: "cudaMalloc:3" (third call fails with cudaErrorMemoryAllocation),
// "cudaMemcpyAsync:2:illegal-address" (sticky), "delay:1:5ms" (stream 1 by 5 ms a task), "delay:host:100us" (each
// launch), "link:2.5" (GB/s).
void arm_fault(std::string_view text);

// ---- the fiber build (several threads a block) ----------------------------------------------------------------------

enum class FiberOrder { forward, reversed, shuffled };
struct FiberOptions {
  FiberOrder order = FiberOrder::forward;  // of the threads of a block; reversed also reverses the blocks
  std::uint64_t seed = 1;                  // of a shuffled order
  int block_override = 0;                  // threads a block instead of what the launcher asked for; 0: as asked
};
// Changed only while no kernel runs.
FiberOptions& fiber_options();

}  // namespace spillway::hostcuda
