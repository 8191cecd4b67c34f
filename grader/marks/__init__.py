"""From verdicts to numbers: points, results as data, and late penalties."""
