"""How a class is graded. Imports nothing heavy: the command line makes it before the rest is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader import engines

if TYPE_CHECKING:
    from grader.execute.notebook import NotebookLimits
    from grader.grading.marking import Marker
    from grader.intake.roster import Entry
    from grader.marks.late import Rules


@dataclass(frozen=True)
class GradeOptions:
    """How a class is graded; the defaults are those of `python -m grader grade`."""

    seed: int | None = None
    """Draws the hidden cases. None: the seed of the run in the same folder, else a new secret one."""
    workers: int | None = None
    """Submissions graded at a time. None: as many as this machine has cores, up to `engines.workers_here`, or as the
    cluster behind `scheduler` has."""
    limits: NotebookLimits | None = None
    """Seconds for a notebook and for each of its cells. None: `FOR_FEEDBACK`, or with a `marker` the full limits."""
    marker: Marker | None = None
    """Turns an executed check cell into points, for a course that trusts what its students' notebooks show. None: the
    judge gives the points."""
    resume: bool = False
    """Continue a run that ended early. A finished one needs no word: what is new or changed is graded."""
    fresh: bool = False
    """Begin a new run, whatever the output folder holds."""
    accept_changes: bool = False
    """Go on with a run although the course's code or its packages changed since it began."""
    rules: Rules | None = None
    """What late submissions lose. None: the rules of the run in the same folder, else nothing."""
    roster: tuple[Entry, ...] = ()
    """Who takes the course. Those who submitted nothing get 0 points."""
    student: str | None = None
    """All files are this student's, whatever their names. None: names say whose they are."""
    executor: str = "local"
    """Where grading runs: one of `engines.NAMES`."""
    gpus: int | None = None
    """How many of this machine's GPUs are used. None: all."""
    scheduler: str | None = None
    """dask: the address of a scheduler that is running already. None: one is started here."""
    encrypted: bool = True
    """dask, slurm: what leaves this machine goes by TLS."""
    slurm: tuple[str, ...] = ()
    """slurm, array: options for sbatch, such as `--time=1:00:00`."""
    work: str = engines.WORK
    """The module whose `do(job)` grades one submission."""

    def open_engine(self, out) -> engines.Engine:
        """Start the engine that these options ask for; files of its own go into the folder `out`. Raises NoEngine."""
        return engines.open_engine(
            self.executor,
            engines.workers_for(self.executor, self.workers, self.gpus, self.scheduler),
            out=out,
            work=self.work,
            gpus=self.gpus,
            scheduler=self.scheduler,
            encrypted=self.encrypted,
            slurm=list(self.slurm),
        )
