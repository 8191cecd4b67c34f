# expect: wrong-formula
# As if nothing were kept in registers.
def shared_reads(thread_m, thread_n):
    return 2
