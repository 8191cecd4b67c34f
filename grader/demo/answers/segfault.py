import ctypes

ctypes.string_at(0)  # what is in memory at address 0?
