# expect: wrong-formula
# Takes sgemm for a tensor-core kernel.


def read_names():
    return {
        "A": ("matmul", True, (128, 64)),
        "B": ("matmul", True, (128, 128)),
        "C": ("matmul", True, (128, 256)),
        "D": ("add", False, None),
        "E": ("gelu", False, None),
    }
