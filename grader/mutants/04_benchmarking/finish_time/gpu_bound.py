# expect: wrong-formula
# Holds only while kernels take longer than launches.


def finish_time(count, launch, kernel):
    return launch + count * kernel
