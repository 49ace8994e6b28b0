// launch_error.h - what a launcher throws when a launch is refused, for those who catch it without writing kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace spillway::kernels {

// A launch was refused. One line: the operator, CUDA's error name and its description.
class LaunchError : public std::runtime_error {
 public:
  LaunchError(const char* name, cudaError_t error)
      : std::runtime_error(std::string("launching ") + name + ": " + cudaGetErrorName(error) + ", " +
                           cudaGetErrorString(error)),
        error_(error) {}
  cudaError_t error() const { return error_; }

 private:
  cudaError_t error_;
};

}  // namespace spillway::kernels
