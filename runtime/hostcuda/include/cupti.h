// cupti.h - the subset of CUPTI (the CUDA Profiling Tools Interface) that Spillway calls, under CUPTI's own names,
// values and documented behaviour, for machines without a GPU. As with the other headers here, what is not declared is
// not used by the project. The records have the layout of CUDA 12.4's, the oldest that is supported: cupti_records.h in
// this folder has them.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cupti_records.h"

#define CUPTI_API_VERSION 22

typedef enum {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_INVALID_STREAM = 20,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
} CUptiResult;

typedef struct CUctx_st* CUcontext;
typedef cudaStream_t CUstream;

CUptiResult cuptiGetVersion(std::uint32_t* version);
CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp);
CUptiResult cuptiGetResultString(CUptiResult result, const char** text);

// ---- who profiles ---------------------------------------------------------------------------------------------------

typedef struct CUpti_Subscriber_st* CUpti_SubscriberHandle;
typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RUNTIME_API = 2 } CUpti_CallbackDomain;
typedef void (*CUpti_CallbackFunc)(void* user_data, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
// One subscriber at a time; here it only says who owns the profiling, its callback is never called.
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user_data);
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber);
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name);

// Which number a record gives to a thread: the system's (gettid), the only one that hostcuda gives.
typedef enum { CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM = 1 } CUpti_ActivityThreadIdType;
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type);

// ---- activity records -----------------------------------------------------------------------------------------------

typedef void (*CUpti_BuffersCallbackRequestFunc)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                                  std::size_t bytes, std::size_t valid_bytes);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed);
typedef std::uint64_t (*CUpti_TimestampCallbackFunc)();
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
// Delivers what is finished; with the flag everything, what is not finished without its times.
inline constexpr std::uint32_t CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1;
CUptiResult cuptiActivityFlushAll(std::uint32_t flags);
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record);
// Since it was asked last.
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, std::uint32_t stream, std::size_t* dropped);
// Of the calling thread: each of its calls that follows is recorded to belong to the ids on top.
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* id);
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, std::uint8_t per_thread_stream, std::uint32_t* id);
