"""`film`: a call's film, or why there is none; and its way through JSON."""

import importlib.util
import json

import pytest
import torch

import labutils as lab
from labutils.backends import film
from labutils.backends.film import Film, FilmedArray, Frame, Mbarrier, SharedVariable


def test_a_call_without_a_launch_says_so(capsys):
    assert lab.play(lambda x: x + 1, torch.ones(3)) is None
    assert "launches no kernel" in capsys.readouterr().out


def test_an_error_is_the_reason():
    with pytest.raises(film.NotFilmed, match="no sizes"):
        film.film(lambda: (_ for _ in ()).throw(ValueError("no sizes")))


def test_a_film_survives_json():
    frame = Frame(0, 1, 5, "arrive", 1, size=128, at=(1,), mbarrier=Mbarrier("full[0]", 0, 0, 1, 128))
    arrays, shared = {"x": FilmedArray(64, 4, 32, "float32", (4, 4))}, (SharedVariable("tile", 0, 256, "float"),)
    made = Film("k", "source", (1, 1, 1), 64, arrays, (frame,), ("found",), True, shared, 7)
    assert Film.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_with_a_gpu_triton_is_filmed_in_a_process_that_interprets(monkeypatch, tmp_path):
    path = tmp_path / "learner_copy.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef double(x_ptr):\n"
        "    k = tl.arange(0, 4)\n    tl.store(x_ptr + k, 2 * tl.load(x_ptr + k))\n\n\n"
        "def launch(x):\n    double[(1,)](x)\n"
    )
    spec = importlib.util.spec_from_file_location("learner_copy", path)
    spec.loader.exec_module(learner := importlib.util.module_from_spec(spec))
    monkeypatch.setattr(film.device, "has_gpu", lambda: True)
    monkeypatch.setattr(film, "filmed", lambda fn, arguments: {"failed": "this process compiles Triton"})
    made = film.film(learner.launch, torch.ones(4))
    assert [f.operation for f in made.frames] == ["load", "store"] and made.kernel == "double"
