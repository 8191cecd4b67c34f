"""The runner's process as a whole, on a driver that is a stub (`driver_stub.c`)."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from grader.judge import gpu
from labutils.gpu import device

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")

HELPERS = base64.b64encode(b"helpers").decode()
KERNEL = {"cubin": HELPERS, "symbol": "kernel", "warps": 4, "shared": 0, "scratch_bytes": 0}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("driver_stub.c")
    command = ["gcc", "-shared", "-fPIC", "-w", "-o", folder / "libcuda.so.1", "-Wl,-soname,libcuda.so.1", source]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def runner(driver, monkeypatch):
    monkeypatch.setattr(gpu, "_helpers", lambda: HELPERS)
    monkeypatch.setattr(device, "current", lambda: device.find("H200"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    started = []

    def start(parameters, prints=""):
        monkeypatch.setenv("STUB_PARAMETERS", parameters)
        monkeypatch.setenv("STUB_PRINTS", prints)
        started.append(gpu.Runner())
        started[0].memory.extend(4096)
        return started[0]

    yield start
    for one in started:
        one.close()
        one.close()


def job(abi, args, **kernel):
    step = {"kernel": 0, "grid": [1, 1, 1], "block": None, "shared": 0, "args": args}
    case = {"arguments": [{"at": 0, "bytes": 4096, "output": True}], "plan": {"steps": [step], "scratch": []}}
    kernels = [KERNEL | {"abi": abi} | kernel]
    return {"kernels": kernels, "cases": [case | {"twice": True, "turn": 0}] * 2, "time_limit": 3.0}


POINTER = {"pointer": {"argument": 0, "offset": 0, "dtype": "float32"}}
FINE = [{"case": 0, "unstable": False}, {"case": 1, "unstable": False}]


def test_cases_are_run_one_after_another(runner):
    assert list(runner("8 8 8").run(job([("x", "pointer")], {"x": POINTER}))) == FINE


@pytest.mark.parametrize(
    "text", ["1 of 32 lanes\n", "1 of 32 lanes", '{"done": true}\n', '{"lost": "died", "why": ""}\n']
)
def test_what_a_kernel_prints_is_no_answer(runner, text):
    assert list(runner("8 8 8", text).run(job([("x", "pointer")], {"x": POINTER}))) == FINE


@pytest.mark.parametrize("shape", [(1000,), (64, 32), (3, 64, 32)])
def test_a_tensor_descriptor_is_a_map_then_its_shape_and_strides(runner, shape):
    rank = len(shape)
    strides = [32 * 64, 32, 1][-rank:]
    payload = {"argument": 0, "offset": 0, "dtype": "float32", "shape": shape, "strides": strides,
            "block_shape": [16] * rank, "padding": "zero", "tf32": False}  # fmt: skip
    meta = {"swizzle": 0, "elem_size": 4, "elem_type": 7, "block_size": [16] * rank, "fp4_padded": False}
    sizes = " ".join(map(str, [128, *[4] * rank, *[8] * rank, 8, 8]))
    asked = job([("x", "descriptor")], {"x": {"descriptor": payload}}, descriptors=[meta])
    assert list(runner(sizes).run(asked)) == FINE


def test_memory_that_grew_is_mapped_anew(runner):
    one = runner("8 8 8")
    asked = job([("x", "pointer")], {"x": POINTER})
    assert list(one.run(asked)) == FINE
    begin = one.memory.extend(4096)
    asked["cases"][1]["arguments"][0]["at"] = begin
    assert list(one.run(asked)) == FINE


def test_what_is_no_answer_loses_the_runner_and_not_the_judge(runner, monkeypatch):
    one = runner("8 8 8")
    one.begin()
    one._pending = b"1 of 32 lanes\n"
    with pytest.raises(gpu.RunnerLost, match="no answer"):
        list(one.run(job([("x", "pointer")], {"x": POINTER})))
