// Its device part is in simt.h.
#pragma once
#include "simt.h"
