"""One run over a class: grade, regrade, verify."""
