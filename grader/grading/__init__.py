"""One run over a class: grade, grade again, verify."""
