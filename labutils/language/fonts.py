"""A font for the characters of a language: one that matplotlib has, one of the system, or one that is fetched."""

from __future__ import annotations

import functools
import hashlib
import io
import lzma
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from .. import environment

NAMES = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei", "Noto Sans CJK JP",
)  # fmt: skip
"""Fonts with Chinese characters, the best first."""

PACKAGE = "pool/main/f/fonts-wqy-microhei/fonts-wqy-microhei_0.2.0-beta-3.1_all.deb"
MIRRORS = ("https://deb.debian.org/debian", "https://snapshot.debian.org/archive/debian/20230601T000000Z")
SHA256 = "239163df984eea5c9da3b551aee374936222cdbd67f1a1be3cdcf3d76143ad66"
"""WenQuanYi Micro Hei as Debian packs it, 1.6 MB: under the Apache license 2.0, or GPL 3 with the font exception."""

INSIDE = "usr/share/fonts/truetype/wqy/wqy-microhei.ttc"

MISSING = (
    "Pictures stay in English: no font here has the characters of this language, and none could be downloaded. Install "
    "one, such as Noto Sans CJK (apt-get install fonts-noto-cjk), and restart the notebook's kernel."
)

_PREINSTALLED = "DejaVu Sans"


@functools.cache
def family(sample: str) -> str | None:
    """The name of a font with these characters; "" if matplotlib's own has them, None if there is none."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    if _has(font_manager.findfont(_PREINSTALLED), sample):
        return ""
    known = {font.name: font.fname for font in manager.ttflist}
    for name in NAMES:
        if name in known and _has(known[name], sample):
            return name
    path = environment.cache_folder() / "fonts" / Path(INSIDE).name
    try:
        if not path.exists():
            _fetch(path)
        if not _has(path, sample):
            return None
        manager.addfont(path)
        return font_manager.FontProperties(fname=path).get_name()
    except (OSError, ValueError, RuntimeError, lzma.LZMAError, tarfile.TarError):
        return None


def _has(path: str | Path, sample: str) -> bool:
    from matplotlib.ft2font import FT2Font

    return {ord(character) for character in sample} <= FT2Font(str(path)).get_charmap().keys()


def _fetch(path: Path) -> None:
    """Download the font. Raises OSError where no mirror can be reached, ValueError where the file is another one."""
    problem: OSError = OSError("no mirror")
    for mirror in MIRRORS:
        try:
            with urllib.request.urlopen(f"{mirror}/{PACKAGE}", timeout=20) as reply:
                package = reply.read(8 << 20)
            break
        except (urllib.error.URLError, TimeoutError, ConnectionError) as e:
            problem = OSError(str(e))
    else:
        raise problem
    if hashlib.sha256(package).hexdigest() != SHA256:
        raise ValueError("the font that was downloaded is another one")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(unpacked(package))
    partial.replace(path)


def unpacked(package: bytes) -> bytes:
    """The font in a Debian package."""
    data = next(content for name, content in _members(package) if name.startswith("data.tar.xz"))
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(data))) as archive:
        return archive.extractfile(f"./{INSIDE}").read()


def _members(package: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of an `ar` archive: a header of 60 bytes each, then the content, padded to an even length."""
    at = 8
    while at + 60 <= len(package):
        header = package[at : at + 60]
        size = int(header[48:58])
        yield header[:16].decode().rstrip(), package[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
