# expect: no-kernel
# Lets PyTorch do it.
import torch


def scale(x, factor, out):
    torch.mul(x, factor, out=out)
