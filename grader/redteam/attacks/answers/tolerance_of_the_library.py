# tries: calls the tolerance of the library's error model
# stopped by: functions of the library that compute an exercise's answer are not in the sandbox
# exercise: 04_tolerances/tolerance
# where: both
# expect: refused

def tolerance(terms, magnitude, expected, accumulate, stored):
    import torch
    from labutils.spec.precision import TINY, Contract

    long = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    contract, value = Contract(accumulate=long[accumulate], terms=terms), torch.tensor(expected, dtype=torch.float64)
    return float(contract.tolerance(value, magnitude, {}, long[stored])) - TINY[long[stored]]
