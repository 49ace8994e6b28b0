// device.cpp - the one device that there is: the machine's processors.
#include <cstdio>
#include <cstring>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"

using namespace spillway::hostcuda;

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t e = enter("cudaGetDeviceCount"); e != cudaSuccess) return e;
  if (!count) return answer(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t e = enter("cudaGetDeviceProperties"); e != cudaSuccess) return e;
  if (!properties) return answer(cudaErrorInvalidValue);
  if (device != 0) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "hostcuda, %d threads", pool_threads());
  properties->totalGlobalMem = static_cast<std::size_t>(device_memory());
  properties->multiProcessorCount = pool_threads();
  return cudaSuccess;
}

// No CUDA stands behind these calls, and a record that names a version would claim one.
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (const cudaError_t e = enter("cudaRuntimeGetVersion"); e != cudaSuccess) return e;
  if (!version) return answer(cudaErrorInvalidValue);
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  if (const cudaError_t e = enter("cudaDriverGetVersion"); e != cudaSuccess) return e;
  if (!version) return answer(cudaErrorInvalidValue);
  *version = 0;
  return cudaSuccess;
}
