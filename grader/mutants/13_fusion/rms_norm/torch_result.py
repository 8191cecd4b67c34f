# expect: no-kernel
# PyTorch does the work.
import torch


def rms_norm(x, w, out):
    out.copy_(torch.nn.functional.rms_norm(x, x.shape[1:], w, 1e-6))
