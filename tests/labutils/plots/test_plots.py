"""Pictures: what they say in words, and what is said where none can be drawn."""

import sys

import pytest

from labutils import plots


def test_words_say_what_the_picture_shows():
    stride = plots.coalescing(lambda lane: 8 * lane, title="every other float")
    assert "touch 8 sectors, 256 bytes moved for 128 asked for: 50%" in stride.alt
    column = plots.banks(lambda lane: 128 * lane)
    assert "need 32 wavefronts where 1 would do" in column.alt
    padded = plots.banks(lambda lane: 132 * lane)
    assert "need 1 wavefronts where 1 would do" in padded.alt
    wide = plots.banks(lambda lane: 16 * lane, width=16)
    assert "need 4 wavefronts where 4 would do" in wide.alt
    shown = stride._repr_mimebundle_()
    assert shown["text/html"].startswith('<img alt="Coalescing') and shown["text/plain"] == stride.alt


def test_without_matplotlib_the_sentence_says_what_to_do(monkeypatch, capsys):
    import labutils as lab

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    plots._picture.cache_clear()
    with pytest.raises(plots.Unavailable, match="run `import matplotlib.figure` before anything else"):
        plots.figure()
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    import triton
    import triton.language as tl

    @triton.jit
    def fill_kernel(out_ptr, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)

    assert lab.access_map(lambda out: fill_kernel[(1,)](out, BLOCK=4), torch.empty(4)) is None
    assert "No picture: matplotlib cannot be loaded" in capsys.readouterr().out
    plots._picture.cache_clear()


def test_a_picture_that_cannot_be_drawn_does_not_stop_a_notebook(monkeypatch, capsys):
    assert plots.show(plots.figure, 2, 1).get_figwidth() == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    plots._picture.cache_clear()
    assert plots.show(plots.figure) is None and "No picture: matplotlib" in capsys.readouterr().out
    plots._picture.cache_clear()
