# expect: wrong-formula
# Forgets the L1.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return sms * 65536 * 4 + l2_mb * 2**20
