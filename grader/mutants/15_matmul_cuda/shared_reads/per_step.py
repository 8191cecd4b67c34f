# expect: wrong-formula
# Reads of a step, not for each multiply-add.
def shared_reads(thread_m, thread_n):
    return thread_m + thread_n
