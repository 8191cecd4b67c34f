"""What a learner asks for beside the check: what a kernel does and what to change next, a hint, where they stand."""
