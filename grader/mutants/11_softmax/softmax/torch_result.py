# expect: no-kernel
# PyTorch does the work.
import torch


def softmax(x, out):
    out.copy_(torch.softmax(x, 1))
