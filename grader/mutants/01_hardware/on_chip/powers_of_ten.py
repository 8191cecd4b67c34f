# expect: wrong-formula
# A KB of 1000 bytes.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return sms * (65536 * 4 + l1_kb * 1000) + l2_mb * 10**6
