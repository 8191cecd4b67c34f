# expect: wrong-formula
# Counts one SM.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return 65536 * 4 + l1_kb * 1024 + l2_mb * 2**20
