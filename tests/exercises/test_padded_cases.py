"""Padded rows: where a launcher takes strides, each array has a case in which it has more than one row of each kind."""

import pytest

from labutils.exercises import all_exercises
from labutils.spec.exercise import Array, KernelExercise

PADDED = {
    e.id: padded
    for e in all_exercises().values()
    if isinstance(e, KernelExercise) and (padded := [c for c in e.cases if c.layout == "padded"])
}


@pytest.mark.parametrize("exercise_id", PADDED)
def test_every_axis_but_the_last_is_longer_than_one_in_a_padded_case(exercise_id):
    """Otherwise its stride is multiplied by 0 alone, and one that is computed from the length passes."""
    for name, argument in all_exercises()[exercise_id].arguments.items():
        if isinstance(argument, Array):
            shapes = [argument.shape(case.sizes) for case in PADDED[exercise_id]]
            single = [d for k, d in enumerate(argument.dims[:-1]) if all(shape[k] < 2 for shape in shapes)]
            assert not single, f"{name}: {single}"
