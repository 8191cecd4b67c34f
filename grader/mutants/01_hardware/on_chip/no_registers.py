# expect: wrong-formula
# Forgets the registers.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return sms * l1_kb * 1024 + l2_mb * 2**20
