# expect: accepted
# The same as a float.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return float(sms * (2**18 + l1_kb * 1024) + l2_mb * 2**20)
