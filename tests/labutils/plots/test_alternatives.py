"""Every picture of labutils has a text for readers who do not see it."""

import ast
from pathlib import Path

import labutils

FILES = sorted(Path(labutils.__file__).parent.rglob("*.py"))


def functions(test) -> list[str]:
    """Functions of labutils in which `test` holds for a node, as file:name."""
    found = []
    for path in FILES:
        for f in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(f, ast.FunctionDef) and any(test(node) for node in ast.walk(f)):
                found.append(f"{path.relative_to(FILES[0].parents[0])}:{f.name}")
    return found


def draws(node) -> bool:
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "figure"
        and node.args
    )


def describes(node) -> bool:
    return isinstance(node, ast.Assign) and any(getattr(t, "attr", "") == "alt" for t in node.targets)


def test_each_function_that_makes_a_picture_describes_it():
    made, described = functions(draws), set(functions(describes))
    assert len(made) > 15
    assert [name for name in made if name not in described] == []
