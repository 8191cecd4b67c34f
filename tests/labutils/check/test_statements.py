"""Reading the learner's text around a line."""

import pytest

from labutils.check import statements

TRITON = """\
def kernel(x_ptr, n, BLOCK):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs <= n
    x = tl.load(
        x_ptr + offs,
        mask=mask)  # a comment
""".splitlines(keepends=True)

CUDA = """
__global__ void k(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i + 1];
    out[0] += x[2];
}"""


def test_a_statement_of_several_lines():
    text = statements.statement(TRITON, 4)
    assert text == "x = tl.load( x_ptr + offs, mask=mask)"
    assert statements.memory_call(text) == statements.MemoryCall("x_ptr + offs", "mask")


def test_where_an_address_and_a_mask_come_from():
    assert statements.origin(TRITON, "x_ptr + offs", 4).number == 2
    assert statements.definition(TRITON, "mask", 4).text == "mask = offs <= n"
    assert statements.definition(TRITON, "nothing", 4) is None


def test_the_guard_of_a_line():
    assert statements.guard(CUDA, 5) == statements.Line(4, "if (i < n)")
    assert statements.guard("\n__global__ void k(float *x) {\n    x[0] = 1;\n}", 3) is None


def test_lines_that_use_an_array():
    assert [u.number for u in statements.uses(CUDA, "x")] == [5, 6]
    assert [u.number for u in statements.uses(CUDA, "out", stored=True)] == [5, 6]


def test_what_a_condition_bounds():
    assert statements.compared("if (row < M && n > column)") == ({"row", "column"}, {"M", "n"}) or (
        "row" in statements.compared("if (row < M && n > column)")[0]
    )
    assert statements.compared("x << 2") == (set(), set())
    assert statements.compared("if (half == 0) out[i] = f(x[i]);") == ({"half"}, set())
    assert statements.compared("tile[t] = i < n ? x[j] : 0.0f;") == ({"i"}, {"n"})


@pytest.mark.parametrize("n, left", [(70, [6]), (64, [])])
def test_a_loop_that_rounds_down(n, left):
    source = "{\n  int chunks = N / 32;\n  for (int k = 0; k < chunks; k++) {\n    out[k] = 0;\n  }\n}"
    found = statements.rounded_down(source, 4, {"N": n})
    assert [rest for *_, rest in found] == left and all(line.number == 2 for line, *_ in found)


def test_lines_that_can_overflow_are_named_once():
    ((line, why),) = statements.risky([(10, "m = x\ne = tl.exp(m)  # exp\ny = m * 2\n")])
    assert line.number == 11 and "above 88" in why


@pytest.mark.parametrize(
    "text, shown",
    [
        ("half = n // 2  # rounded down", "half = n // 2"),
        ("out[i] = x[i];  // the result", "out[i] = x[i];"),
        ("if (i < n) { // in bounds", "if (i < n) {"),
    ],
)
def test_a_comment_is_left_out_and_a_division_is_not(text, shown):
    assert statements.shortened(text) == shown


@pytest.mark.parametrize(
    "line",
    [
        "int blocks = n / size;",
        "__device__ float exp(float x) {",
        "for (int s = width / step; s > 0; s /= 2) sum += tile[t + s];",
        "x = tile[t / lanes];",
        "m = n / BLOCK",
    ],
)
def test_what_computes_no_float_makes_no_nan(line):
    assert statements.risky([(1, line)]) == []


def test_lines_that_name_a_type():
    found = statements.naming([(5, "x = tl.load(p)\ny = x.to(tl.float16)\n# float16\n")], r"\bfloat16\b")
    assert [x.number for x in found] == [6]


TWO_FUNCTIONS = """\
def tile_of(pid, N):
    return pid // N, pid % N


def load_row(x_ptr, offs):
    return tl.load(x_ptr + offs)


def kernel(k_ptr, q_ptr, N):
    pid_m, pid_n = tile_of(pid, N)
    offs_m = pid_m * 16
    ptrs = k_ptr + offs_m
    for k in range(0, N):
        x = tl.load(ptrs)
        ptrs += 16
    load_row(q_ptr, offs_m)
    load_row(k_ptr + 5, offs_m)
""".splitlines(keepends=True)


def test_names_of_a_tuple_and_of_a_loop_have_definitions():
    assert statements.definition(TWO_FUNCTIONS, "pid_n", 14).number == 10
    assert statements.definition(TWO_FUNCTIONS, "k", 14).number == 13


def test_a_pointer_moves_where_it_is_added_to():
    assert statements.moved(TWO_FUNCTIONS, "ptrs", 14).number == 15
    assert statements.moved(TWO_FUNCTIONS, "offs_m", 14) is None
    assert statements.moved(TWO_FUNCTIONS, "ptrs", 5) is None


def test_an_address_leads_back_to_the_helper_that_computes_it():
    assert statements.helper_call(TWO_FUNCTIONS, "ptrs", 14).number == 10
    assert statements.helper_call(TWO_FUNCTIONS, "k", 14) is None


def test_a_parameter_leads_to_the_call_that_passes_the_array():
    assert statements.passed_as(TWO_FUNCTIONS, "x_ptr", 6, "k").number == 17
    assert statements.passed_as(TWO_FUNCTIONS, "k_ptr", 12, "k") is None


LOOPS = """\
__global__ void k(float *x, int n) {
    if (n > 5) return;
    for (int i = 0; i < n; i++) {
        x[i] = 0;
        __syncthreads();
        for (int j = 0; j < n; j++) x[j] += 1;
    }
    x[0] = 1;
}"""


def test_barriers_between_lines_of_one_loop():
    assert statements.common_loop(LOOPS, 4, 6) == (3, 7)
    assert statements.common_loop(LOOPS, 4, 8) is None
    assert [b.number for b in statements.barriers(LOOPS, 4, 6)] == [5]
    assert statements.barriers(LOOPS, 5, 8) == []


def test_all_conditions_above_a_line():
    assert [c.number for c in statements.conditions(LOOPS, 4)] == [3, 2]


@pytest.mark.parametrize("name", ["exp", "__expf", "exp2f", "tl.exp", "fast_exp2"])
def test_exponentials_of_any_name_can_be_too_large(name):
    ((line, why),) = statements.risky([(7, f"float p = s;\nfloat q = {name}(s - m);")])
    assert line.number == 8 and "exp of a number above 88" in why
    assert statements.risky([(7, "float q = expected(s);")]) == []


STRIDES = """\
def kernel(q_ptr, k_ptr, v_ptr, acc_ptr, dx_ptr, stride_kn, stride_vn, stride_dm, stride_m):
    k_ptrs = k_ptr + offs[:, None] * stride_kn
    v_ptrs = v_ptr + offs[:, None] * stride_vn
    for start in range(0, N, BLOCK):
        v = tl.load(v_ptrs)
        k = tl.load(k_ptrs)
        v_ptrs += BLOCK * stride_kn
        k_ptrs += BLOCK * stride_kn
    acc = tl.load(acc_ptr + row * stride_dm)
    dx = tl.load(dx_ptr + row * stride_dm)
    q = tl.load(q_ptr + row * stride_m)
""".splitlines()


@pytest.mark.parametrize(
    "pointer, number, wanted",
    [
        ("v_ptrs", 5, (7, "stride_kn", "k")),
        ("k_ptrs", 6, None),
        ("acc_ptr + row * stride_dm", 9, (9, "stride_dm", "dx")),
        ("dx_ptr + row * stride_dm", 10, None),
        ("q_ptr + row * stride_m", 11, None),
    ],
)
def test_a_stride_of_another_array_is_seen_by_its_name(pointer, number, wanted):
    found = statements.foreign_stride(STRIDES, pointer, number)
    assert (found and (found[0].number, *found[1:])) == wanted


def test_a_loop_of_python_and_what_bounds_it():
    texts = [(11, "def k():\n    end = N\n    for s in range(0, end, BLOCK):\n        x = load(s)\n    y = 1\n")]
    loop = statements.python_loop(texts, 14)
    assert str(loop) == "line 13: `for s in range(0, end, BLOCK):`" and statements.python_loop(texts, 15) is None
    assert [x.number for x in statements.bounds_of(texts, loop)] == [12]
