# expect: wrong-formula
# Takes intensity below the ridge for compute-bound.


def verdict(work, seconds, roof):
    if roof.predict(work).seconds < seconds / 2:
        return "neither"
    return "compute" if roof.bound(work) == "memory" else "memory"
