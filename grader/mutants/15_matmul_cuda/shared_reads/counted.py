# expect: accepted
# Reads and multiply-adds counted.


def shared_reads(thread_m, thread_n):
    reads = thread_m + thread_n
    work = thread_m * thread_n
    return reads / work
