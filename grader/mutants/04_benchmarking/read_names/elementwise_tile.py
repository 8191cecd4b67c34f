# expect: wrong-formula
# A tile where there is no matrix.


def read_names():
    return {
        "A": ("matmul", False, (128, 64)),
        "B": ("matmul", True, (128, 128)),
        "C": ("matmul", True, (128, 256)),
        "D": ("add", False, (4, 3)),
        "E": ("gelu", False, None),
    }
