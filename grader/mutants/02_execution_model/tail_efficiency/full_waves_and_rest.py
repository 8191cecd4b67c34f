# expect: accepted
# Full waves and the last one added up.


def tail_efficiency(blocks, sms, blocks_per_sm):
    places = sms * blocks_per_sm
    full, rest = divmod(blocks, places)
    return (full + rest / places) / (full + (rest > 0))
