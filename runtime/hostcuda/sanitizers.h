// sanitizers.h - what AddressSanitizer and ThreadSanitizer must be told when stacks are switched by hand (fibers.cpp).
#pragma once
#if defined(__SANITIZE_ADDRESS__)
#define SPILLWAY_ASAN 1
#include <sanitizer/asan_interface.h>
#endif
// The fiber runner of a ThreadSanitizer build (fiber*.cpp) is itself compiled without it (its own bookkeeping is shared
// by the fibers on purpose), so the build says SPILLWAY_TSAN instead.
#if defined(SPILLWAY_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace spillway::hostcuda {

// While the runtime itself runs on a TSan fiber: its memmove and malloc are intercepted even in a file that is not
// instrumented.
struct Ignore {
#ifdef SPILLWAY_TSAN
  static void on() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  static void off() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  static void on() {}
  static void off() {}
#endif
  Ignore() { on(); }
  ~Ignore() { off(); }
};

}  // namespace spillway::hostcuda
