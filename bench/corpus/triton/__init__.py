"""Other people's Triton kernels, run unchanged in the recorded interpreter: `python -m bench.corpus.triton`.

Their text stays with its authors: it is fetched at a fixed commit, and only the cases are ours.
"""
