# expect: accepted
# Lists the words of each bank.


def passes_for_stride(stride):
    words = {k * stride for k in range(32)}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))
