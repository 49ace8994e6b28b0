// work_test.cpp - what launches declare, against counts made by hand from the shapes; and the rule that every launcher
// declares at all.
#include "kernels/work.h"

#include <map>
#include <string>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

// Every declaration while it lives, by name.
class Declared {
 public:
  Declared() {
    set_launch_listener([](void* self, const Work& work,
                           cudaStream_t) { static_cast<Declared*>(self)->work_.insert_or_assign(work.name, work); },
                        this);
  }
  ~Declared() { set_launch_listener(nullptr, nullptr); }
  Declared(const Declared&) = delete;
  Declared& operator=(const Declared&) = delete;

  Index flops(const std::string& name) const { return work_.at(name).flops; }
  Index bytes(const std::string& name) const { return work_.at(name).bytes; }
  std::size_t count() const { return work_.size(); }

 private:
  std::map<std::string, Work> work_;
};

BOOST_AUTO_TEST_SUITE(work)

BOOST_AUTO_TEST_CASE(attention_declares_the_causal_half_of_its_products_and_each_tensor_once) {
  const AttentionShape s{2, 33, 4, 2, 16};
  const Index q = 2 * 33 * 4 * 16, kv = 2 * 33 * 2 * 16, sums = 2 * 4 * 33;
  Index pairs = 0;
  for (Index t = 0; t < s.seq; ++t) pairs += s.batch * s.heads * (t + 1);
  const Floats a(Vector(q, 0)), b(Vector(q, 0)), c(Vector(q, 0)), d(Vector(q, 0)), lse(Vector(sums, 0)), scratch(sums);
  const Floats dq(q), dk(kv), dv(kv);
  const Declared declared;
  attention_forward<float>(a, lse, b, c, d, s, stream());
  attention_backward<float>(dq, dk, dv, scratch, a, b, c, d, a, lse, s, stream());
  check(cudaStreamSynchronize(stream()));
  BOOST_TEST(declared.flops("attention_forward") == 2 * 2 * 16 * pairs);
  BOOST_TEST(declared.bytes("attention_forward") == 4 * (2 * q + 2 * kv + sums));
  BOOST_TEST(declared.flops("attention_backward_dq") == 3 * 2 * 16 * pairs);
  BOOST_TEST(declared.bytes("attention_backward_dq") == 4 * (3 * q + 2 * kv + 2 * sums));
  BOOST_TEST(declared.flops("attention_backward_dkv") == 4 * 2 * 16 * pairs);
  BOOST_TEST(declared.bytes("attention_backward_dkv") == 4 * (2 * q + 4 * kv + 2 * sums));
  BOOST_TEST(declared.bytes("attention_delta") == 4 * (2 * q + sums));
  BOOST_TEST(attention_forward_work(s, 2).bytes == 2 * (2 * q + 2 * kv) + 4 * sums);
}

BOOST_AUTO_TEST_CASE(elementwise_operators_declare_the_bytes_that_they_touch) {
  const Index rows = 10, d = 24, n = rows * d;
  const Floats x(Vector(n, 1)), y(Vector(n, 1)), z(Vector(n, 1)), w(Vector(n, 1)), row(Vector(d, 1)), scratch(100 * d);
  const Ids ids(std::vector<std::int32_t>(rows + 1, 0));
  const DeviceBuffer<double> sum(std::vector<double>{0, 0});
  const Declared declared;
  residual_add<float>(x, y, n, stream());
  swiglu_forward<float>(x, y, z, n, stream());
  swiglu_backward<float>(x, w, w, y, z, n, stream());
  adamw(x, y, z, w, n, {}, 1, stream());
  fill(x, 1, n, stream());
  fill_random(x, 1, 1, n, stream());
  bias_forward<float>(x, row, rows, d, stream());
  bias_backward<float>(row, scratch, x, rows, d, stream());
  rmsnorm_forward<float>(x, scratch, y, row, rows, d, 1e-6f, stream());
  rmsnorm_backward<float>(x, row, scratch, y, z, row, w, rows, d, stream());
  rope_forward<float>(x, nullptr, y, y, 1, rows, 2, d / 2, stream());
  rope_backward<float>(x, y, y, 1, rows, 2, d / 2, stream());
  embedding_forward<float>(x, ids, y, rows, d, stream());
  cross_entropy_forward<float>(w, x, ids, rows, d, stream());
  cross_entropy_forward_backward<float>(w, x, ids, rows, d, 1, stream());
  mean_loss(w, x, rows, rows, stream());
  squared_norm(sum, sum.get() + 1, x, n, stream());
  check(cudaStreamSynchronize(stream()));

  const std::map<std::string, Index> expected{
      {"residual_add", 4 * 3 * n},
      {"swiglu_forward", 4 * 3 * n},
      {"swiglu_backward", 4 * 5 * n},
      {"adamw", 4 * 7 * n},
      {"fill", 4 * n},
      {"fill_random", 4 * n},
      {"bias_forward", 4 * (2 * n + d)},
      {"rmsnorm_forward", 4 * (2 * n + rows + d)},
      {"rope_forward", 4 * (2 * n + rows * d / 2)},
      {"rope_backward", 4 * (2 * n + rows * d / 2)},
      {"embedding_forward", 4 * (2 * n + rows)},
      {"cross_entropy_forward", 4 * (n + 2 * rows)},
      {"cross_entropy_forward_backward", 4 * (2 * n + 2 * rows)},
      {"mean_loss", 4 * (rows + 1)},
  };
  for (const auto& [name, bytes] : expected) BOOST_TEST(declared.bytes(name) == bytes, name);
  // What goes through partial sums reads its inputs at least once, and its scratch is small beside them.
  BOOST_TEST(declared.bytes("bias_backward") >= 4 * n);
  BOOST_TEST(declared.bytes("rmsnorm_backward") >= 4 * 4 * n);
  BOOST_TEST(declared.flops("squared_norm") == 2 * n);
  BOOST_TEST(declared.count() == expected.size() + 6);  // those three, and the second step of each
}

BOOST_AUTO_TEST_CASE(an_empty_tensor_launches_nothing) {
  const Floats x(1);
  const Declared declared;
  residual_add<float>(x, x, 0, stream());
  fill(x, 1, 0, stream());
  rmsnorm_forward<float>(x, x, x, x, 0, 8, 1e-6f, stream());
  attention_forward<float>(x, x, x, x, x, {0, 5, 2, 1, 64}, stream());
  BOOST_TEST(declared.count() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
