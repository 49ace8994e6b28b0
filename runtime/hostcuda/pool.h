// pool.h - the processors of the host device: a small thread pool on which a kernel's blocks and a matrix product's
// tiles are spread. One job runs at a time; the calling stream's thread works too.
#pragma once
#include <cstddef>
#include <type_traits>

namespace spillway::hostcuda {

// A non-owning reference to a callable: no allocation per launch.
template <class Signature>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, A... a) -> R { return (*static_cast<std::remove_reference_t<F>*>(o))(a...); }) {}
  R operator()(A... a) const { return call_(object_, a...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Calls f(i) for every i in [0, n), in chunks of `chunk` neighbours, and returns when all are done. The first exception
// is rethrown. Which thread runs which i is not defined: results must not depend on it. f must not call parallel_for.
// Two streams that use the pool are ordered by it for ThreadSanitizer's eyes, unless it has one thread.
void parallel_for(std::size_t n, std::size_t chunk, FunctionRef<void(std::size_t)> f);

}  // namespace spillway::hostcuda
