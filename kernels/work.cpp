// work.cpp - the one listener to declared work: see work.h.
#include "kernels/work.h"

namespace spillway::kernels {
namespace {
LaunchListener g_listener = nullptr;
void* g_context = nullptr;
}  // namespace

void set_launch_listener(LaunchListener listener, void* context) {
  g_listener = listener;
  g_context = context;
}

void declare(const Work& work, cudaStream_t stream) {
  if (g_listener) g_listener(g_context, work, stream);
}

}  // namespace spillway::kernels
