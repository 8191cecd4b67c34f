# expect: wrong-formula
# Two names missing.


def read_names():
    return {"A": ("matmul", False, (128, 64)), "B": ("matmul", True, (128, 128)), "C": None}
