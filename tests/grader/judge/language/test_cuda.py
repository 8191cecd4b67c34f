"""Every reading of CUDA C++ takes time proportional to the text, whatever the text."""

import contextlib
import time

import pytest

from grader.judge import language
from labutils.backends.simt import errors, rules, source
from labutils.cuda.text import blank
from tests.clock import cpu_seconds

SIZE = 1 << 20
SECONDS = 60
"""CPU time of all readings of one text together; a quadratic one would take hours."""

WORST = {
    "open comments": "/*",
    "quotes in an open string": '"\\',
    "characters": "' ",
    "backslashes": "\\",
    "backslashes and blanks": "\\ ",
    "continued lines": "a\\\n",
    "digit separators": "1'",
    "opening brackets": "({[",
    "closing brackets": ")]}",
    "function pointers": "f(*g)(",
    "attributes": "[[",
    "kernels in kernels": "__global__ k(",
    "kernels without a name": "__global__ ",
    "attributes of kernels": "__launch_bounds__(",
    "shared arrays": "__shared__ ",
    "dynamic arrays": "extern __shared__ float a[];",
    "constants": "__constant__ a ",
    "definitions": "#define a\n",
    "conditions": "#if a\n",
    "names": "a",
    "names with underscores": "__2half",
    "namespaces": "namespace cuda::",
    "specifiers": "long ",
    "templates": "a<",
    "sizes": "sizeof(",
    "digits": "1",
    "exponents": "1.5e+",
    "functions": "a(){}",
    "zero bytes": "\0",
    "includes": "#include <mma.h>\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_a_megabyte_of_the_worst_is_read_in_linear_time(name):
    text = WORST[name] * (SIZE // len(WORST[name]))
    begin = time.process_time()
    language.problem({"language": "cuda", "source": text, "name": "k", "options": []})
    with contextlib.suppress(errors.CompileError):
        rules.check(text)
    source.prepare(text)
    blank(text)
    assert time.process_time() - begin < SECONDS


@pytest.mark.parametrize("name", WORST)
def test_four_times_the_text_takes_about_four_times_as_long(name):
    """The same at sizes that every run of the tests can afford."""
    taken = []
    for size in (1 << 13, 1 << 15):
        text = WORST[name] * (size // len(WORST[name]))

        def read(text=text):
            language.problem({"language": "cuda", "source": text, "name": "k", "options": []})
            source.prepare(text)

        taken.append(cpu_seconds(read))
    assert taken[1] < 9 * taken[0] + 0.2


def test_what_only_a_gpu_can_run_is_told_as_that():
    text = '__global__ void k(float* x) {\n  asm("mov.f32 %0, 0f00000000;" : "=f"(x[0]));\n}'
    spec = {"language": "cuda", "source": text, "name": "k", "options": []}
    assert language.needs_gpu(spec) and language.problem(spec) is None
    plain = spec | {"source": text.replace("asm", "// asm")}
    assert not language.needs_gpu(plain) and language.problem(plain) is None
