// attention.cu - the forward pass. A block owns a tile of queries of one head; tiles of keys and values pass by. Scores
// are kept transposed, scores[key][query]: then keys are read as they lie in memory, only the queries are transposed,
// once, and the softmax of neighbouring queries runs side by side, without a reduction across threads.
#include "kernels/attention.h"

#include <stdexcept>
#include <string>

#include "kernels/attention_tile.h"
#include "kernels/bfloat16.h"

namespace spillway::kernels {
namespace {

// ---- kernel ---------------------------------------------------------------------------------------------------------

// On a GPU, what fits twice or more into shared memory; on a CPU, into half of a second-level cache.
template <int D>
struct ForwardTile {
  static constexpr int kQueries = kSerial ? 64 : (D > 64 ? 32 : 64), kKeys = kSerial ? 64 : 32;
  static constexpr int kFloats = kQueries * D + kKeys * kPitch<D> + kKeys * kQueries + kQueries * D + 3 * kQueries;
};

template <class T, int D>
__global__ void __launch_bounds__(128)
    attention_forward_kernel(T* __restrict__ o, float* __restrict__ lse, const T* __restrict__ q,
                             const T* __restrict__ k, const T* __restrict__ v, AttentionShape shape, Index tiles,
                             float scale) {
  constexpr int kQueries = ForwardTile<D>::kQueries, kKeys = ForwardTile<D>::kKeys;
  SPILLWAY_DYNAMIC_SHARED(float, shared);
  float* const queries = shared;                      // (D, kQueries)
  float* const passing = queries + D * kQueries;      // (kKeys, kPitch): keys, then values
  float* const scores = passing + kKeys * kPitch<D>;  // (kKeys, kQueries), then their exponentials
  float* const sums = scores + kKeys * kQueries;      // (kQueries, D): exponentials times values, so far
  float* const top = sums + kQueries * D;             // (kQueries): largest score so far
  float* const total = top + kQueries;                // (kQueries): sum of exp(score - top) so far
  float* const shrink = total + kQueries;             // (kQueries): exp(old top - new top)

  const auto [batch, seq, heads, kv_heads, head_dim] = shape;
  const Index row = blockIdx.x % (batch * heads), b = row / heads, head = row % heads;
  // The longest rows first, so that no long one is left over at the end.
  const Index first_query = (tiles - 1 - blockIdx.x / (batch * heads)) * kQueries;
  const HeadRows<D> q_rows(b, head, heads, seq), kv_rows(b, head / (heads / kv_heads), kv_heads, seq);

  load_columns<D, kQueries>(queries, q, q_rows, first_query, seq);
  zero(sums, kQueries * D);
  zero(total, kQueries);
  for (int r = threadIdx.x; r < kQueries; r += blockDim.x) top[r] = -INFINITY;

  const Index last = first_query + kQueries < seq ? first_query + kQueries : seq;
  for (Index first_key = 0; first_key < last; first_key += kKeys) {
    // Query r sees key j when j <= r + ahead, and reads scores up to keys_of(r).
    const int ahead = static_cast<int>(first_query - first_key < kKeys ? first_query - first_key : Index{kKeys});
    const auto keys_of = [=](int r) {
      const int end = (r / kStep + 1) * kStep + ahead;
      return end < 0 ? 0 : (end < kKeys ? end : kKeys);
    };
    __syncthreads();  // the last tile's values and exponentials have been read
    load_rows<D, kKeys>(passing, k, kv_rows, first_key, seq);
    __syncthreads();

    multiply<kKeys, kQueries, kPitch<D>, 1, kQueries>(
        passing, queries,
        [](int) {
          return Depth{0, D};
        },
        [=](int j, int, int last_query) { return j < keys_of(last_query); },
        [=](int j, int r, const Lanes& score) {
          float* const to = scores + j * kQueries + r;
          store_lanes(to, score * scale);
          if (j > r + ahead)
            for (int e = 0; e < kLanes && j > r + e + ahead; ++e) to[e] = -INFINITY;
        });
    __syncthreads();

    for (int r = static_cast<int>(threadIdx.x) * kLanes; r < kQueries; r += static_cast<int>(blockDim.x) * kLanes) {
      const int keys = keys_of(r);
      const Lanes old_top = load_lanes(top + r);
      Lanes new_top = old_top, sum{};
      for (int j = 0; j < keys; ++j) {
        const Lanes score = load_lanes(scores + j * kQueries + r);
        new_top = new_top > score ? new_top : score;
      }
      for (int j = 0; j < keys; ++j) {
        const Lanes e = exponential(load_lanes(scores + j * kQueries + r) - new_top);
        store_lanes(scores + j * kQueries + r, e);
        sum += e;
      }
      const Lanes factor = exponential(old_top - new_top);
      store_lanes(shrink + r, factor);
      store_lanes(total + r, load_lanes(total + r) * factor + sum);
      store_lanes(top + r, new_top);
    }
    load_rows<D, kKeys>(passing, v, kv_rows, first_key, seq);
    __syncthreads();

    multiply<kQueries, D, 1, kQueries, kPitch<D>>(
        scores, passing,
        [=](int r) {
          return Depth{0, keys_of(r)};
        },
        [](int, int, int) { return true; },
        [=](int r, int c, const Lanes& sum) {
          float* const to = sums + r * D + c;
          store_lanes(to, load_lanes(to) * shrink[r] + sum);
        });
  }
  __syncthreads();
  store_rows<D, kQueries>(o, sums, q_rows, first_query, seq, [=](int r) { return 1.f / total[r]; });
  for (int r = threadIdx.x; r < kQueries; r += blockDim.x)
    if (first_query + r < seq) lse[row * seq + first_query + r] = top[r] + logf(total[r]);
}

// ---- launchers ------------------------------------------------------------------------------------------------------

template <int D, class T>
void forward(T* o, float* lse, const T* q, const T* k, const T* v, const AttentionShape& shape, cudaStream_t stream) {
  using Tile = ForwardTile<D>;
  static_assert(Tile::kFloats * sizeof(float) <= kMaxTileBytes);
  const Index tiles = (shape.seq + Tile::kQueries - 1) / Tile::kQueries;
  launch(attention_forward_kernel<T, D>,
         {grid_of(tiles * shape.batch * shape.heads), block_threads(128), Tile::kFloats * sizeof(float), stream},
         attention_forward_work(shape, sizeof(T)), o, lse, q, k, v, shape, tiles, 1.f / sqrtf(static_cast<float>(D)));
}

}  // namespace

bool attention_supports(Index head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

void check_attention(const AttentionShape& shape) {
  if (!attention_supports(shape.head_dim))
    throw std::invalid_argument("attention: head_dim " + std::to_string(shape.head_dim) + " must be 16, 32, 64 or 128");
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0)
    throw std::invalid_argument("attention: " + std::to_string(shape.heads) + " heads must be a multiple of " +
                                std::to_string(shape.kv_heads) + " kv heads");
}

Work attention_forward_work(const AttentionShape& shape, Index element_bytes) {
  const Index pairs = shape.batch * shape.heads * shape.seq * (shape.seq + 1) / 2;
  const Index tokens = shape.batch * shape.seq;
  return {"attention_forward", 4 * shape.head_dim * pairs,
          tokens * (2 * (shape.heads + shape.kv_heads) * shape.head_dim * element_bytes +
                    shape.heads * Index{sizeof(float)})};
}

template <class T>
void attention_forward(T* o, float* lse, const T* q, const T* k, const T* v, const AttentionShape& shape,
                       cudaStream_t stream) {
  check_attention(shape);
  if (shape.batch * shape.seq * shape.heads == 0) return;
  switch (shape.head_dim) {
    case 16:
      return forward<16>(o, lse, q, k, v, shape, stream);
    case 32:
      return forward<32>(o, lse, q, k, v, shape, stream);
    case 64:
      return forward<64>(o, lse, q, k, v, shape, stream);
    default:
      return forward<128>(o, lse, q, k, v, shape, stream);
  }
}
template void attention_forward<float>(float*, float*, const float*, const float*, const float*, const AttentionShape&,
                                       cudaStream_t);
template void attention_forward<bfloat16>(bfloat16*, float*, const bfloat16*, const bfloat16*, const bfloat16*,
                                          const AttentionShape&, cudaStream_t);

}  // namespace spillway::kernels
