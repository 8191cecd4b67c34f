// Names that nvcc knows without an include, from the host's headers, which NVRTC does not read.
#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;  // as in CUDA's library under NVRTC, whatever the host has
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef unsigned short ushort;
typedef unsigned uint;
typedef unsigned long ulong;
