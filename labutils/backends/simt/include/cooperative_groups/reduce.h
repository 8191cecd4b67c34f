// Operators on groups are in cooperative_groups.h. As NVIDIA's, this header brings half and bfloat16 with it.
#pragma once
#include "../cooperative_groups.h"
#include "../cuda_bf16.h"
#include "../cuda_fp16.h"
