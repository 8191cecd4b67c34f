"""The cases, one module for each collection."""

from ..cuda import Case


def all_cases() -> list[Case]:
    """Every case, in the order of the collections."""
    from . import cuda_samples, leetcuda, llm_c, sgemm_cuda

    return [case for module in (leetcuda, sgemm_cuda, llm_c, cuda_samples) for case in module.CASES]
