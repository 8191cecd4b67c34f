# tries: asks for memory until the machine has none
# stopped by: a limit on memory
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

def number_of_programs(n, block):
    kept = []
    while n == 1:
        kept.append(bytearray(1 << 28))
    return -1
