"""Other people's Triton kernels: the harness on a file of its own, and the real ones where they can be read."""

import os
import subprocess

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is off where there is a GPU", allow_module_level=True)

from bench.corpus.sources import NotHere, Source  # noqa: E402
from bench.corpus.triton import __main__ as corpus  # noqa: E402
from bench.corpus.triton import pieces, worker  # noqa: E402
from bench.corpus.triton.case import Collection, agree, difference  # noqa: E402

FILE = """\
import nowhere
import torch
import triton
import triton.language as tl
from nowhere import tuned

BLOCK: tl.constexpr = 16

@triton.jit
def double(x):
    return 2 * x

@tuned(BLOCK)
@triton.jit
def kernel(x_ptr, out_ptr, n, offset):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs + offset, double(tl.load(x_ptr + offs, mask=offs < n)), mask=offs < n)

@triton.jit
def total(x_ptr, out_ptr, n):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n)))

def launch(x, offset=0):
    out = torch.zeros(16, device="cuda") if x.is_cuda else None
    kernel[(torch.cuda.device_count(),)](x, out, 9, offset)
    return out

nowhere.benchmark(launch)
"""


@pytest.fixture
def collection(tmp_path):
    (tmp_path / "file.py").write_text(FILE)
    made = Collection("ours", "nobody", "0" * 40, "MIT", "file.py")

    def case(run, *only, fault=""):
        made.case("file.py", *only, fault=fault)(run)

    def twice(m, draw, offset=0, factor=2):
        x = draw(16)
        expected = factor * x.double()
        expected[9:] = 0
        yield "result", m.launch(x, offset), expected

    def right(m, draw):
        yield from twice(m, draw)

    def wrong(m, draw):
        yield from twice(m, draw, factor=3)

    def outside(m, draw):
        m.launch(draw(16), 10)
        yield from twice(m, draw)

    def faulty(m, draw):
        yield from outside(m, draw)

    def dies(m, draw):
        os.kill(os.getpid(), 9)
        yield

    def sums(m, draw):
        x, out = draw(16), torch.empty(1)
        m.total[(1,)](x, out, 9)
        yield "result", out[0], x[:9].double().sum()

    for run in (right, wrong, outside, dies):
        case(run, "launch")
    case(faulty, "launch", fault="stores behind the end")
    case(sums, "total")
    return made


def statuses(collection, folder, mode):
    def one(case):
        collection.open(folder)
        return worker.run(case, collection.load(case, folder), mode)

    return {case.run.__name__: worker.forked(lambda case=case: one(case)) for case in collection.cases}


def test_statuses(collection, tmp_path):
    rows = statuses(collection, tmp_path, "recorded")
    assert {name: row["status"] for name, row in rows.items()} == {
        "right": "right",
        "wrong": "wrong",
        "outside": "false alarm",
        "dies": "crash",
        "faulty": "fault",
        "sums": "right",
    }
    assert len(rows["right"]["kernels"]) == 1 and rows["right"]["kernels"][0].endswith("_file.kernel")
    assert "result: 9 of 16 differ, first [0]" in rows["wrong"]["sentence"]
    assert "outside the array" in rows["outside"]["sentence"]
    strict = statuses(collection, tmp_path, "strict")
    assert strict["right"]["status"] == "right" and strict["sums"]["status"] == "wrong", "it adds masked lanes"

    rows = [r | {"mode": m, "source": "ours", "path": "file.py", "case": n}
            for m, found in (("recorded", rows), ("strict", strict)) for n, r in found.items()]  # fmt: skip
    heads, ours, _ = corpus.table(rows).splitlines()
    found = dict(zip(heads.split()[1:], ours.split()[1:], strict=False))
    assert (found["cases"], found["kernels"], found["right"]) == ("6", "2", "1"), (
        "a kernel is as good as its worst case"
    )


def test_pieces_keep_what_is_named():
    text = pieces.pieces(FILE, ["launch"])
    assert "nowhere" not in text and "def double" in text and "def total" not in text
    assert text.count("@triton.jit") == 2 and "BLOCK: tl.constexpr = 16" in text
    with pytest.raises(LookupError, match="absent"):
        pieces.pieces(FILE, ["absent"])


def test_results_are_compared():
    x = torch.tensor([1.0, 2.0, float("inf"), float("nan")])
    assert difference(x, x.double()) == ""
    assert difference(x + 1e-6, x.double()) == ""
    assert "1 of 4 differ, first [1]: 2.01 for 2" in difference(x + torch.tensor([0, 0.01, 0, 0]), x.double())
    assert "nan for" in difference(x.flip(0), x.double())
    assert "shape" in difference(x[:2], x.double())
    assert difference(torch.tensor([1]), torch.tensor([2]))


def test_gradients_are_compared():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

        @staticmethod
        def backward(ctx, dy):
            return 2 * dy

    rows = agree(Wrong.apply, lambda x: 3 * x, torch.ones(4))
    assert [bool(difference(*row[1:])) for row in rows] == [False, True]


def test_a_folder_is_checked_out_at_its_commit(tmp_path, monkeypatch):
    def git(*arguments):
        who = "-c", "user.name=a", "-c", "user.email=a@b"
        subprocess.run(["git", "-C", str(tmp_path / "ours"), *who, *arguments], check=True)

    (tmp_path / "ours" / "kernels").mkdir(parents=True)
    (tmp_path / "ours" / "kernels" / "file.py").write_text("first")
    (tmp_path / "ours" / "large").write_text("not needed")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = subprocess.check_output(["git", "-C", str(tmp_path / "ours"), "rev-parse", "HEAD"], text=True).strip()
    (tmp_path / "ours" / "kernels" / "file.py").write_text("second")
    git("commit", "-q", "-a", "-m", "second")
    monkeypatch.setenv("GPULAB_CORPUS", str(tmp_path))
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "cache"))
    folder = Source("ours", "nobody", commit, "MIT").checkout("kernels")
    assert (folder / "kernels" / "file.py").read_text() == "first" and not (folder / "large").exists()
    with pytest.raises(NotHere):
        Source(
            "ours",
            "nobody",
            commit,
            "MIT",
        ).checkout("absent")


def test_the_collections_are_whole():
    found = dict(corpus.collections())
    ids = [case.id for collection in found.values() for case in collection.cases]
    assert len(found) >= 5 and len(ids) >= 100 and len(set(ids)) == len(ids)
    assert all(len(collection.commit) == 40 and collection.license for collection in found.values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_corpus_runs():
    """Every kernel of the repositories that can be read here: no wrong result, no false alarm, no crash."""
    rows = list(corpus.results(modes=["recorded"], jobs=2))
    if not rows:
        pytest.skip("no repository can be read here")
    assert not [r for r in rows if r["status"] not in ("right", "fault", "refused")]
    assert sum(r["status"] != "refused" for r in rows) >= 0.95 * len(rows)
