"""The warp theater in a browser: it steps by keys and buttons, says what happens, and reports no error."""

import pytest

from labutils.backends.film import Film, Frame
from labutils.plots.theater import Theater
from tests.browser.conftest import start_chromium

ALL = 0xFFFFFFFF
SOURCE = "\n__global__ void k(float* x) {\n  tile[t] = x[t];\n  __syncthreads();\n  x[t] = tile[t * 2];\n}"
FRAMES = [
    frame
    for block in range(4)
    for frame in (
        *(Frame(block, w, 3, "load", ALL, "x", 4, tuple(4 * (32 * w + k) for k in range(32))) for w in range(8)),
        *(Frame(block, w, 3, "store", ALL, "shared", 4, tuple(4 * (32 * w + k) for k in range(32))) for w in range(8)),
        Frame(block, 0, 0, "barrier", 0),
        *(Frame(block, w, 5, "load", 0xFFFF, "shared", 4, tuple(8 * k for k in range(16))) for w in range(8)),
    )
]


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("theater") / "film.html"
    film = Film("k", SOURCE, (4, 1, 1), 256, {"x": (1024, 4, 0)}, tuple(FRAMES))
    Theater(film).save(path)
    driver = start_chromium(chromium, "1280,900")
    driver.get(path.as_uri())
    yield driver
    driver.quit()


def text(page, name: str) -> str:
    return page.execute_script("return document.getElementById(arguments[0]).textContent", name)


def press(page, key: str) -> None:
    page.execute_script("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key)


def test_keys_step_and_the_text_says_what_happens(page):
    press(page, "Home")
    assert text(page, "count") == f"step 1 of {len(FRAMES)}"
    assert "warp 0, line 3: 32 lanes load from x: 4 sectors, 128 bytes" in text(page, "now")
    press(page, "ArrowRight")
    assert "warp 1" in text(page, "now")
    for _ in range(16):
        press(page, "ArrowRight")
    press(page, "ArrowLeft")
    assert "all warps have reached the barrier" in text(page, "now")
    press(page, "ArrowRight")
    assert "16 lanes load from shared: 1 wavefront." in text(page, "now")
    assert page.execute_script("return document.querySelectorAll('.current .lane.on').length") == 16


def test_a_warp_waits_at_the_barrier(page):
    press(page, "Home")
    for _ in range(12):
        press(page, "ArrowRight")
    shown = text(page, "warps")
    assert "warp 4: runs" in shown and "warp 3: waits at the barrier" in shown and "warp 5: ready" in shown


def test_sixty_steps_are_fast_and_without_an_error(page):
    press(page, "Home")
    times = page.execute_script("""
        const times = [];
        for (let k = 0; k < 60; k++) {
            const begin = performance.now();
            document.getElementById("next").click();
            document.body.offsetHeight;
            times.push(performance.now() - begin);
        }
        return times.sort((a, b) => a - b);""")
    assert times[30] <= 16, times
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []
