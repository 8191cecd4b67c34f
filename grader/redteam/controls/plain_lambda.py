# tries: the answer is a lambda
# exercise: 05_roofline/least_time
# expect: accepted

least_time = lambda bytes_moved, flops, bandwidth, peak: max(  # noqa: E731
    work / speed for work, speed in zip((bytes_moved, flops), (bandwidth, peak), strict=True)
)
