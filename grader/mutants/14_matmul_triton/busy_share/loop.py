# expect: accepted
# Waves counted one by one.


def busy_share(M, N, block_m, block_n, sms):
    left, waves = ((M + block_m - 1) // block_m) * ((N + block_n - 1) // block_n), 0
    while left > 0:
        left, waves = left - sms, waves + 1
    return M * N / (waves * sms * block_m * block_n)
