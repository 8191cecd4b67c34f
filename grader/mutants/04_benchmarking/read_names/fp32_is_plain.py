# expect: wrong-formula
# Takes fp32 operands for a sign that no tensor core was used.


def read_names():
    return {
        "A": ("matmul", False, (128, 64)),
        "B": ("matmul", False, (128, 128)),
        "C": ("matmul", True, (128, 256)),
        "D": ("add", False, None),
        "E": ("gelu", False, None),
    }
