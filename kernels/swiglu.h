// swiglu.h - the gated activation of the feed-forward layer (Shazeer 2020, arXiv:2002.05202):
// s = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// s, gate, up (n).
template <class T>
void swiglu_forward(T* s, const T* gate, const T* up, Index n, cudaStream_t stream);
// dgate, dup (n) = gradients; dup may be ds itself (each element is read before it is written).
template <class T>
void swiglu_backward(T* dgate, T* dup, const T* ds, const T* gate, const T* up, Index n, cudaStream_t stream);

}  // namespace spillway::kernels
