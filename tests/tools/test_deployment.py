"""Container, devcontainers, Binder and JupyterHub: what they name exists here, in the versions of requirements.lock."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tools.release import version

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEVCONTAINERS = sorted((ROOT / ".devcontainer").rglob("devcontainer.json"))
PINS = {line.split(" ;")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}


def instructions(name: str) -> list[str]:
    """The Dockerfile's instructions of a kind, each on one line."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_the_container_copies_what_there_is_and_installs_it_as_make_does():
    copied = [part for line in instructions("COPY") for part in shlex.split(line)[:-1] if not part.startswith("--")]
    assert copied and all((ROOT / path).exists() for path in copied)
    (setup,) = (line for line in instructions("RUN") if line.startswith("tools/setup.sh"))
    assert setup.startswith("tools/setup.sh .venv python3 ${TORCH}")
    apt = " ".join(instructions("RUN"))
    assert all(f" {package} " in apt for package in ("bubblewrap", "g++", "git", "make"))
    assert re.search(r"python:3\.1[123]-", instructions("FROM")[0])


def test_the_container_opens_the_map_without_popups():
    command = json.loads(instructions("CMD")[0])
    assert command[:2] == ["jupyter", "lab"] and (ROOT / command[-1]).exists()
    (settings,) = (part.partition("=")[2] for part in command if part.startswith("--LabApp.app_settings_dir"))
    assert (ROOT / settings / "overrides.json").exists()


def test_every_jupyterlab_of_ours_has_the_extension():
    """tests/browser/test_run_all.py tries it in JupyterLab."""
    (about,) = (ROOT / "tools/lab/extensions").glob("*/package.json")
    build = json.loads(about.read_text())["jupyterlab"]["_build"]
    assert (about.parent / build["load"]).exists() and json.loads(about.read_text())["name"] == about.parent.name
    copied = "cp -r tools/lab/extensions/. "
    assert f"{copied}.venv/share/jupyter/labextensions/" in " ".join(instructions("RUN"))
    assert f'{copied}"$share/labextensions/"' in (ROOT / ".binder/postBuild").read_text()
    assert (
        "tools/lab/extensions/. /opt/venv/share/jupyter/labextensions/"
        in (ROOT / "tools/jupyterhub/Dockerfile").read_text()
    )
    assert "--LabApp.extra_labextensions_path=$(CURDIR)/tools/lab/extensions" in (ROOT / "Makefile").read_text()


def test_secrets_and_environments_stay_out_of_the_image():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "out"} <= set(ignored)


@pytest.mark.parametrize("path", DEVCONTAINERS, ids=lambda path: path.parent.name)
def test_devcontainers_are_made_from_the_container_file(path):
    settings = json.loads(path.read_text())
    assert (path.parent / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (path.parent / settings["build"]["context"]).resolve() == ROOT
    build = settings["build"].get("args", {}).get("TORCH", "")
    assert settings["postCreateCommand"].split(" && ")[0].split() == [
        "tools/setup.sh",
        ".venv",
        "python3",
        *build.split(),
    ]
    assert settings["remoteUser"] in instructions("USER")


def test_binder_has_the_locked_versions_and_a_python_of_the_lock():
    lines = (ROOT / ".binder/requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if "==" in line]
    assert len(pinned) >= 5 and {line.removesuffix("+cpu") for line in pinned} <= PINS
    assert lines[-1] == "./labutils[cuda]"
    assert (ROOT / ".binder/runtime.txt").read_text().strip() in ("python-3.11", "python-3.12", "python-3.13")
    script = (ROOT / ".binder/postBuild").read_text()
    assert all((ROOT / name).exists() for name in re.findall(r"tools/lab/\w+\.json", script))
    assert (ROOT / ".binder/postBuild").stat().st_mode & 0o100


def test_the_hubs_example_names_this_version_and_our_settings():
    values = yaml.safe_load((ROOT / "tools/hub/values.yaml").read_text())
    user = values["singleuser"]
    assert user["image"]["tag"] == version()
    (gpu,) = (p["kubespawner_override"] for p in user["profileList"] if "kubespawner_override" in p)
    assert gpu["image"] == f"{user['image']['name']}:{version()}-cuda"
    (settings,) = user["extraFiles"].values()
    assert settings["data"] == json.loads((ROOT / "tools/lab/overrides.json").read_text())
    assert (ROOT / "notebooks" / user["defaultUrl"].removeprefix("/lab/tree/")).exists()


class Config:
    """Takes any setting, as JupyterHub's and nbgrader's do."""

    def __getattr__(self, name):
        return self.__dict__.setdefault(name, Config())


def test_the_recipe_with_ngshare_fits_together(monkeypatch, tmp_path):
    """What test_jupyterhub.py does with the real ones, where they are installed."""
    recipe = ROOT / "tools/jupyterhub"
    compose = yaml.safe_load((recipe / "compose.yaml").read_text())
    hub, user = compose["services"]["hub"], compose["services"]["user"]
    dockerfile = (ROOT / hub["build"]["dockerfile"]).read_text()
    assert {hub["build"]["target"], user["build"]["target"]} == set(re.findall(r"^FROM \S+ AS (\w+)", dockerfile, re.M))
    assert all((ROOT / source).exists() for source in re.findall(r"^COPY (\S+) ", dockerfile, re.M))
    config, hub_uses = Config(), hub["environment"] | {"INSTRUCTORS": "ada, bob", "HUB_FOLDER": str(tmp_path)}
    for name, value in hub_uses.items():
        monkeypatch.setenv(name, value)
    exec((recipe / "jupyterhub_config.py").read_text(), {"get_config": lambda: config})
    assert config.DockerSpawner.image == user["image"] and config.Authenticator.admin_users == {"ada", "bob"}
    assert config.DockerSpawner.network_name in {network["name"] for network in compose["networks"].values()}
    (service,) = config.JupyterHub.services
    assert service["name"] == "ngshare" and "ada,bob" in service["command"]
    assert config.DockerSpawner.environment["NGSHARE_URL"].endswith("/services/ngshare")
    assert all("access:services!service=ngshare" in role["scopes"] for role in config.JupyterHub.load_roles)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_run_targets_and_modules_that_there_are(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    commands = "\n".join(step.get("run", "") for job in jobs for step in job["steps"])
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= set(targets)
    for module in re.findall(r"python -m (tools\.\w+|labutils)\b", commands):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists() or (ROOT / module / "__main__.py").exists()
    assert all(job["runs-on"] == "ubuntu-24.04" for job in jobs)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_may_only_read_and_put_no_names_into_a_shell(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert not [step["run"] for step in steps if re.search(r"\{\{\s*github\.", step.get("run", ""))]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_release_is_published_only_for_a_tag():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    publishing = {name: job for name, job in jobs.items() if name != "wheels"}
    assert publishing and all("github.ref_type == 'tag'" in job["if"] for job in publishing.values())
    assert all(job["needs"] == "wheels" for job in publishing.values())
