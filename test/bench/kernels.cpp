// kernels.cpp - every kernel's throughput on this machine, one line each: GB/s beside what a plain copy reaches,
// GFLOP/s beside the matrix product. The launches declare their own work, so a rate is declared work over time. A line
// far below the ceiling it belongs under is a kernel to look at. `make bench-kernels`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "runtime/cuda.h"
#include "test/kernels/device_buffer.h"

namespace spillway::kernels {
namespace {

using test::Floats;
using test::Ids;
using test::stream;

struct Model {
  const char* name;
  Index d, heads, kv_heads, head_dim, ffn, vocab;
};
constexpr Model kModels[] = {{"small", 384, 6, 2, 64, 1024, 8192}, {"qwen2.5-0.5b", 896, 14, 2, 64, 4864, 151936}};
constexpr Index kTokens = 768, kLogitsRows = 256;

// The best of several runs: what the machine can do, with the least of what else it was doing.
double seconds(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3 || (i < 50 && Clock::now() - start < std::chrono::milliseconds(200)); ++i) {
    const Clock::time_point before = Clock::now();
    run();
    check(cudaStreamSynchronize(stream()));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
  return best;
}

// The work that one call of `run` declares.
Work declared_by(const std::function<void()>& run) {
  Work sum{"", 0, 0};
  set_launch_listener(
      [](void* total, const Work& work, cudaStream_t) {
        static_cast<Work*>(total)->flops += work.flops;
        static_cast<Work*>(total)->bytes += work.bytes;
      },
      &sum);
  run();
  set_launch_listener(nullptr, nullptr);
  return sum;
}

void print_row(const std::string& name, const std::function<void()>& run) {
  const Work work = declared_by(run);
  const double time = seconds(run);
  fmt::print("  {:32} {:9.3f} ms {:8.1f} GB/s {:8.1f} GFLOP/s\n", name, time * 1e3,
             static_cast<double>(work.bytes) / time / 1e9, static_cast<double>(work.flops) / time / 1e9);
}

Floats random_floats(Index n) {
  Floats x(n);
  fill_random(x, 1, static_cast<std::uint64_t>(n), n, stream());
  return x;
}

void bench(const Model& m) {
  const Index n = kTokens * m.d, f = kTokens * m.ffn, half = m.head_dim / 2;
  const AttentionShape shape{1, kTokens, m.heads, m.kv_heads, m.head_dim};
  const Index q_size = kTokens * m.heads * m.head_dim, kv_size = kTokens * m.kv_heads * m.head_dim;
  std::vector<std::int32_t> some_tokens(kTokens), positions(kTokens + 1);
  for (Index i = 0; i < kTokens; ++i) some_tokens[i] = static_cast<std::int32_t>(i * 7919 % m.vocab);
  std::iota(positions.begin(), positions.end(), 0);

  fmt::print("{}, {} tokens\n", m.name, kTokens);
  {
    const Floats x = random_floats(n), y = random_floats(n), dx = random_floats(n), row = random_floats(m.d),
                 rstd = random_floats(kTokens), scratch(rmsnorm_backward_scratch(kTokens, m.d)),
                 table = random_floats(m.vocab * m.d);
    const Ids tokens(some_tokens), order(positions);
    print_row("embedding_forward", [&] { embedding_forward<float>(x, tokens, table, kTokens, m.d, stream()); });
    print_row("embedding_backward",
              [&] { embedding_backward<float>(table, x, tokens, order, order, kTokens, kTokens, m.d, stream()); });
    print_row("rmsnorm_forward", [&] { rmsnorm_forward<float>(y, rstd, x, row, kTokens, m.d, 1e-6f, stream()); });
    print_row("rmsnorm_backward",
              [&] { rmsnorm_backward<float>(dx, row, scratch, y, x, row, rstd, kTokens, m.d, stream()); });
    print_row("residual_add", [&] { residual_add<float>(y, x, n, stream()); });
    print_row("bias_forward", [&] { bias_forward<float>(y, row, kTokens, m.d, stream()); });
    print_row("bias_backward", [&] { bias_backward<float>(row, scratch, y, kTokens, m.d, stream()); });
  }
  {
    const Floats q = random_floats(q_size), k = random_floats(kv_size), v = random_floats(kv_size), o(q_size),
                 dout = random_floats(q_size), lse(m.heads * kTokens), dq(q_size), dk(kv_size), dv(kv_size),
                 scratch(attention_backward_scratch(shape)), angles = random_floats(kTokens * half);
    print_row("rope_forward",
              [&] { rope_forward<float>(dq, nullptr, angles, angles, 1, kTokens, m.heads, m.head_dim, stream()); });
    print_row("attention_forward", [&] { attention_forward<float>(o, lse, q, k, v, shape, stream()); });
    print_row("attention_backward",
              [&] { attention_backward<float>(dq, dk, dv, scratch, dout, q, k, v, o, lse, shape, stream()); });
  }
  {
    const Floats gate = random_floats(f), up = random_floats(f), s = random_floats(f), dgate(f);
    print_row("swiglu_forward", [&] { swiglu_forward<float>(s, gate, up, f, stream()); });
    print_row("swiglu_backward", [&] { swiglu_backward<float>(dgate, s, s, gate, up, f, stream()); });
  }
  {
    const Floats logits = random_floats(kLogitsRows * m.vocab), losses(kLogitsRows);
    const Ids targets(std::vector<std::int32_t>(kLogitsRows, 1));
    print_row("cross_entropy_forward",
              [&] { cross_entropy_forward<float>(losses, logits, targets, kLogitsRows, m.vocab, stream()); });
    print_row("cross_entropy_forward_backward", [&] {
      cross_entropy_forward_backward<float>(losses, logits, targets, kLogitsRows, m.vocab, 1e-3f, stream());
    });
  }
  {
    const Index weights = m.ffn * m.d * 8;
    const Floats p = random_floats(weights), g = random_floats(weights), first(weights), second(weights);
    fill(first, 0, weights, stream());
    fill(second, 0, weights, stream());
    const test::DeviceBuffer<double> sum(1), scratch(squared_norm_scratch(weights));
    print_row("adamw", [&] { adamw(p, first, second, g, weights, {}, 1, stream()); });
    print_row("squared_norm", [&] { squared_norm(sum, scratch, g, weights, stream()); });
    print_row("fill", [&] { fill(p, 0, weights, stream()); });
    print_row("fill_random", [&] { fill_random(p, 1, 1, weights, stream()); });
  }
}

void ceilings() {
  constexpr Index kCopied = 64 << 20, kSide = 1024;
  const Floats from = random_floats(kCopied), to = random_floats(kCopied);
  const Cublas cublas(stream());
  const double copy =
      seconds([&] { check(cudaMemcpyAsync(to, from, kCopied * sizeof(float), cudaMemcpyDeviceToDevice, stream())); });
  const double product =
      seconds([&] { linear_forward<float>(cublas.get(), to, from, from, kSide, kSide, kSide, stream()); });
  fmt::print("ceilings: a copy {:.1f} GB/s (read and written), a matrix product {:.1f} GFLOP/s\n",
             2. * kCopied * sizeof(float) / copy / 1e9, 2. * kSide * kSide * kSide / product / 1e9);
}

}  // namespace
}  // namespace spillway::kernels

int main() {
  spillway::kernels::ceilings();
  for (const auto& model : spillway::kernels::kModels) spillway::kernels::bench(model);
}
