"""From verdicts to numbers: marks, results as data, and what lateness costs."""
