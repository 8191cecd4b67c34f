# expect: accepted
# Operations in capitals.


def read_names():
    return {
        "A": ("matmul", False, (128, 64)),
        "B": ("matmul", True, (128, 128)),
        "C": ("matmul", True, (128, 256)),
        "D": ("add", False, None),
        "E": ("GELU", False, None),
    }
