# expect: accepted
# Ceiling division; it gives 0 for a thread beyond the end.


def passes(n, threads, thread):
    return -((thread - n) // threads) if thread < n else 0
