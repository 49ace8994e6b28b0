// attention_backward.cu - two passes that never meet in memory: one sums dq, a block a tile of queries; one sums dk and
// dv, a block a tile of keys, over all the query heads that share them. Both rebuild the probabilities from q, k and
// the saved log-sum-exp, and both are one kernel: with R the tile that stays in a block (queries; or keys) and P the
// tiles that pass by (keys and values; or queries and their dout),
//   scores = P1 R1^T     probabilities = exp(scores / sqrt(D) - lse)
//   dprob  = P2 R2^T     dscores = probabilities * (dprob - delta),  delta = rowsum(dout * o)
//   dR1 += dscores^T P1  dR2 += probabilities^T P2 (dv)
// where R1, R2, P1, P2 are q, dout, k, v in the first pass and k, v, q, dout in the second.
#include <cmath>

#include "kernels/attention_tile.h"
#include "kernels/bfloat16.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

// delta (B, heads, T) = sum over D of dout * o: what the softmax's backward pass subtracts. A block a token, a warp a
// head.
template <class T>
__global__ void __launch_bounds__(128) attention_delta_kernel(float* __restrict__ delta, const T* __restrict__ dout,
                                                              const T* __restrict__ o, AttentionShape shape) {
  const auto [batch, seq, heads, kv_heads, head_dim] = shape;
  const Index token = blockIdx.x;
  const unsigned lanes = blockDim.x < 32u ? blockDim.x : 32u, lane = threadIdx.x % lanes, warps = blockDim.x / lanes;
  for (Index head = threadIdx.x / lanes; head < heads; head += warps) {
    const Index at = (token * heads + head) * head_dim;
    float sum = 0;
    SPILLWAY_SIMD_REDUCE(+ : sum)
    for (Index c = lane; c < head_dim; c += lanes)
      sum += static_cast<float>(dout[at + c]) * static_cast<float>(o[at + c]);
    sum = warp_reduce(sum, Sum{});
    if (lane == 0) delta[(token / seq * heads + head) * seq + token % seq] = sum;
  }
}

enum class Resident { queries, keys };

template <int D, Resident resident>
struct BackwardTile {
  static constexpr int kResident = kSerial ? 64 : (D > 64 ? 16 : 32), kPassing = kResident;
  static constexpr int kQueries = resident == Resident::queries ? kResident : kPassing;
  static constexpr int kFloats = (resident == Resident::keys ? 4 : 3) * kResident * D + 2 * kPassing * kPitch<D> +
                                 2 * kPassing * kResident + 2 * kQueries;
};

// first, second and the gradients d_first, d_second belong to the resident tile (d_second: keys alone).
template <class T, int D, Resident resident>
__global__ void __launch_bounds__(128)
    attention_backward_kernel(T* __restrict__ d_first, T* __restrict__ d_second, const T* __restrict__ first,
                              const T* __restrict__ second, const T* __restrict__ passing_first,
                              const T* __restrict__ passing_second, const float* __restrict__ lse,
                              const float* __restrict__ delta, AttentionShape shape, Index tiles, float scale) {
  using Tile = BackwardTile<D, resident>;
  constexpr bool kKeysStay = resident == Resident::keys;
  constexpr int kResident = Tile::kResident, kPassing = Tile::kPassing;
  SPILLWAY_DYNAMIC_SHARED(float, shared);
  float* const r1 = shared;                                     // (D, kResident)
  float* const r2 = r1 + D * kResident;                         // (D, kResident)
  float* const dr1 = r2 + D * kResident;                        // (kResident, D)
  float* const p1 = dr1 + kResident * D;                        // (kPassing, kPitch)
  float* const p2 = p1 + kPassing * kPitch<D>;                  // (kPassing, kPitch)
  float* const probabilities = p2 + kPassing * kPitch<D>;       // (kPassing, kResident)
  float* const dscores = probabilities + kPassing * kResident;  // (kPassing, kResident)
  float* const query_lse = dscores + kPassing * kResident;      // (kQueries)
  float* const query_delta = query_lse + Tile::kQueries;        // (kQueries)
  float* const dr2 = query_delta + Tile::kQueries;              // (kResident, D), where keys stay

  const auto [batch, seq, heads, kv_heads, head_dim] = shape;
  const Index resident_heads = kKeysStay ? kv_heads : heads, passing_heads = kKeysStay ? heads : kv_heads;
  const Index order = blockIdx.x / (batch * resident_heads), row = blockIdx.x % (batch * resident_heads);
  const Index b = row / resident_heads, head = row % resident_heads, group = heads / kv_heads;
  // The longest first: the last queries see every key, the first keys are seen by every query.
  const Index r_begin = (kKeysStay ? order : tiles - 1 - order) * kResident;
  const HeadRows<D> r_rows(b, head, resident_heads, seq);

  // A query that does not exist gets probability exp(score - inf) = 0 everywhere.
  const auto load_query_sums = [=](Index query_head, Index begin) {
    const Index at = (b * heads + query_head) * seq + begin;
    for (int i = threadIdx.x; i < Tile::kQueries; i += blockDim.x) {
      query_lse[i] = begin + i < seq ? lse[at + i] : INFINITY;
      query_delta[i] = begin + i < seq ? delta[at + i] : 0.f;
    }
  };
  load_columns<D, kResident>(r1, first, r_rows, r_begin, seq);
  load_columns<D, kResident>(r2, second, r_rows, r_begin, seq);
  zero(dr1, kResident * D);
  if constexpr (kKeysStay) zero(dr2, kResident * D);
  if constexpr (!kKeysStay) load_query_sums(head, r_begin);

  const Index begin = kKeysStay ? r_begin / kPassing * kPassing : 0;
  const Index end = kKeysStay || r_begin + kResident > seq ? seq : r_begin + kResident;
  for (Index member = 0; member < (kKeysStay ? group : 1); ++member) {
    const Index passing_head = kKeysStay ? head * group + member : head / group;
    const HeadRows<D> p_rows(b, passing_head, passing_heads, seq);
    for (Index p_begin = begin; p_begin < end; p_begin += kPassing) {
      // A query sees the keys up to itself. So for resident column x the passing rows s count that are
      //   keys s <= x + ahead (queries stay), or queries s >= x + ahead (keys stay): depth_of(x), in whole steps.
      const Index distance = r_begin - p_begin;
      const int ahead =
          static_cast<int>(distance < -kPassing ? -kPassing : (distance < kPassing ? distance : kPassing));
      const auto hidden = [=](int s, int x) { return kKeysStay ? s < x + ahead : s > x + ahead; };
      const auto depth_of = [=](int x) {
        const int edge = (x / kStep + (kKeysStay ? 0 : 1)) * kStep + ahead;
        const int inside = edge < 0 ? 0 : (edge < kPassing ? edge : kPassing);
        return kKeysStay ? Depth{inside, kPassing} : Depth{0, inside};
      };
      const auto needed = [=](int s, int x_first, int x_last) {
        return kKeysStay ? s + kHigh > depth_of(x_first).begin : s < depth_of(x_last).end;
      };
      const auto all_of_row = [](int) { return Depth{0, D}; };
      const auto always = [](int, int, int) { return true; };

      __syncthreads();  // the last tile has been read
      load_rows<D, kPassing>(p1, passing_first, p_rows, p_begin, seq);
      load_rows<D, kPassing>(p2, passing_second, p_rows, p_begin, seq);
      if constexpr (kKeysStay) load_query_sums(passing_head, p_begin);
      __syncthreads();

      multiply<kPassing, kResident, kPitch<D>, 1, kResident>(
          p1, r1, all_of_row, needed, [=](int s, int x, const Lanes& score) {
            float* const to = probabilities + s * kResident + x;
            if constexpr (kKeysStay)
              store_lanes(to, exponential(score * scale - query_lse[s]));
            else
              store_lanes(to, exponential(score * scale - load_lanes(query_lse + x)));
            if (hidden(s, x) || hidden(s, x + kLanes - 1))
              for (int e = 0; e < kLanes; ++e)
                if (hidden(s, x + e)) to[e] = 0;
          });
      // Each thread reads only the probabilities that it wrote itself: no barrier.
      multiply<kPassing, kResident, kPitch<D>, 1, kResident>(
          p2, r2, all_of_row, needed, [=](int s, int x, const Lanes& dprobability) {
            const int at = s * kResident + x;
            if constexpr (kKeysStay)
              store_lanes(dscores + at, load_lanes(probabilities + at) * (dprobability - query_delta[s]));
            else
              store_lanes(dscores + at, load_lanes(probabilities + at) * (dprobability - load_lanes(query_delta + x)));
          });
      __syncthreads();

      multiply<kResident, D, 1, kResident, kPitch<D>>(dscores, p1, depth_of, always,
                                                      [=](int x, int c, const Lanes& sum) {
                                                        float* const to = dr1 + x * D + c;
                                                        store_lanes(to, load_lanes(to) + sum);
                                                      });
      if constexpr (kKeysStay)
        multiply<kResident, D, 1, kResident, kPitch<D>>(probabilities, p2, depth_of, always,
                                                        [=](int x, int c, const Lanes& sum) {
                                                          float* const to = dr2 + x * D + c;
                                                          store_lanes(to, load_lanes(to) + sum);
                                                        });
    }
  }
  __syncthreads();
  store_rows<D, kResident>(d_first, dr1, r_rows, r_begin, seq, [=](int) { return scale; });
  if constexpr (kKeysStay) store_rows<D, kResident>(d_second, dr2, r_rows, r_begin, seq, [](int) { return 1.f; });
}

// ---- launchers ------------------------------------------------------------------------------------------------------

template <int D, Resident resident, class T>
void pass(const Work& work, T* d_first, T* d_second, const T* first, const T* second, const T* passing_first,
          const T* passing_second, const float* lse, const float* delta, const AttentionShape& shape,
          cudaStream_t stream) {
  using Tile = BackwardTile<D, resident>;
  static_assert(Tile::kFloats * sizeof(float) <= kMaxTileBytes);
  const Index tiles = (shape.seq + Tile::kResident - 1) / Tile::kResident;
  const Index heads = resident == Resident::keys ? shape.kv_heads : shape.heads;
  launch(attention_backward_kernel<T, D, resident>,
         {grid_of(tiles * shape.batch * heads), block_threads(128), Tile::kFloats * sizeof(float), stream}, work,
         d_first, d_second, first, second, passing_first, passing_second, lse, delta, shape, tiles,
         1.f / sqrtf(static_cast<float>(D)));
}

template <int D, class T>
void backward(T* dq, T* dk, T* dv, const float* delta, const T* dout, const T* q, const T* k, const T* v,
              const float* lse, const AttentionShape& shape, cudaStream_t stream) {
  const Index tokens = shape.batch * shape.seq, sums = tokens * shape.heads * 2 * Index{sizeof(float)};
  const Index pair_products = 2 * D * shape.batch * shape.heads * (shape.seq * (shape.seq + 1) / 2);
  const Index q_bytes = tokens * shape.heads * D * Index{sizeof(T)};
  const Index kv_bytes = tokens * shape.kv_heads * D * Index{sizeof(T)};
  // Three products a pair for dq, four for dk and dv; two of them in both, since neither pass leaves anything behind.
  pass<D, Resident::queries>({"attention_backward_dq", 3 * pair_products, 3 * q_bytes + 2 * kv_bytes + sums}, dq,
                             static_cast<T*>(nullptr), q, dout, k, v, lse, delta, shape, stream);
  pass<D, Resident::keys>({"attention_backward_dkv", 4 * pair_products, 2 * q_bytes + 4 * kv_bytes + sums}, dk, dv, k,
                          v, q, dout, lse, delta, shape, stream);
}

}  // namespace

Index attention_backward_scratch(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq;
}

template <class T>
void attention_backward(T* dq, T* dk, T* dv, float* scratch, const T* dout, const T* q, const T* k, const T* v,
                        const T* o, const float* lse, const AttentionShape& shape, cudaStream_t stream) {
  check_attention(shape);
  const Index n = shape.batch * shape.seq * shape.heads * shape.head_dim;
  if (n == 0) return;
  launch(attention_delta_kernel<T>, {grid_of(shape.batch * shape.seq), block_threads(128), 0, stream},
         {"attention_delta", 2 * n, 2 * n * Index{sizeof(T)} + n / shape.head_dim * Index{sizeof(float)}}, scratch,
         dout, o, shape);
  switch (shape.head_dim) {
    case 16:
      return backward<16>(dq, dk, dv, scratch, dout, q, k, v, lse, shape, stream);
    case 32:
      return backward<32>(dq, dk, dv, scratch, dout, q, k, v, lse, shape, stream);
    case 64:
      return backward<64>(dq, dk, dv, scratch, dout, q, k, v, lse, shape, stream);
    default:
      return backward<128>(dq, dk, dv, scratch, dout, q, k, v, lse, shape, stream);
  }
}
template void attention_backward<float>(float*, float*, float*, float*, const float*, const float*, const float*,
                                        const float*, const float*, const float*, const AttentionShape&, cudaStream_t);
template void attention_backward<bfloat16>(bfloat16*, bfloat16*, bfloat16*, float*, const bfloat16*, const bfloat16*,
                                           const bfloat16*, const bfloat16*, const bfloat16*, const float*,
                                           const AttentionShape&, cudaStream_t);

}  // namespace spillway::kernels
