"""The collections: where each is, at which commit, under which license, and how the text of its files is got.

A file is read, in this order, from `$GPULAB_CORPUS/NAME` (a folder of files, or a clone, bare or not), or from a clone
in the cache, which is made when it is first needed.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from labutils.environment import cache_folder

FOLDER = "GPULAB_CORPUS"


class NotHere(RuntimeError):
    """A collection cannot be read; the message says why."""


@dataclass(frozen=True)
class Source:
    """A public repository at one commit."""

    name: str
    owner: str
    commit: str
    license: str

    @property
    def url(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    def read(self, path: str) -> str:
        """The text of a file. Raises NotHere, and FileNotFoundError where the commit has no such file."""
        text = _read(self, path)
        if text is None:
            raise FileNotFoundError(f"{self.owner}/{self.name} has no {path} at {self.commit[:12]}")
        return text

    def checkout(self, folder: str) -> Path:
        """A folder that holds this repository's `folder`. Raises NotHere."""
        where = _place(self)
        if not _is_clone(where):
            return where
        there = cache_folder() / "corpus" / f"{self.name}-{self.commit[:12]}"
        if not (there / folder).is_dir():
            begun = there.with_suffix(f".{os.getpid()}")
            begun.mkdir(parents=True)
            done = _git("-C", str(where), f"--work-tree={begun}", "checkout", self.commit, "--", folder, index=begun)
            if done.returncode:
                raise NotHere(f"{where}: {done.stderr.decode(errors='replace').strip()}")
            try:
                begun.rename(there)
            except OSError:  # another process was faster
                shutil.rmtree(begun)
        return there


SOURCES = {
    source.name: source
    for source in (
        Source("LeetCUDA", "xlite-dev", "cb6a0497e829741fc5e3ad5e43a5beed0d85edcd", "GPL-3.0"),
        Source("SGEMM_CUDA", "siboehm", "60cba6f9b20a198116c76f18de8047f44df8c8b8", "MIT"),
        Source("llm.c", "karpathy", "f1e2ace651495b74ae22d45d1723443fd00ecd3a", "MIT"),
        Source("cuda-samples", "NVIDIA", "c94ff366aed18c797b8a85dfaac7817b0228b420", "BSD-3-Clause"),
    )
}


def export(name: str, files: dict[str, str], folder: Path) -> None:
    """Write files of a repository, given by path, to `folder`, where $GPULAB_CORPUS may then point."""
    for path, text in files.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@functools.lru_cache(maxsize=4096)
def _read(source: Source, path: str) -> str | None:
    where = _place(source)
    if not _is_clone(where):
        file = where / path
        return file.read_text(encoding="utf-8-sig", errors="replace") if file.is_file() else None
    done = _git("-C", str(where), "show", f"{source.commit}:{path}")
    if done.returncode == 0:
        return done.stdout.decode("utf-8-sig", errors="replace")
    if _git("-C", str(where), "cat-file", "-e", f"{source.commit}^{{commit}}").returncode:
        raise NotHere(f"{where} has no commit {source.commit[:12]} of {source.owner}/{source.name}")
    return None


@functools.cache
def _place(source: Source) -> Path:
    if (folder := os.environ.get(FOLDER)) and (Path(folder) / source.name).is_dir():
        return Path(folder) / source.name
    clone = cache_folder() / "corpus" / source.name
    if not (clone / "HEAD").is_file():
        _fetch(source, clone)
    return clone


def _is_clone(folder: Path) -> bool:
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


def _fetch(source: Source, clone: Path) -> None:
    """A clone of one commit without its files, which git brings when they are shown."""
    clone.mkdir(parents=True, exist_ok=True)
    steps = [
        ("init", "--quiet", "--bare"),
        ("remote", "add", "origin", source.url),
        ("config", "remote.origin.promisor", "true"),
        ("config", "remote.origin.partialclonefilter", "blob:none"),
        ("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", source.commit),
    ]
    for step in steps:
        done = _git("-C", str(clone), *step)
        if done.returncode:
            (clone / "HEAD").unlink(missing_ok=True)  # so that the next call begins anew
            why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise NotHere(f"{source.url} cannot be fetched ({why}); ${FOLDER} may name a folder that holds it")


def _git(*arguments: str, index: Path | None = None) -> subprocess.CompletedProcess:
    """`index`: a folder beside which git keeps what it has checked out, in place of the clone."""
    own = {"GIT_INDEX_FILE": f"{index}.index"} if index else {}
    return subprocess.run(["git", *arguments], capture_output=True, env=os.environ | own | {"GIT_TERMINAL_PROMPT": "0"})
