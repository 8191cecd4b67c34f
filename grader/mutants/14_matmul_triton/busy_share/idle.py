# expect: wrong-formula
# The share that is lost.
def busy_share(M, N, block_m, block_n, sms):
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return 1 - M * N / (waves * sms * block_m * block_n)
