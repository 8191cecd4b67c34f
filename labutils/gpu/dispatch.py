"""What a launcher does with PyTorch, seen operation by operation."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """PyTorch's own, without its compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Where this is true, PyTorch (2.10 and later) wraps `__torch_dispatch__` to keep its compiler away, and the
        wrapper's first call imports the compiler: 2 s in each child."""
        return False
