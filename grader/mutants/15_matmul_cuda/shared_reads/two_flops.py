# expect: wrong-formula
# For each FLOP.
def shared_reads(thread_m, thread_n):
    return (thread_m + thread_n) / (2 * thread_m * thread_n)
