"""Functions travel as text: everything they name goes along, and lines keep their numbers."""

import functools
import inspect
import json
import linecache
import math
import os.path

import pytest

from labutils.backends import interpreter
from labutils.backends.access import Recorder
from labutils.backends.extract import NotExtractable, Part, flat, grouped, load, module_parts, module_text

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402

BLOCK = 128
SCALE: tl.constexpr = tl.constexpr(2.5)
LIMIT = -math.inf
TYPES = {"half": torch.float16, "acc": tl.float32}
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=4) for b in (64, 128)]


def helper(n):
    return n + offset() if n else 0


def offset():
    return helper(0) + BLOCK


def plain(n, limit=LIMIT):
    """Uses a module, a submodule, a function from elsewhere and a helper that calls back."""
    BLOCK_LOCAL = math.floor(n) + os.path.sep.count("/")
    return helper(BLOCK_LOCAL), limit, TYPES, isqrt(n)


isqrt = math.isqrt


@triton.jit
def inner(x):
    return x * SCALE


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def outer_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, inner(tl.load(x_ptr + offs)), mask=offs < n)


def launcher(x):
    outer_kernel[(1,)](x, x.numel())


@functools.cache
def remembered(n):
    return n + BLOCK


def remembers(n):
    return remembered(n)


@pytest.fixture(autouse=True)
def own_lines(monkeypatch):
    """Loading tells linecache what the files of this process hold; another process has a linecache of its own."""
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))


def there_and_back(parts):
    """Parts as they arrive in another process."""
    return [Part(*p) for p in json.loads(json.dumps(parts))]


def test_a_function_works_elsewhere():
    namespace = load(there_and_back(module_parts(plain)), "elsewhere")
    assert namespace["plain"] is not plain
    assert namespace["plain"](9.0 and 9) == plain(9)


def test_a_launcher_brings_its_kernels():
    namespace = load(there_and_back(module_parts(launcher)), "elsewhere")
    x, y = torch.ones(64), torch.ones(64)
    with interpreter.recording(Recorder()):  # where autotuning has no GPU to time on
        launcher(x)
        namespace["launcher"](y)
    assert torch.equal(x, y) and x[0] == 2.5
    assert namespace["CONFIGS"][1].kwargs == {"BLOCK": 128}


def test_a_function_that_remembers_its_answers_comes_along():
    namespace = load(there_and_back(module_parts(remembers)), "elsewhere")
    assert namespace["remembers"](1) == 129 and namespace["remembered"].cache_info().misses == 1


def test_a_kernel_alone_comes_without_its_tuning():
    text = "\n".join(p.text for p in module_parts(outer_kernel, kernel=True))
    assert "autotune" not in text and "CONFIGS" not in text
    assert "outer_kernel = triton.jit(outer_kernel)" in text and "def inner" in text


def test_lines_keep_their_numbers():
    namespace = load(there_and_back(module_parts(plain)), "elsewhere")
    for fn in (plain, helper, offset):
        assert namespace[fn.__name__].__code__.co_firstlineno == fn.__code__.co_firstlineno
        assert inspect.getsource(namespace[fn.__name__]) == inspect.getsource(fn)


def test_the_text_of_a_function_is_read_once(monkeypatch):
    first = module_parts(launcher)
    monkeypatch.setattr(inspect, "getsourcelines", lambda function: pytest.fail("read again"))
    assert module_parts(launcher) == first


def test_module_text_is_a_module():
    namespace: dict = {}
    exec(module_text(plain), namespace)
    assert namespace["plain"](4) == plain(4)


class Local:
    pass


Local.__module__ = "__main__"


def uses_class():
    return Local()


def closes_over():
    n = 3
    return lambda: n


def makes_function():
    def named():
        return 1

    return named


@pytest.mark.parametrize(
    "fn, why",
    [
        (uses_class, "the class Local is defined in the notebook"),
        (closes_over(), "uses variables of an enclosing function"),
        (lambda: 1, "is not written with def"),
        (print, "is not a function"),
        (eval(compile("lambda: 1", "<no file>", "eval")), "cannot be read"),
    ],
)
def test_what_cannot_be_told_says_why(fn, why):
    with pytest.raises(NotExtractable, match=why):
        module_parts(fn)


def test_an_indented_function_can_be_told():
    assert load(there_and_back(module_parts(makes_function())), "elsewhere")["named"]() == 1


def test_tuples_among_arguments_are_told_by_their_elements():
    values = {"x": 1, "sizes": (2, 3), "nested": ((4,), "five"), "y": None}
    told = {"x": 1, "sizes.0": 2, "sizes.1": 3, "nested.0.0": 4, "nested.1": "five", "y": None}
    assert flat(values) == told and list(flat(values)) == list(told)
    assert grouped(told) == values and list(grouped(told)) == list(values)
