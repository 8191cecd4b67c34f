# expect: no-kernel
# Lets PyTorch do it.
import torch


def vector_add(x, y, out):
    torch.add(x, y, out=out)
