# expect: wrong-formula
# Stops the clock when the host has launched everything.


def finish_time(count, launch, kernel):
    return count * launch
