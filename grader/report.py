"""The class report: one HTML file with everything in it, and the tables as CSV and JSON."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.results import ClassResults

_TEMPLATES = Path(__file__).with_name("templates")


def html(results: ClassResults) -> str:
    """The report as one page that needs nothing else. All text of students and of their notebooks is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["points"] = lambda number: f"{number:g}"
    average = sum(s.marks for s in results.students) / max(1, len(results.students))
    return environment.get_template("report.html.j2").render(r=results, average=average)


def write(results: ClassResults, out: Path) -> dict[str, Path]:
    """Write all reports into `out`; returns where each is."""
    out.mkdir(parents=True, exist_ok=True)
    files = {"report": out / "report.html", "csv": out / "grades.csv", "json": out / "grades.json"}
    files["report"].write_text(html(results), encoding="utf-8", errors="replace")
    files["csv"].write_text(results.as_csv(), encoding="utf-8-sig", errors="replace")  # -sig: Excel takes it for UTF-8
    files["json"].write_text(results.as_json(), encoding="utf-8", errors="replace")
    return files
