"""Programs that run inside the sandbox. They import labutils without its exercises, and nothing else of the grader."""
