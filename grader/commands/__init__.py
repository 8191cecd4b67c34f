"""What `python -m grader VERB` runs for the larger verbs: arguments, progress, exit status."""
