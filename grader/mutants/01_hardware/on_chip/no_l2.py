# expect: wrong-formula
# Forgets the L2.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return sms * (65536 * 4 + l1_kb * 1024)
