# expect: wrong-formula
# Multiply-adds for each read.
def shared_reads(thread_m, thread_n):
    return thread_m * thread_n / (thread_m + thread_n)
