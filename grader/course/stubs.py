"""What stands in a released notebook where the answer stood: a stub that fits the place.

nbgrader's own stub is a `raise`: inside a kernel Triton rejects it with a message about syntax trees, and it
is no C++ at all. Ours says what is to be written, about how long it is, and fails in a way that is reported.
"""

import ast
import re

from grader.course.cells import is_cuda, python_text
from grader.course.nbgrader_config import ClearSolutions, GenerateAssignment
from grader.course.regions import SOLUTION, BuildError, Region, find_regions
from labutils.spec.exercise import NOT_WRITTEN

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NEW_SCOPES = (
    *_FUNCTIONS,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class KernelStubs(ClearSolutions):
    """nbgrader's ClearSolutions with stubs that fit kernels, and hunts with their bugs; the rest is nbgrader's own."""

    def _replace_solution_region(self, cell, language: str) -> bool:
        if cell.cell_type != "code":
            return super()._replace_solution_region(cell, language)
        before = cell.source
        if cell.metadata.pop("hunt", None):
            cell.source = cell.metadata.pop("planted")
            return True
        cell.source = stub_source(before, cell.metadata.get("nbgrader", {}).get("grade_id", "the answer"))
        return cell.source != before


def release_preprocessors() -> list[type]:
    """nbgrader's steps from source to release, with our stubs in place of its own."""
    stock = GenerateAssignment.class_traits()["preprocessors"].default()
    return [KernelStubs if step is ClearSolutions else step for step in stock]


def stub_source(source: str, cell_id: str) -> str:
    """A code cell's text with each solution region replaced by a stub.

    `cell_id` names what is missing where no function does. Raises BuildError for a region that no stub fits.
    """
    regions = [region for region in find_regions(source) if region.kind == SOLUTION]
    stubs = (_cuda_stubs if is_cuda(source) else _python_stubs)(source, regions, cell_id)
    lines = source.split("\n")
    for region, stub in reversed(list(zip(regions, stubs, strict=True))):
        # The answer's own indentation is right wherever the author put the marker.
        lines[region.begin : region.end + 1] = [_indentation(region) + line for line in stub]
    return "\n".join(lines)


def _indentation(region: Region) -> str:
    written = (line for line in region.lines if line.strip() and not line.lstrip().startswith(("# ", "//")))
    first = next(written, "")
    return re.match(r"\s*", first).group()


def _your_code(region: Region, comment: str) -> str:
    count = len(region.code_lines(comment))
    return f"{comment} YOUR CODE HERE (about {count} line{'s' * (count != 1)})"


def _python_stubs(source: str, regions: list[Region], cell_id: str) -> list[list[str]]:
    text = python_text(source)
    if text is None:
        raise BuildError("a solution cell holds Python or, after %%cuda, CUDA C++")
    try:
        tree = ast.parse(text)
    except SyntaxError as problem:
        raise BuildError(f"the cell does not compile: {problem}") from None
    # Line numbers are those of the text that was parsed: magics may have changed the number of lines.
    parsed = [region for region in find_regions(text) if region.kind == SOLUTION]
    return [_python_stub(tree, region, cell_id) for region in parsed]


def _python_stub(tree: ast.Module, region: Region, cell_id: str) -> list[str]:
    answer, scope = _answer(tree, region)
    if not answer:
        raise BuildError(f"the solution region on line {region.begin + 1} must hold whole statements")
    comment = _your_code(region, "#")
    functions = [node for node in scope if isinstance(node, _FUNCTIONS)]
    if any(_is_triton(function) for function in functions):
        return [comment, f'tl.static_assert(False, "{functions[-1].name} {NOT_WRITTEN}")']
    if functions:
        return [comment, f'raise NotImplementedError("{functions[-1].name} {NOT_WRITTEN}")']
    names = list(dict.fromkeys(name for statement in answer for name in _assigned(statement)))
    if names:
        return [comment, *(f"{name} = None" for name in names)]
    return [comment, f'raise NotImplementedError("{cell_id} {NOT_WRITTEN}")']


def _answer(tree: ast.Module, region: Region) -> tuple[list[ast.stmt], list[ast.AST]]:
    """The outermost statements inside a region, and the nodes around them from the module inwards."""

    def inside(node) -> bool:
        # The parser counts lines from 1, regions from 0.
        return isinstance(node, ast.stmt) and region.begin < node.lineno - 1 and node.end_lineno - 1 < region.end

    def search(node, around):
        children = list(ast.iter_child_nodes(node))
        if answer := [child for child in children if inside(child)]:
            return answer, [*around, node]
        for child in children:
            if found := search(child, [*around, node]):
                return found
        return None

    return search(tree, []) or ([], [])


def _is_triton(function) -> bool:
    """Whether Triton compiles the function: `@triton.jit`, alone or below `@triton.autotune` and the like."""
    targets = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(ast.unparse(target) in ("triton.jit", "jit") for target in targets)


def _assigned(node: ast.AST):
    """Names that a statement binds in its own scope: assigned, imported, or defined."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, _NEW_SCOPES):
        if hasattr(node, "name"):
            yield node.name
    else:
        for child in ast.iter_child_nodes(node):
            yield from _assigned(child)


def _cuda_stubs(source: str, regions: list[Region], cell_id: str) -> list[list[str]]:
    stubs = []
    for region in regions:
        before = "\n".join(source.split("\n")[: region.begin])
        # A region outside any function holds a whole one, which then gives the name.
        name = _open_function(before) or _function_name("\n".join(region.lines)) or cell_id
        # A static_assert may stand in a function, a class or a file, and every C++ compiler reports it.
        stubs.append([_your_code(region, "//"), f'static_assert(false, "{name} {NOT_WRITTEN}");'])
    return stubs


def _open_function(text: str) -> str | None:
    """Name of the C++ function whose body is still open at the end of the text."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", " ", text, flags=re.DOTALL)
    heads, start = [], 0
    for position, character in enumerate(text):
        if character == "{":
            heads.append(text[start:position])
        elif character == "}" and heads:
            heads.pop()
        if character in "{};":
            start = position + 1
    return next(filter(None, map(_function_name, heads)), None)


def _function_name(head: str) -> str | None:
    """Name of the first function in the text: a word before a parenthesis that is no attribute."""
    calls = re.findall(r"([A-Za-z_]\w*)\s*\(", head)
    return next((name for name in calls if name not in ("__launch_bounds__", "__align__", "alignas")), None)
