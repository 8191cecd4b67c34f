"""What every benchmark says first: on what it runs, or why it does not."""

from __future__ import annotations

from labutils.gpu import device


def present(more: str = "") -> bool:
    """Is there a GPU? Prints its card and the versions; or that there is none, and `more`."""
    if not device.has_gpu():
        print(" ".join(filter(None, ("There is no GPU here, and times without one say nothing.", more))))
        return False
    print(device.card(), versions(), sep="\n", end="\n\n")
    return True


def versions() -> str:
    import torch
    import triton

    return f"torch {torch.__version__}, Triton {triton.__version__}, CUDA {torch.version.cuda}"
