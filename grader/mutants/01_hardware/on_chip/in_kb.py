# expect: accepted
# In KB first.


def on_chip_bytes(sms, l1_kb, l2_mb):
    return 1024 * (sms * (256 + l1_kb) + 1024 * l2_mb)
