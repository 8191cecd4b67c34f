"""What a launch plan may hold: everything else is refused, and nothing that a sandbox can write stops the judge."""

import copy

import pytest

from grader.judge import plan

ARGUMENTS = [
    {"name": "x", "dtype": "float32", "length": 20_000, "shape": [30, 40], "strides": [40, 1], "start": 8192},
    {"name": "out", "dtype": "float32", "length": 20_000, "shape": [40, 30], "strides": [30, 1], "start": 8192},
    {"name": "c", "dtype": "float32", "length": 20_000, "shape": [30, 40], "strides": [1, 30], "start": 8192},
]
POINTER = {"argument": 0, "offset": 8192, "dtype": "float32"}
VALID = {
    "specs": [
        {
            "language": "triton",
            "module": [["import triton", "cell", 1], ["@triton.jit\ndef k(x_ptr, n): pass", "cell", 2]],
            "kernel": "k",
            "signature": {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            "constants": {"BLOCK": 16},
            "aligned": ["x_ptr"],
            "options": {"num_warps": 4},
        },
        {"language": "cuda", "source": "__global__ void k(float* x) {}", "name": "k", "options": []},
    ],
    "scratch": [4096],
    "steps": [
        {"kernel": 0, "grid": [4], "args": {"x_ptr": {"pointer": POINTER}, "n": {"number": 3}}},
        {"kernel": 1, "grid": [2, 1], "block": [32, 1, 1], "shared": 0, "args": {"x": {"pointer": POINTER}}},
        {"fill": {"scratch": 0, "offset": 0, "dtype": "float32"}, "count": 7, "value": 0.0},
        {"choices": [{"kernel": 0, "grid": [1], "args": {}}, {"kernel": 0, "grid": [2], "args": {}}]},
    ],
    "printed": "hello",
    "returned": "",
}


def changed(*path, to):
    payload = copy.deepcopy(VALID)
    inner = payload
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return payload


def test_a_valid_plan_is_read():
    read = plan.read(VALID, ARGUMENTS)
    assert len(read.launches()) == 4 and read.steps[0].grid == (4, 1, 1)
    assert plan.read(read.to_json() | {"printed": "", "returned": ""}, ARGUMENTS).steps == read.steps
    assert plan.read(changed("steps", 1, "cluster", to=2), ARGUMENTS).steps[1].cluster == 2


DEEP = "x"
for _ in range(500):
    DEEP = [DEEP]

WRONG = [
    ("steps", "x"), ("steps", [5]), ("steps", [[]]), ("steps", [None]), ("steps", DEEP), ("specs", {}),
    ("specs", [None]), ("scratch", [-1]), ("scratch", [True]), ("scratch", [1.5]), ("scratch", ["1"]),
    ("printed", 5), ("returned", None),
    ("specs", 0, "language", "fortran"), ("specs", 0, "language", []), ("specs", 0, "module", "text"),
    ("specs", 0, "module", [["a", "b"]]), ("specs", 0, "module", [["a", "b", 0]]),
    ("specs", 0, "module", [[1, "b", 1]]),
    ("specs", 0, "module", [["", "", 1]] * 500), ("specs", 0, "module", [["x" * (1 << 21), "", 1]]),
    ("specs", 0, "kernel", 5), ("specs", 0, "signature", []), ("specs", 0, "signature", {"n": 5}),
    ("specs", 0, "constants", {"UNKNOWN": 1}), ("specs", 0, "constants", {"BLOCK": []}),
    ("specs", 0, "constants", {"BLOCK": {"eval": "1"}}), ("specs", 0, "constants", {"BLOCK": {"dtype": 5}}),
    ("specs", 0, "aligned", ["nobody"]), ("specs", 0, "aligned", [[]]), ("specs", 0, "aligned", ["x_ptr"] * 3),
    ("specs", 0, "options", {"num_warps": 0}), ("specs", 0, "options", {"num_warps": True}),
    ("specs", 0, "options", {"enable_fp_fusion": 1}), ("specs", 0, "options", {"maxnreg": 1e3}),
    ("specs", 1, "source", 5), ("specs", 1, "source", "x" * (1 << 21)), ("specs", 1, "name", None),
    ("specs", 1, "options", ["--include=/etc/passwd"]), ("specs", 1, "options", ["-Da=b c"]),
    ("specs", 1, "options", 5),
    ("specs", 1, "options", ["-D__global__=__host__"]), ("specs", 1, "options", [5]),
    ("steps", 0, "kernel", 2), ("steps", 0, "kernel", -1), ("steps", 0, "kernel", "0"), ("steps", 0, "kernel", 0.0),
    ("steps", 0, "grid", []), ("steps", 0, "grid", [1, 1, 1, 1]), ("steps", 0, "grid", [-1]), ("steps", 0, "grid", 5),
    ("steps", 0, "grid", [1, 70_000]), ("steps", 0, "grid", [2**31]), ("steps", 0, "grid", [10**400]),
    ("steps", 0, "grid", [float("inf")]), ("steps", 0, "args", []), ("steps", 0, "args", {"n": 5}),
    ("steps", 0, "args", {"n": {}}), ("steps", 0, "args", {"n": {"number": "5"}}),
    ("steps", 0, "args", {"n": {"number": 2**63}}), ("steps", 0, "args", {"n": {"number": [1]}}),
    ("steps", 0, "args", {"n": {"number": 1, "pointer": POINTER}}), ("steps", 0, "args", {"n": {"address": 4096}}),
    ("steps", 0, "args", {f"a{k}": {"number": 1} for k in range(101)}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"argument": 3}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"argument": -1}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"offset": -1}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"offset": 2**41}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"offset": float("nan")}),
    ("steps", 0, "args", "x_ptr", "pointer", POINTER | {"dtype": "load"}),
    ("steps", 0, "args", "x_ptr", "pointer", {"scratch": 1, "offset": 0, "dtype": "float32"}),
    ("steps", 0, "args", "x_ptr", "pointer", {"offset": 0, "dtype": "float32"}),
    ("steps", 0, "args", "x_ptr", {"descriptor": POINTER}),
    ("steps", 0, "args", "x_ptr", {"descriptor": POINTER | {"shape": [1], "strides": [1, 1], "block_shape": [1]}}),
    ("steps", 1, "block", [1024, 2, 1]), ("steps", 1, "block", [32]), ("steps", 1, "block", [0, 1, 1]),
    ("steps", 1, "shared", -1), ("steps", 1, "shared", 1 << 30), ("steps", 1, "cluster", 0),
    ("steps", 1, "cluster", 3), ("steps", 1, "cluster", 32), ("steps", 1, "cluster", "2"),
    ("steps", 2, "count", 0), ("steps", 2, "count", 2**40), ("steps", 2, "value", "0"), ("steps", 2, "value", 10**400),
    ("steps", 3, "choices", []), ("steps", 3, "choices", 5), ("steps", 3, "choices", [{"choices": []}]),
]  # fmt: skip


@pytest.mark.parametrize("path", WRONG, ids=range(len(WRONG)))
def test_a_malformed_plan_is_refused(path):
    with pytest.raises(plan.BadPlan):
        plan.read(changed(*path[:-1], to=path[-1]), ARGUMENTS)


@pytest.mark.parametrize("missing", ["steps", "specs", "scratch"])
def test_a_plan_lacks_nothing(missing):
    with pytest.raises(plan.BadPlan):
        plan.read({k: v for k, v in VALID.items() if k != missing}, ARGUMENTS)


def test_too_much_is_said_in_a_sentence():
    launch = VALID["steps"][0]
    with pytest.raises(plan.BadPlan, match="10000 launches in one call"):
        plan.read(changed("steps", to=[launch] * 10_000), ARGUMENTS)
    with pytest.raises(plan.BadPlan, match="1,024 GB of scratch"):
        plan.read(changed("scratch", to=[1 << 40]), ARGUMENTS)
    with pytest.raises(plan.BadPlan, match="1000 different kernels"):
        plan.read(changed("specs", to=VALID["specs"] * 500), ARGUMENTS)
    with pytest.raises(plan.BadPlan, match=r"k is launched on a grid of \(1, 65536, 1\)"):
        plan.read(changed("steps", 0, "grid", to=[1, 65536]), ARGUMENTS)


def test_pieces_of_text_share_no_file():
    module = plan.read(VALID, ARGUMENTS).specs[0]["module"]
    assert len({file for _, file, _ in module}) == len(module)


def test_options_become_text():
    spec = plan.read(changed("specs", 1, "options", to=["-DN=4", "-DFAST"]), ARGUMENTS).specs[1]
    assert spec["source"].startswith("#define N 4\n#define FAST 1\n__global__") and spec["options"] == []


def test_what_is_printed_cannot_command_a_terminal():
    payload = changed("printed", to="a\x1b[2J\x9b\u202e\ud800\0b\nπ ✓\t")
    assert plan.read(payload, ARGUMENTS).printed == "a\ufffd[2J\ufffd\ufffd\ufffdb\nπ ✓\t"


def test_a_copy_is_read_and_one_that_rearranges_is_refused():
    inner = {"argument": 0, "offset": 8192, "dtype": "float32", "shape": [30, 40], "strides": [40, 1]}
    ours = {"scratch": 0, "offset": 0, "dtype": "float32", "shape": [30, 40], "strides": [44, 1]}
    assert plan.read(changed("scratch", to=[8192]) | {"steps": [{"copy": inner, "to": ours}]}, ARGUMENTS).copies()
    turned = ours | {"strides": [1, 30]}
    with pytest.raises(plan.BadPlan, match="your launcher rearranges an array with PyTorch") as refused:
        plan.read(changed("scratch", to=[8192]) | {"steps": [{"copy": inner, "to": turned}]}, ARGUMENTS)
    assert refused.value.kind == "no-kernel"
