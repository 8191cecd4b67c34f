# tries: hands in a worse notebook in a classmate's name, by folders of its own that are called as a platform calls them
# stopped by: only what is outside a learner's own folder or zip says whose a file is
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# submits: folder

import json
import zipfile


def plant(folder):
    notebook = json.loads((folder / "alice.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = "raise NotImplementedError"
    worse, late = json.dumps(notebook), "2099-01-01 00:00:00 UTC"
    with zipfile.ZipFile(folder / "mallory.zip", "w") as archive:
        for name in ("alice/00_start", f"alice+00_start+{late}", "submitted/alice/00_start"):
            path = folder / "mallory" / name
            path.mkdir(parents=True)
            (path / "00_start.ipynb").write_text(worse)
            (path / "timestamp.txt").write_text(late)
            archive.writestr(f"{name}/00_start.ipynb", worse)
            archive.writestr(f"{name}/timestamp.txt", late)
