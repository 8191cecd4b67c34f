// cuda.h asks for it, and takes size_t from it.
#pragma once
#include "stddef.h"
