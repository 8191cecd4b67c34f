"""The documentation site: the links of its pages, and their list. `make site` builds it, with packages of its own."""

import tomllib

import pytest

from grader.course.settings import CourseSettings
from tools.site import build
from tools.site.links import broken, external

SETTINGS = CourseSettings(repository="https://github.com/someone/course", branch="v1.2.3")


def test_links_lead_to_pages_pictures_and_the_repository():
    text = (
        "[a](../README.md#paths) [b](judging.md) [c](pictures/unit.png) [d](../notebooks/00_start/00_start.ipynb) "
        "[e](https://example.org) [f](#here)"
    )
    assert build.relinked(text, "docs/instructors.md", SETTINGS) == (
        "[a](index.md#paths) [b](judging.md) [c](pictures/unit.png) "
        "[d](https://github.com/someone/course/blob/v1.2.3/notebooks/00_start/00_start.ipynb) "
        "[e](https://example.org) [f](#here)"
    )


def test_code_is_no_link():
    text = "`smem[i](none)`\n\n    kernel[grid](x)\n\n```\nkernel[grid](x)\n```\n"
    assert build.relinked(text, "README.md", SETTINGS) == text


def test_a_link_to_a_missing_file_is_named():
    with pytest.raises(build.DeadLinks, match=r"docs/start\.md: missing\.md#x"):
        build.relinked("[a](missing.md#x)", "docs/start.md", SETTINGS)


def test_every_page_of_the_repository_has_links_to_files_that_exist(tmp_path):
    build.write_pages(tmp_path, SETTINGS)
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.md")} == {*build.PAGES.values(), *build.API}


def test_pages_name_the_courses_own_repository(tmp_path):
    build.write_pages(tmp_path, SETTINGS)
    text = (tmp_path / "start.md").read_text()
    assert f"git clone {SETTINGS.repository}" in text and CourseSettings().repository not in text


def test_the_menu_has_every_page_once():
    project = tomllib.loads(build.configuration(SETTINGS))["project"]
    pages = [page for section in project["nav"] for chapter in section.values() for page in chapter]
    assert sorted(pages) == sorted([*build.PAGES.values(), *build.API])
    assert project["repo_url"] == SETTINGS.repository and project["repo_name"] == "someone/course"


def test_every_document_is_a_page():
    assert {f"docs/{path.name}" for path in (build.ROOT / "docs").glob("*.md")} < set(build.PAGES)


def test_links_between_built_pages_are_followed_to_the_anchor(tmp_path):
    site = tmp_path / "html"
    (site / "b").mkdir(parents=True)
    (tmp_path / "outside.md").touch()
    (site / "index.html").write_text(
        '<a href="b/">1</a> <a href="b/#there">2</a> <a href="#up">3</a> <img src="b/x.png"> <a href="https://x.org/">4</a>'
        '<a href="../outside.md">5</a>'
    )
    (site / "b" / "index.html").write_text('<h1 id="there"></h1> <a href="../#up">6</a> <p id="up">')
    dead = ["index.html: #up", "index.html: b/x.png", "index.html: ../outside.md"]
    assert broken(site) == ["b/index.html: ../#up", *dead]
    assert external(site) == ["https://x.org/"]
