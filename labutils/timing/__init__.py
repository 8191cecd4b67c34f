"""Clocks and ceilings: the stopwatch, benchmarks, what this GPU reaches at most, profiles and kernel names."""
