"""Benchmarks of the course's solutions on the GPU at hand: `make bench`."""
