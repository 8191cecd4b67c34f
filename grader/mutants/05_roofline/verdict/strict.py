# expect: wrong-formula
# Asks for nine tenths of the roof.


def verdict(work, seconds, roof):
    least = roof.predict(work)
    return least.bound if least.seconds >= 0.9 * seconds else "neither"
