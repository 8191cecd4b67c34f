# tries: installs a transformer that rewrites every later cell to full marks
# stopped by: answers are taken as text from the sanitized notebook; nothing that ran counts
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = """
import ast
class Full(ast.NodeTransformer):
    def visit_Call(self, node):
        return ast.Constant(1.0) if "check" in ast.unparse(node.func) else node
get_ipython().ast_transformers.append(Full())
"""
    notebook.cells.insert(1, new_code_cell(text))
