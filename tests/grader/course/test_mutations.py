"""Small mistakes made by rules: which there are, where they may stand, and that the list of equivalents is alive."""

import ast

import pytest

from grader.course import mutations as course_mutations
from grader.course.mutants import answer, marked_answer, without_markers
from grader.course.mutations import cuda, mutations, triton
from grader.course.mutations.edits import Edit, regions
from labutils import exercises
from labutils.exercises.hunts import is_hunt
from labutils.spec.exercise import KernelExercise

KERNELS = [i for i, e in exercises.all_exercises().items() if isinstance(e, KernelExercise) and not is_hunt(i)]


def made(module, text: str) -> set[str]:
    """Every text that the module's rules make of this one."""
    return {edit.applied(text) for edit in module.edits(text)}


def test_the_rules_reach_every_kernel_exercise():
    counts = {i: len(mutations(i)) for i in KERNELS}
    assert min(counts.values()) >= 10, counts
    assert sum(counts.values()) >= 4000


def test_marked_and_plain_answers_are_the_same_text():
    for exercise_id in KERNELS:
        assert without_markers(marked_answer(exercise_id)) == answer(exercise_id)


def test_every_mutation_of_python_can_be_read_and_differs():
    seen = set()
    for mutation in mutations("12_online_softmax/one_launch_softmax"):
        ast.parse(mutation.text)
        assert mutation.text != answer(mutation.exercise) and mutation.text not in seen
        assert (mutation.line, mutation.becomes) != ("", "")
        seen.add(mutation.text)


@pytest.mark.parametrize(
    "before, after",
    [
        ("x = tl.load(p + i, mask=m, other=0.0)", "x = tl.load(p + i)"),
        ("x = tl.load(p + i, mask=m, other=0.0)", "x = tl.load(p + i, mask=m)"),
        ("x = tl.load(p + i, mask=m, other=0.0)", 'x = tl.load(p + i, mask=m, other=float("-inf"))'),
        ("m = a < n", "m = a <= n"),
        ("m = a < n", "m = a < n + 1"),
        ("m = (a < n) & (b < k)", "m = (a < n)"),
        ("m = tl.full((4,), -1.0, tl.float32)", "m = tl.full((4,), 0.0, tl.float32)"),
        ("acc += x", "acc = x"),
        ("acc = tl.dot(a, b, acc)", "acc = tl.dot(a, b)"),
        ("y = x.to(tl.float32)", "y = x"),
        ("tl.atomic_add(p, x, mask=m)", "tl.store(p, x, mask=m)"),
        ('tl.atomic_add(p, x, sem="release")', 'tl.atomic_add(p, x, sem="relaxed")'),
        ("tl.debug_barrier()", "pass"),
        ("a = r[:, None] * s", "a = r[None, :] * s"),
        ("grid = (triton.cdiv(n, B),)", "grid = ((n // B),)"),
        ("for k in range(0, K, B): f(k)", "for k in range(0, (K) - (B), B): f(k)"),
    ],
)
def test_rules_of_triton(before, after):
    assert after in made(triton, before)


@pytest.mark.parametrize("infinity", ['-float("inf")', 'float("-inf")', "-(float('inf'))"])
def test_an_infinity_is_not_replaced_by_the_same_in_other_words(infinity):
    load = triton.edits(f"x = tl.load(p + i, mask=m, other={infinity})")
    others = {edit.new for edit in load if edit.operator == "other changed"}
    assert others == {f"tl.load(p + i, mask=m, other={value})" for value in ("0.0", "1.0")}
    full = triton.edits(f"m = tl.full((4,), {infinity}, tl.float32)")
    values = {edit.new for edit in full if edit.operator == "initial value"}
    assert values == {f"tl.full((4,), {value}, tl.float32)" for value in ("0.0", "1.0")}
    assert "bound one off" not in {edit.operator for edit in triton.edits(f"m = a == {infinity}")}


def test_a_stride_takes_the_place_of_another_of_the_same_kernel():
    text = "def f(p, stride_a, stride_b, n):\n    return p + n * stride_a\n"
    assert text.replace("n * stride_a", "n * stride_b") in made(triton, text)


def test_nothing_outside_the_region_is_touched():
    text = "x = a + b\n### BEGIN SOLUTION\ny = c + d\n### END SOLUTION\nz = e + f\n"
    assert regions(text) == [(len("x = a + b\n### BEGIN SOLUTION\n"), text.index("### END"))]
    changed = made(triton, text)
    assert changed
    assert all("x = a + b\n" in t and "z = e + f\n" in t for t in changed)


KERNEL = """__global__ void k(const float* x, float* out, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int j = 0; j < m; j += 2) {
        sum += x[i * m + j];
    }
    __syncthreads();
    if (i < n && m > 0) out[i] = (float)sum;
}
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("__syncthreads();", ";"),
        ("i < n &&", "i <= n &&"),
        ("i < n && m > 0", "m > 0"),
        ("i < n && m > 0", "i < n"),
        ("if (i < n && m > 0)", "if (true)"),
        ("sum += x", "sum = x"),
        ("sum = 0.0f", "sum = -INFINITY"),
        ("blockIdx.x *", "blockIdx.y *"),
        ("j += 2", "j += 2 * (2)"),
        ("(float)sum", "sum"),
        ("out[i]", "out[i + 1]"),
        ("i * m + j", "i * n + j"),
    ],
)
def test_rules_of_cuda(old, new):
    assert KERNEL.replace(old, new, 1) in made(cuda, KERNEL)


def test_comments_and_directives_are_left_alone():
    text = '#define TILE 32 + 1\n__global__ void k(int n) {\n    // n + 1 < 2\n    printf("a + b");\n}\n'
    assert not made(cuda, text)


def test_equivalents_are_real_mutations():
    units = {i.split("/")[0] for i in KERNELS}
    for unit in sorted(units):
        if course_mutations.equivalents(unit):
            assert list(course_mutations.stale(unit, [i for i in KERNELS if i.startswith(unit + "/")])) == []


def test_a_stale_entry_is_told(monkeypatch):
    gone = {("06_elementwise_triton/vector_add", "x = 1", "x = 2"): "Nothing."}
    monkeypatch.setattr(course_mutations, "equivalents", lambda unit: gone)
    found = list(course_mutations.stale("06_elementwise_triton", ["06_elementwise_triton/vector_add"]))
    assert len(found) == 1 and "vector_add" in found[0]


def test_several_mutations_of_a_line_share_a_reason(monkeypatch, tmp_path):
    path = tmp_path / "99_unit" / "mutants" / "equivalent.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[[one]]\nline = "a"\nbecomes = ["b", "c"]\nwhy = "Why."\n')
    monkeypatch.setattr(course_mutations, "SOURCES", tmp_path)
    found = course_mutations.equivalents("99_unit")
    assert found == {("99_unit/one", "a", "b"): "Why.", ("99_unit/one", "a", "c"): "Why."}


def test_a_mutation_knows_its_line():
    text = answer("06_elementwise_triton/vector_add").split("\n")
    for mutation in mutations("06_elementwise_triton/vector_add"):
        assert text[mutation.number - 1].strip() in mutation.line


def test_an_edit_replaces_its_span():
    assert Edit("", 2, 4, "XYZ").applied("abcdef") == "abXYZef"
