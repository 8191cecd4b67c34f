# expect: wrong-formula
# Waves taken for full.
def busy_share(M, N, block_m, block_n, sms):
    count = -(-M // block_m) * -(-N // block_n)
    return M * N / (count * block_m * block_n)
