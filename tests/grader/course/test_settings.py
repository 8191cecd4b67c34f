"""A course's own file: its address is in the notebooks, and a wrong line is named."""

import jupytext
import pytest

from grader.course.cells import expand
from grader.course.regions import BuildError
from grader.course.settings import CourseSettings, checked, nbgrader_config, read_settings


def first_cells(settings):
    notebook = jupytext.reads('# %% [markdown]\n# # Title\n\n# %% cell="setup"\n', fmt="py:percent")
    expand(notebook, "06_unit", {}.__getitem__, settings)
    return [cell.source for cell in notebook.cells]


def test_the_repository_is_in_the_first_cells_and_nowhere_else():
    title, setup = first_cells(CourseSettings(repository="https://github.com/uni/gpu", branch="term"))
    assert "colab.research.google.com/github/uni/gpu/blob/term/notebooks/06_unit/06_unit.ipynb" in title
    assert "https://github.com/uni/gpu/blob/term/docs/glossary.md" in title
    assert '%pip install "labutils @ git+https://github.com/uni/gpu@term#subdirectory=labutils"' in setup
    assert "gpu-kernel-lab" not in title + setup


def test_colab_opens_github_only_and_a_wheel_replaces_the_repository():
    settings = CourseSettings(
        repository="https://git.uni.example/gpu", wheel="https://uni.example/labutils-1-py3-none-any.whl"
    )
    title, setup = first_cells(settings)
    assert "Open in Colab" not in title and "Glossary" in title
    assert f'%pip install "{settings.wheel}"' in setup and "git+" not in setup


def test_a_file_is_read_as_it_was_written(tmp_path):
    written = checked(
        {
            "course_id": "gpu-1",
            "repository": "https://github.com/uni/gpu.git/",
            "scale": {"A": 90, "F": 0},
            "weights": {"06": 2},
            "walkthroughs": ["00_start"],
        }
    )
    (tmp_path / "course.toml").write_text(written.as_toml())
    assert read_settings(tmp_path) == written and written.repository == "https://github.com/uni/gpu"
    assert read_settings(tmp_path / "none") == CourseSettings()


@pytest.mark.parametrize(
    "text",
    [
        'repo = "x"',
        'repository = "uni/gpu"',
        'wheel = "a.whl"',
        "course_id = 3",
        'course_id = "../x"',
        "[scale]\nA = -1",
        'walkthroughs = "all"',
        "walkthroughs = [1]",
        "[",
        'branch = "a\\" b"',
    ],
)
def test_a_wrong_line_is_named(tmp_path, text):
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(BuildError, match="course.toml"):
        read_settings(tmp_path)


def test_a_percentage_has_the_grade_that_it_reaches():
    scale = CourseSettings(scale={"B": 75, "A": 90, "F": 0})
    assert [scale.grade(p) for p in (90, 89.99, 75, 0)] == ["A", "B", "B", "F"]
    assert CourseSettings().grade(99) == "" and CourseSettings(scale={"A": 90}).grade(89) == ""


def test_nbgraders_configuration_is_python_that_sets_the_course():
    class Config:
        def __getattr__(self, name):
            return self.__dict__.setdefault(name, Config())

    config = Config()
    text = nbgrader_config(CourseSettings("gpu-1", exchange='/srv/"x"'), "notebooks")
    exec(text, {"get_config": lambda: config, "__file__": "/course/nbgrader_config.py"})
    course = config.CourseDirectory
    assert (course.course_id, course.root, course.release_directory) == ("gpu-1", "/course", "notebooks")
    assert config.Exchange.root == '/srv/"x"'
