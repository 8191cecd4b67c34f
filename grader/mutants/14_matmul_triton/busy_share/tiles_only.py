# expect: wrong-formula
# Tiles at the edge taken for full.
def busy_share(M, N, block_m, block_n, sms):
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return count / (waves * sms)
