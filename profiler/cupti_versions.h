// cupti_versions.h - which record CUPTI delivers under which CUPTI_API_VERSION. The decoder reads the records of CUDA
// 12.4 (API version 22), the oldest supported; later ones only append fields to them. That is not taken on trust: for
// the header that is compiled, every field that is read is asserted to lie where 12.4 has it. A header newer than the
// table knows is an error at build time, not a wrong decode: add its line.
//
// From cupti_version.h and cupti_activity_deprecated.h of each toolkit, and CUPTI's release notes:
//   22 to 24          CUDA 12.4 to 12.6      Kernel9   Memcpy5  Synchronization
//   26 to 28          CUDA 12.8, 12.9        Kernel9   Memcpy6  Synchronization2
//   130001 to 130199  CUDA 13.0 U1, 13.1     Kernel10  Memcpy6  Synchronization2  Memory4  MemoryPool3  Overhead3
//   1302xx            CUDA 13.2              Kernel11  the others as before
//   1303xx            CUDA 13.3              Kernel12  the others as before
#pragma once
#include <cupti.h>

#include <cstddef>
#include <cstdint>

// The first CUPTI of CUDA 13.0 is known to crash and to deadlock; the recorder refuses it again when it is loaded.
#define SPILLWAY_BROKEN_CUPTI 130000

#if CUPTI_API_VERSION < 22
#error "CUPTI is older than CUDA 12.4's: install a newer CUDA Toolkit"
#elif CUPTI_API_VERSION == SPILLWAY_BROKEN_CUPTI
#error "the CUPTI of CUDA 13.0.0 is known to crash: install CUDA 13.0 Update 1 or later"
#elif CUPTI_API_VERSION >= 130400 || (CUPTI_API_VERSION > 28 && CUPTI_API_VERSION < SPILLWAY_BROKEN_CUPTI)
#error "CUPTI is newer than profiler/cupti_versions.h knows: add which records it delivers"
#endif

namespace spillway::profiler::cupti {

// What the decoder reads.
using Kernel = CUpti_ActivityKernel9;
using Memcpy = CUpti_ActivityMemcpy5;
using Memset = CUpti_ActivityMemset4;
using Api = CUpti_ActivityAPI;
using ExternalCorrelation = CUpti_ActivityExternalCorrelation;
using Synchronization = CUpti_ActivitySynchronization;
using Overhead = CUpti_ActivityOverhead2;
using Memory = CUpti_ActivityMemory3;
using MemoryPool = CUpti_ActivityMemoryPool2;

// Byte for byte those of the published headers, in whichever header is compiled.
static_assert(sizeof(Kernel) == 208 && sizeof(Memcpy) == 88 && sizeof(Memset) == 88 && sizeof(Api) == 40);
static_assert(sizeof(ExternalCorrelation) == 24 && sizeof(Synchronization) == 40 && sizeof(Overhead) == 48);
static_assert(sizeof(Memory) == 120 && sizeof(MemoryPool) == 72);

#define SPILLWAY_AT(Record, field, offset) static_assert(offsetof(Record, field) == (offset))
#define SPILLWAY_SAME(Old, New, field) static_assert(offsetof(Old, field) == offsetof(New, field))

SPILLWAY_AT(Kernel, start, 16);
SPILLWAY_AT(Kernel, streamId, 48);
SPILLWAY_AT(Kernel, correlationId, 92);
SPILLWAY_AT(Kernel, name, 104);
SPILLWAY_AT(Memcpy, copyKind, 4);
SPILLWAY_AT(Memcpy, bytes, 8);
SPILLWAY_AT(Memcpy, start, 16);
SPILLWAY_AT(Memcpy, streamId, 40);
SPILLWAY_AT(Memcpy, correlationId, 44);
SPILLWAY_AT(Memset, bytes, 8);
SPILLWAY_AT(Memset, start, 16);
SPILLWAY_AT(Memset, streamId, 40);
SPILLWAY_AT(Memset, correlationId, 44);
SPILLWAY_AT(Api, cbid, 4);
SPILLWAY_AT(Api, start, 8);
SPILLWAY_AT(Api, threadId, 28);
SPILLWAY_AT(Api, correlationId, 32);
SPILLWAY_AT(ExternalCorrelation, externalKind, 4);
SPILLWAY_AT(ExternalCorrelation, externalId, 8);
SPILLWAY_AT(ExternalCorrelation, correlationId, 16);
SPILLWAY_AT(Synchronization, type, 4);
SPILLWAY_AT(Synchronization, start, 8);
SPILLWAY_AT(Synchronization, correlationId, 24);
SPILLWAY_AT(Overhead, overheadKind, 4);
SPILLWAY_AT(Overhead, start, 24);
SPILLWAY_AT(Memory, memoryOperationType, 4);
SPILLWAY_AT(Memory, memoryKind, 8);
SPILLWAY_AT(Memory, bytes, 24);
SPILLWAY_AT(Memory, timestamp, 32);
SPILLWAY_AT(MemoryPool, correlationId, 12);

#if CUPTI_API_VERSION >= 26
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, copyKind);
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, bytes);
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, start);
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, end);
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, streamId);
SPILLWAY_SAME(Memcpy, CUpti_ActivityMemcpy6, correlationId);
SPILLWAY_SAME(Synchronization, CUpti_ActivitySynchronization2, type);
SPILLWAY_SAME(Synchronization, CUpti_ActivitySynchronization2, start);
SPILLWAY_SAME(Synchronization, CUpti_ActivitySynchronization2, end);
SPILLWAY_SAME(Synchronization, CUpti_ActivitySynchronization2, correlationId);
#endif
#if CUPTI_API_VERSION > SPILLWAY_BROKEN_CUPTI
#if CUPTI_API_VERSION >= 130300
using NewKernel = CUpti_ActivityKernel12;
#elif CUPTI_API_VERSION >= 130200
using NewKernel = CUpti_ActivityKernel11;
#else
using NewKernel = CUpti_ActivityKernel10;
#endif
SPILLWAY_SAME(Kernel, NewKernel, start);
SPILLWAY_SAME(Kernel, NewKernel, end);
SPILLWAY_SAME(Kernel, NewKernel, streamId);
SPILLWAY_SAME(Kernel, NewKernel, correlationId);
SPILLWAY_SAME(Kernel, NewKernel, name);
SPILLWAY_SAME(Overhead, CUpti_ActivityOverhead3, overheadKind);
SPILLWAY_SAME(Overhead, CUpti_ActivityOverhead3, start);
SPILLWAY_SAME(Overhead, CUpti_ActivityOverhead3, end);
SPILLWAY_SAME(Memory, CUpti_ActivityMemory4, memoryOperationType);
SPILLWAY_SAME(Memory, CUpti_ActivityMemory4, memoryKind);
SPILLWAY_SAME(Memory, CUpti_ActivityMemory4, bytes);
SPILLWAY_SAME(Memory, CUpti_ActivityMemory4, timestamp);
#endif

#undef SPILLWAY_AT
#undef SPILLWAY_SAME

}  // namespace spillway::profiler::cupti
