"""Getting submissions in: what a learning platform exports, as files that each belong to a learner."""
