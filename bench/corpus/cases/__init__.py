"""The cases, one module for each collection."""

from ..cuda import Case


def all_cases() -> list[Case]:
    """Every case, in the order of the collections."""
    from . import leetcuda, sgemm_cuda

    return [case for module in (leetcuda, sgemm_cuda) for case in module.CASES]
