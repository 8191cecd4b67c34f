"""Correct kernels give the right answer in the checked and in the fast build, and no findings."""

import os

import pytest
import torch

from tests.labutils.backends.simt.kernel_cases import CASES, KERNELS


def run(name, build, checked, **options):
    torch.manual_seed(0)
    used = []

    def kernel(instance=None):
        used.append(build(KERNELS / f"{name}.cu", instance, checked, **options))
        return used[-1]

    CASES[name](kernel)
    for launcher in used:
        assert [str(f) for f in launcher.result.findings] == []


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "fast"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_kernel_is_right_and_without_findings(name, checked, build):
    run(name, build, checked)


def test_every_kernel_has_a_case():
    assert sorted(CASES) == sorted(p.stem for p in KERNELS.glob("*.cu"))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["bitonic", "layernorm", "spinlock", "scan_tree", "votes", "flag_wait"])
def test_other_orders_of_warps_and_lanes(name, seed, build):
    run(name, build, True, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "fast"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_kernel_with_clang(name, checked, build, clang):
    assert os.environ["CXX"] == "clang++"
    run(name, build, checked)
