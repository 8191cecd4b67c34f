"""Stock nbgrader, pointed at a course folder.

nbgrader is imported through this module only: one place for what must happen before its import.
"""

import functools
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

from traitlets.config import Config

# jsonschema loads this grammar, which takes two seconds, to check a format that no notebook uses.
sys.modules.setdefault("rfc3987_syntax", None)

# nbgrader's own use of its database, at each submission that it autogrades.
warnings.filterwarnings("ignore", message="Object of type <Submitted")

import nbgrader.api  # noqa: E402
from alembic.script import ScriptDirectory  # noqa: E402
from jsonschema.exceptions import best_match  # noqa: E402
from jsonschema.validators import validator_for  # noqa: E402
from nbgrader.api import MissingEntry  # noqa: E402
from nbgrader.apps import NbGraderAPI  # noqa: E402
from nbgrader.converters import Autograde, GenerateAssignment  # noqa: E402
from nbgrader.dbutil import ALEMBIC_DIR  # noqa: E402
from nbgrader.nbgraderformat import common  # noqa: E402
from nbgrader.preprocessors import ClearSolutions, Execute, NbGraderPreprocessor  # noqa: E402
from nbgrader.utils import compute_checksum  # noqa: E402

# Every step of nbgrader opens the grade book anew, and SQLAlchemy compiles its statements anew for each engine: a third
# of the time that recording takes. With one engine for each grade book they are compiled once, and tables looked for.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)
nbgrader.api.Base.metadata.create_all = functools.cache(nbgrader.api.Base.metadata.create_all)

# For a new grade book nbgrader asks for the newest revision in a process of its own, by a command that is not on the
# path of an environment nobody activated.
nbgrader.api.get_alembic_version = ScriptDirectory(ALEMBIC_DIR).get_current_head


def _validate(instance, schema: dict) -> None:
    """jsonschema.validate, but for the check of the schema itself: it is nbgrader's own, and that takes most of the
    time, at each cell of each step."""
    if error := best_match(validator_for(schema)(schema).iter_errors(instance)):
        raise error


common.jsonschema = SimpleNamespace(validate=_validate)

__all__ = [
    "Autograde",
    "ClearSolutions",
    "Execute",
    "GenerateAssignment",
    "MissingEntry",
    "NbGraderAPI",
    "NbGraderPreprocessor",
    "compute_checksum",
    "course_config",
]


def course_config(root: Path) -> Config:
    """nbgrader's configuration for the course in `root`, where its folders and its gradebook lie.

    It logs to no file; what it logs while it runs comes back in the result of each `NbGraderAPI` call.
    """
    root = Path(root).resolve()  # nbgrader changes the working folder while it runs
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.db_url = f"sqlite:///{root}/gradebook.db"
    config.NbGrader.logfile = ""
    # nbgrader complains of an exchange that it cannot write to, also where none is used.
    config.Exchange.root = str(root)
    return config
