# expect: accepted
# Asks the roof for the side.


def verdict(work, seconds, roof):
    if 2 * roof.predict(work).seconds < seconds:
        return "neither"
    return roof.bound(work)
