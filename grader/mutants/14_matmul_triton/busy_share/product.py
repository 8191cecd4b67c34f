# expect: accepted
# The product of the two shares.
def busy_share(M, N, block_m, block_n, sms):
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return count / (waves * sms) * (M * N) / (count * block_m * block_n)
