# expect: accepted
# Level by level.


def on_chip_bytes(sms, l1_kb, l2_mb):
    registers = sms * 2**18
    l1 = sms * l1_kb * 2**10
    return registers + l1 + (l2_mb << 20)
