# expect: wrong-formula
# The fraction turned round.
def busy_share(M, N, block_m, block_n, sms):
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return waves * sms * block_m * block_n / (M * N)
