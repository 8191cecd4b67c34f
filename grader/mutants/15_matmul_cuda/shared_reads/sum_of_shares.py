# expect: accepted
# The same as a sum.
def shared_reads(thread_m, thread_n):
    return 1 / thread_m + 1 / thread_n
