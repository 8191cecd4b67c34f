"""A real JupyterLab and a real headless Chromium: notebooks are opened and run as a new user would."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "course"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium():
    """Paths of the browser and its driver."""
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    return browser, driver


def start_chromium(chromium, size: str = "1280,1600"):
    """A headless browser with a window of this size."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium[0]
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--window-size={size}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(chromium[1]))


def wait_for(server: subprocess.Popen, url: str, log: Path) -> None:
    """Until a Jupyter server answers; fails with the end of its log if it ends first."""
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{url}/api?token={TOKEN}", timeout=1)
            return
        except OSError:
            assert server.poll() is None, log.read_text()[-2000:]
            time.sleep(0.25)


def setting(folder: Path, name: str) -> Path:
    """The file with a user's settings of one of JupyterLab's extensions, for the `lab` server of this folder."""
    return folder / "home/.jupyter/lab/user-settings/@jupyterlab" / f"{name}.jupyterlab-settings"


@pytest.fixture(scope="session")
def lab(tmp_path_factory, chromium):
    """A JupyterLab server on a folder of its own; gives (folder, URL)."""
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = os.environ | {"HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    environment.pop("GPULAB_SEED", None)
    # JupyterLab takes cells out of the page that are scrolled away; a test wants to read all of them
    settings = setting(folder, "notebook-extension/tracker")
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')
    (folder / "notebooks").mkdir()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", "--ServerApp.root_dir=" + str(folder / "notebooks")]
    command += [  # as `make lab` does
        f"--LabApp.app_settings_dir={ROOT / 'tools/lab'}",
        f"--LabApp.extra_labextensions_path={ROOT / 'tools/lab/extensions'}",
    ]
    log = (folder / "log").open("w")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    wait_for(server, url, folder / "log")
    yield folder / "notebooks", url
    server.terminate()
    server.wait(timeout=20)


@pytest.fixture
def open_notebook(lab, chromium):
    """A function that opens a notebook file in JupyterLab and gives a `Page`."""
    folder, url = lab
    drivers = []

    def start(path: Path, cells: int = 4) -> "Page":
        shutil.copy(path, folder / path.name)
        driver = start_chromium(chromium)
        drivers.append(driver)
        driver.get(f"{url}/doc/tree/{path.name}?token={TOKEN}&reset")
        return Page(driver, cells)

    yield start
    for driver in drivers:
        driver.quit()
    stop_kernels(url)


def stop_kernels(url: str) -> None:
    """End the kernels that notebooks left: each holds 230 MB, which a session of eighty notebooks has not."""
    with urllib.request.urlopen(f"{url}/api/sessions?token={TOKEN}", timeout=30) as answer:
        sessions = json.load(answer)
    for session in sessions:
        one = f"{url}/api/sessions/{session['id']}?token={TOKEN}"
        urllib.request.urlopen(urllib.request.Request(one, method="DELETE"), timeout=60).close()


class Page:
    """One notebook in the browser, with at least so many cells."""

    def __init__(self, driver, cells: int):
        self.driver = driver
        self._until(
            lambda: self.script("return document.querySelectorAll('.jp-Notebook .jp-Cell').length") >= cells, 90
        )
        self._until(lambda: "Idle" in self.kernel_status() or "idle" in self.kernel_status(), 90)

    def script(self, text: str, *arguments):
        return self.driver.execute_script(text, *arguments)

    def kernel_status(self) -> str:
        return self.script(
            "const e = document.querySelector('.jp-Notebook-ExecutionIndicator');"
            "return e ? e.getAttribute('data-status') : ''"
        )

    def run_all(self, limit: float = 180) -> None:
        """Kernel → Run all cells, as the menu does it; waits until the kernel is idle again."""
        from selenium.webdriver.common.by import By

        for _ in range(3):  # a kernel that says it is idle may not listen yet: then nothing starts
            self._dismiss_dialog()
            self.driver.find_element(By.XPATH, "//div[contains(@class,'lm-MenuBar-itemLabel')][text()='Run']").click()
            self._until(lambda: self.driver.find_elements(By.XPATH, "//*[@data-command='runmenu:run-all']"), 10)
            self.driver.find_element(By.XPATH, "//*[@data-command='runmenu:run-all']").click()
            if self._within(10, self._has_started):
                break
        self._until(lambda: self.kernel_status() == "idle", limit)
        time.sleep(1)

    def _dismiss_dialog(self) -> None:
        """Answer what JupyterLab asks or tells on a slow machine with its default button; fail on any other dialog."""
        dialog = self.script("const e = document.querySelector('.jp-Dialog'); return e ? e.innerText : ''")
        if not dialog:
            return
        expected = ("Server Connection Error", "Kernel Restarting", "Select Kernel")
        assert dialog.startswith(expected), f"JupyterLab shows a dialog: {dialog}"
        self.script("[...document.querySelectorAll('.jp-Dialog-footer button')].at(-1).click()")
        self._until(lambda: not self.script("return document.querySelector('.jp-Dialog')"), 10)
        self._until(lambda: self.kernel_status() == "idle", 90)

    def _has_started(self) -> bool:
        """Does a cell wait, run, or have a number?"""
        return self.script(
            "return [...document.querySelectorAll('.jp-InputPrompt')].some(e => /[0-9*]/.test(e.textContent))"
        )

    def outputs(self) -> list[str]:
        """Text of every output area that shows something, in order."""
        return self.script("return [...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.textContent)")

    def errors(self) -> list[str]:
        """What stands in red: the outputs of cells that raised or wrote to stderr."""
        return self.script(
            "const red = ['application/vnd.jupyter.error', 'application/vnd.jupyter.stderr'];"
            "return [...document.querySelectorAll('.jp-OutputArea-output')]"
            ".filter(e => red.includes(e.getAttribute('data-mime-type'))).map(e => e.textContent)"
        )

    def images(self) -> int:
        return self.script("return document.querySelectorAll('.jp-OutputArea-output img').length")

    def console_errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]

    def screenshot(self, name: str) -> Path:
        """Kept in $GPULAB_SCREENSHOTS where that is set, so that a person can look at it."""
        folder = Path(os.environ.get("GPULAB_SCREENSHOTS", "/tmp"))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def show(self, text: str) -> None:
        """Scroll to the first output that holds this text."""
        self.script(
            "const e = [...document.querySelectorAll('.jp-OutputArea-output')]"
            ".find(e => e.textContent.includes(arguments[0]));"
            "if (e) e.scrollIntoView({block: 'center'})",
            text,
        )
        time.sleep(0.5)

    def _within(self, limit: float, true) -> bool:
        """Does it become true in so many seconds?"""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                if true():
                    return True
            except Exception:  # the page is still being built
                pass
            time.sleep(0.3)
        return False

    def _until(self, true, limit: float) -> None:
        if self._within(limit, true):
            return
        self.screenshot("timeout")
        raise TimeoutError(f"the page did not get there in {limit} s")
