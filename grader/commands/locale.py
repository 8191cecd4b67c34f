"""`python -m grader locale`: the catalogs of other languages (docs/translating.md).

python -m grader locale                               put new messages into the catalogs; print the shares translated
python -m grader locale export UNIT > UNIT.json       what is left to translate, as a list for any editor
python -m grader locale import UNIT UNIT.json         put translations into the catalog; reports what breaks a rule
python -m grader locale check                         report every translation that breaks a rule
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grader.course.locales import catalogs
from grader.course.locales.catalogs import Edition
from grader.course.locales.messages import catalogs as catalog_names
from grader.course.locales.messages import messages, shares_of
from grader.course.locales.rules import violations
from grader.course.sources import ROOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = __doc__
    parser.add_argument("action", nargs="?", default="update", choices=["update", "export", "import", "check"])
    parser.add_argument("catalog", nargs="?", help='a unit, or "docs", "lab", "grader"')
    parser.add_argument("file", nargs="?", type=Path, help="what `export` printed, with translations")
    parser.add_argument("--language", default="zh_CN", help="the folder in locale/; default: zh_CN")
    parser.add_argument("--all", action="store_true", help="export: also what is translated")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the course; default: this repository")


def main(args: argparse.Namespace) -> int:
    edition = Edition(args.root / catalogs.FOLDER / args.language)
    if args.action in ("export", "import") and args.catalog not in (known := catalog_names(args.root)):
        print(f"There is no catalog {args.catalog!r}; there are {', '.join(known)}.")
        return 2
    if args.action == "export":
        print(exported(args.root, edition, args.catalog, args.all))
        return 0
    if args.action == "import":
        problems = imported(edition, args.catalog, args.file.read_text(encoding="utf-8"))
    elif args.action == "check":
        problems = wrong(args.root, edition)
    else:
        problems = []
        for name, (done, count) in updated(args.root, edition).items():
            print(f"{name:<32}{done:>5} of {count:>4}  {100 * done / count if count else 100:5.1f} %")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def updated(root: Path, edition: Edition) -> dict[str, tuple[int, int]]:
    """Put the messages of the sources into the catalogs; one text is translated once. Returns `shares`."""
    known = {name: messages(root, name) for name in catalog_names(root)}
    for name, found in known.items():
        catalogs.update(edition.path(name), found, edition.language)
    everywhere = {text: new for name in known for text, new in edition.translations(name).items()}
    for name, found in known.items():
        left = {m.text for m in found} - edition.translations(name).keys()
        if same := {text: everywhere[text] for text in left & everywhere.keys()}:
            catalogs.fill(edition.path(name), same, edition.language)
    return shares_of(known, edition)


def exported(root: Path, edition: Edition, catalog: str, everything: bool = False) -> str:
    """What is left to translate: a list of {"n", "en", "zh"}, with "was" where an earlier text had a translation."""
    known = {entry.text: entry for entry in catalogs.entries(edition.path(catalog))}
    rows = []
    for n, message in enumerate(messages(root, catalog), 1):
        entry = known.get(message.text)
        row = {"n": n, "about": message.place, "en": message.text, edition.name: entry.translation if entry else ""}
        if entry and entry.before:
            row["was"] = entry.before
        if everything or not row[edition.name]:
            rows.append(row)
    return json.dumps(rows, ensure_ascii=False, indent=1)


def imported(edition: Edition, catalog: str, text: str) -> list[str]:
    """Put translations into a catalog: those that keep the rules. Returns what is wrong, a sentence each."""
    known = {entry.text for entry in catalogs.entries(edition.path(catalog))}
    found, problems = {}, []
    for row in json.loads(text):
        english, translation = row["en"], row.get(edition.name, "")
        place = f"{catalog}, {row['n']} ({english.split(chr(10))[0][:50]})"
        if not translation:
            continue
        if english not in known:
            problems.append(f"{place}: the catalog has no such message; run `python -m grader locale` and export again")
        elif broken := violations(english, translation):
            problems += [f"{place}: {what}" for what in broken]
        else:
            found[english] = translation
    catalogs.fill(edition.path(catalog), found, edition.language)
    return problems


def wrong(root: Path, edition: Edition) -> list[str]:
    """Each translation of the edition that breaks a rule, in sentences."""
    return [
        f"{edition.path(name).name}: {english.split(chr(10))[0][:60]!r} {what}"
        for name in catalog_names(root)
        for english, translation in edition.translations(name).items()
        for what in violations(english, translation)
    ]
