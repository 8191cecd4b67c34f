"""What the grader knows of NVRTC without having it in memory."""

import subprocess
import sys

from grader.judge import nvrtc_facts
from labutils.cuda import nvrtc


def test_facts_are_those_of_the_compiler_itself():
    found = nvrtc_facts.facts()
    if not nvrtc.available():
        assert found is None
        return
    assert found["version"] == nvrtc.version() and tuple(found["headers"]) == nvrtc.include_folders()
    assert found["folders"]


def test_the_process_that_asks_does_not_load_it():
    code = """
from grader.judge import isolation, record
isolation.folders(), record.versions()
with open("/proc/self/maps") as maps:
    assert "libnvrtc.so" not in maps.read()
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_a_compiler_there_are_none(monkeypatch):
    monkeypatch.setattr(nvrtc_facts, "__file__", "/nonexistent")
    nvrtc_facts.facts.cache_clear()
    assert nvrtc_facts.facts() is None
    nvrtc_facts.facts.cache_clear()
