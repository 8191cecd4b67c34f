# expect: accepted
# Goes through the queue kernel by kernel.


def finish_time(count, launch, kernel):
    host = done = 0
    for _ in range(count):
        host += launch
        done = max(host, done) + kernel
    return done
