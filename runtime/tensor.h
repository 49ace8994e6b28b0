// tensor.h - a typed view on an Allocation: the pointer with its element count, freed when it goes.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>

#include "runtime/memory/allocator.h"

namespace spillway {

template <class T>
class Tensor {
 public:
  Tensor() = default;
  Tensor(memory::Allocator& allocator, std::int64_t elements, memory::Category category, cudaStream_t stream,
         std::string_view owner)
      : memory_(allocator.allocate(checked_mul(elements, sizeof(T), "tensor bytes"), category, stream, owner)),
        elements_(elements) {}
  Tensor(Tensor&& o) noexcept : memory_(std::move(o.memory_)), elements_(std::exchange(o.elements_, 0)) {}
  Tensor& operator=(Tensor&& o) noexcept {
    memory_ = std::move(o.memory_);
    elements_ = std::exchange(o.elements_, 0);
    return *this;
  }
  T* data() const { return static_cast<T*>(memory_.data()); }
  std::int64_t size() const { return elements_; }
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(T)); }
  explicit operator bool() const { return static_cast<bool>(memory_); }
  void reset() {
    memory_.reset();
    elements_ = 0;
  }

 private:
  memory::Allocation memory_;
  std::int64_t elements_ = 0;
};

}  // namespace spillway
