"""Pages and tables of a graded class."""
