// cupti_records.h - the activity records of CUPTI as CUDA 12.4 delivers them, byte for byte, fields that hostcuda
// leaves zero included: the decoder that reads these reads a GPU's (profiler/cupti_versions.h checks the layout against
// whichever header is compiled). Times are nanoseconds of the registered clock; 0: not known.
#pragma once
#include <cstddef>
#include <cstdint>

typedef std::uint32_t CUpti_CallbackId;

typedef enum {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
  CUPTI_ACTIVITY_KIND_MEMORY2 = 49,
  CUPTI_ACTIVITY_KIND_MEMORY_POOL = 50,
  CUPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff
} CUpti_ActivityKind;

typedef enum {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
} CUpti_ActivityMemcpyKind;

typedef enum {
  CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE = 1,
  CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
  CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3,
  CUPTI_ACTIVITY_MEMORY_KIND_FORCE_INT = 0x7fffffff
} CUpti_ActivityMemoryKind;

typedef enum {
  CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION = 1,
  CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE = 2,
  CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_FORCE_INT = 0x7fffffff
} CUpti_ActivityMemoryOperationType;

typedef enum {
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE = 1,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT = 2,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE = 3,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE = 4,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_FORCE_INT = 0x7fffffff
} CUpti_ActivitySynchronizationType;

typedef enum {
  CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH = 1 << 16,
  CUPTI_ACTIVITY_OVERHEAD_FORCE_INT = 0x7fffffff
} CUpti_ActivityOverheadKind;

typedef enum {
  CUPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN = 1,
  CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC = 2,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 = 4,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 5,
  CUPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff
} CUpti_ExternalCorrelationKind;

// Fields that the project does not read have the type of their size.
#define SPILLWAY_RECORD __attribute__((__packed__)) __attribute__((aligned(8)))

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
} CUpti_Activity;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  std::uint8_t cacheConfig, sharedMemoryConfig;
  std::uint16_t registersPerThread;
  std::uint32_t partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
  std::uint64_t start, end, completed;
  std::uint32_t deviceId, contextId, streamId;
  std::int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
  std::int32_t staticSharedMemory, dynamicSharedMemory;
  std::uint32_t localMemoryPerThread, localMemoryTotal;
  std::uint32_t correlationId;
  std::int64_t gridId;
  const char* name;
  void* reserved0;
  std::uint64_t queued, submitted;
  std::uint8_t launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding;
  std::uint32_t sharedMemoryExecuted;
  std::uint64_t graphNodeId;
  std::uint32_t shmemLimitConfig, graphId;
  void* pAccessPolicyWindow;
  std::uint32_t channelID, channelType, clusterX, clusterY, clusterZ, clusterSchedulingPolicy;
  std::uint64_t localMemoryTotal_v2;
  std::uint32_t maxPotentialClusterSize, maxActiveClusters;
} CUpti_ActivityKernel9;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind, srcKind, dstKind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId, channelID, channelType, pad2;
} CUpti_ActivityMemcpy5;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, contextId, streamId, correlationId;
  std::uint16_t flags, memoryKind;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId, channelID, channelType, pad2;
} CUpti_ActivityMemset4;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  CUpti_CallbackId cbid;
  std::uint64_t start, end;
  std::uint32_t processId, threadId, correlationId, returnValue;
} CUpti_ActivityAPI;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  std::uint64_t externalId;
  std::uint32_t correlationId, reserved;
} CUpti_ActivityExternalCorrelation;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  CUpti_ActivitySynchronizationType type;
  std::uint64_t start, end;
  std::uint32_t correlationId, contextId, streamId, cudaEventId;
} CUpti_ActivitySynchronization;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  CUpti_ActivityOverheadKind overheadKind;
  std::uint32_t objectKind, objectId[3];
  std::uint64_t start, end;
  std::uint32_t correlationId, reserved0;
} CUpti_ActivityOverhead2;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  CUpti_ActivityMemoryOperationType memoryOperationType;
  CUpti_ActivityMemoryKind memoryKind;
  std::uint32_t correlationId;
  std::uint64_t address, bytes, timestamp, PC;
  std::uint32_t processId, deviceId, contextId, streamId;
  const char* name;
  std::uint32_t isAsync, pad1;
  std::uint64_t memoryPoolConfig[5];
} CUpti_ActivityMemory3;

typedef struct SPILLWAY_RECORD {
  CUpti_ActivityKind kind;
  std::uint32_t memoryPoolOperationType, memoryPoolType, correlationId, processId, deviceId;
  std::size_t minBytesToKeep;
  std::uint64_t address, size, releaseThreshold, timestamp, utilizedSize;
} CUpti_ActivityMemoryPool2;

#undef SPILLWAY_RECORD
