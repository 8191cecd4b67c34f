"""What unit 12's last level shows: a softmax by clusters of blocks, tried out, and timed on a Hopper GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from .. import environment
from ..gpu import device

SM = 90
LONG = (1024, 200_000)


def try_out(softmax: Callable, others: Mapping[str, Callable]) -> None:
    """Run softmax(x, out, lse) on a small matrix, say how far it is from PyTorch's, and time it where it is at home."""
    import torch

    if environment.grading_in_progress():
        return
    here = device.runs(SM)
    place, (M, N) = ("cuda", (40, 50_257)) if here else ("cpu", (3, 2003))
    x = 3 * torch.randn(M, N, generator=torch.Generator().manual_seed(1)).to(place)
    x[0, : N // 2] = -torch.inf
    x[1] = -torch.inf
    out, lse = torch.full_like(x, 7.0), torch.full((M,), 7.0, device=place)
    softmax(x, out, lse)
    expected, expected_lse = torch.softmax(x.double(), 1), torch.logsumexp(x.double(), 1)
    rest = torch.arange(M, device=place) != 1
    error = ((out.double() - expected).abs() / expected.clamp_min(1e-30))[rest].max().item()
    print(f"{M} × {N}: largest relative difference {error:.1e} from torch.softmax,")
    print(f"{(lse.double() - expected_lse)[rest].abs().max().item():.1e} from torch.logsumexp.")
    print(f"A row of nothing but -inf: {out[1, 0].item()} everywhere, lse {lse[1].item()}.")
    if not here:
        print("That was the emulator. Its speed says nothing; running the kernel needs a Hopper GPU.")
        return
    for name, rate in rates({"cluster_softmax": softmax, **others}).items():
        print(f"{name:20} {rate:5.0f} GB/s")


def rates(softmaxes: Mapping[str, Callable]) -> dict[str, float]:
    """GB/s of 2MN floats of each that runs, in turns with PyTorch's and a copy, at the size of the unit."""
    import torch

    from ..timing import stopwatch

    M, N = LONG
    pairs = [(torch.randn(M, N, device="cuda"), torch.empty(M, N, device="cuda")) for _ in range(2)]
    lse = torch.empty(M, device="cuda")
    calls = {}
    for name, f in softmaxes.items():
        try:
            f(*pairs[0], lse)
        except Exception as e:  # one that the learner has not written is no reason to lose the others
            print(f"{name}: left out: {type(e).__name__}: {str(e)[:100]}")
            continue
        calls[name] = [partial(f, x, out, lse) for x, out in pairs]
    calls["torch.softmax"] = [partial(torch.softmax, x, 1) for x, _ in pairs]
    calls["copy"] = [partial(out.copy_, x) for x, out in pairs]
    taken = stopwatch.Stopwatch().take_turns(calls)
    return {name: 8 * M * N / sample.median / 1e9 for name, sample in taken.items()}
