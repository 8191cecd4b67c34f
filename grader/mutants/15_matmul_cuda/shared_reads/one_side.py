# expect: wrong-formula
# A's numbers only.
def shared_reads(thread_m, thread_n):
    return 1 / thread_n
