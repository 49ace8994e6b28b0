// device.cpp - the one device that there is: the machine's processors.
#include <cstdio>
#include <cstring>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"

using namespace spillway::hostcuda;

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call("cudaGetDeviceCount");
  if (call.error() != cudaSuccess) return call.error();
  if (!count) return answer(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call("cudaGetDeviceProperties");
  if (call.error() != cudaSuccess) return call.error();
  if (!properties) return answer(cudaErrorInvalidValue);
  if (device != 0) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "hostcuda, %d threads", pool_threads());
  properties->totalGlobalMem = static_cast<std::size_t>(device_memory());
  properties->multiProcessorCount = pool_threads();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const Call call("cudaGetDevice");
  if (call.error() != cudaSuccess) return call.error();
  if (!device) return answer(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call("cudaDeviceGetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  if (!value || attribute != cudaDevAttrMemoryPoolsSupported) return answer(cudaErrorInvalidValue);
  if (device != 0) return answer(cudaErrorInvalidDevice);
  *value = 1;
  return cudaSuccess;
}

// No CUDA stands behind these calls, and a record that names a version would claim one.
cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call("cudaRuntimeGetVersion");
  if (call.error() != cudaSuccess) return call.error();
  if (!version) return answer(cudaErrorInvalidValue);
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const Call call("cudaDriverGetVersion");
  if (call.error() != cudaSuccess) return call.error();
  if (!version) return answer(cudaErrorInvalidValue);
  *version = 0;
  return cudaSuccess;
}
