"""Other people's CUDA kernels, run unchanged in the emulator: `python -m bench.corpus`.

Their text stays with its authors: it is fetched at a fixed commit, and only the cases are ours.
"""
