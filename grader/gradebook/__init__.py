"""nbgrader's gradebook, its pages, and our journal of what was graded."""
