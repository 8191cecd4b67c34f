// CUDA C++ device code on the CPU: what every kernel sees without an include. No standard headers, as under
// NVRTC: what compiles here must not lean on the host's library.
#pragma once
#include "simt/qualifiers.h"
#include "simt/vector_types.h"
#include "simt/runtime_api.h"
#include "simt/math.h"
#include "simt/sync.h"
#include "simt/atomics.h"
#include "simt/memory.h"
#include "simt/entry.h"

// A compiler expands its own forms of these in place, where nothing records them.
#define __builtin_memcpy simt_memcpy
#define __builtin_memmove simt_memmove
#define __builtin_memset simt_memset
#define __builtin_memcmp simt_memcmp
#define __builtin_bcmp simt_memcmp
