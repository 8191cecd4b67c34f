"""What runs in the notebooks' sandbox. Copied into it, and never imported by the grader."""
