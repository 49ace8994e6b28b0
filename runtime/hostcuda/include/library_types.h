// library_types.h - the element types of CUDA's libraries, under CUDA's own names and values: the part that we name.
// The CUDA toolkit has a header of this name too; which of the two is found decides the device (see cublas_v2.h).
#pragma once

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_16BF = 14,
} cudaDataType;
