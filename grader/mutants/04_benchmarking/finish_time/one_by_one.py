# expect: wrong-formula
# As if the host waited for each kernel.


def finish_time(count, launch, kernel):
    return count * (launch + kernel)
