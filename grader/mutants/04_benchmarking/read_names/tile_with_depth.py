# expect: wrong-formula
# Takes depth and stages for part of the tile.


def read_names():
    return {
        "A": ("matmul", False, (128, 64)),
        "B": ("matmul", True, (128, 128)),
        "C": ("matmul", True, (64, 4)),
        "D": ("add", False, None),
        "E": ("gelu", False, None),
    }
