"""Which language messages are shown in: the one of `lab.setup(language=…)`, of $GPULAB_LANG, or the system's."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .translator import Translator

FOLDER = Path(__file__).parent
"""Holds a file for each language: translations by English message. The build writes them."""

ASKED = "GPULAB_LANG"
"""Environment variable: a language, such as zh; en for English."""

_SYSTEM = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def languages(folder: Path = FOLDER) -> list[str]:
    """The languages besides English."""
    return sorted(path.stem for path in folder.glob("*.json"))


def wanted(asked: str | None = None) -> str:
    """The language that was asked for here, as in zh or en; "" if nobody asked for one."""
    system = next((value for name in _SYSTEM if (value := os.environ.get(name))), "")
    for value in (asked, os.environ.get(ASKED), system.split(":")[0]):
        if value:
            return value.replace("-", "_").split("_")[0].split(".")[0].lower()
    return ""


def translator(asked: str | None = None, *more: Path) -> Translator | None:
    """The translator of the wanted language; None for English and for a language that there is not.

    `more`: folders with further messages.
    """
    language = wanted(asked)
    if language not in languages():
        return None
    catalog: dict[str, str] = {}
    for folder in (FOLDER, *more):
        path = folder / f"{language}.json"
        catalog |= json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Translator(catalog, language)
