"""JupyterHub with ngshare as a service: nbgrader's exchange for users who share no folder.

Environment: INSTRUCTORS, names separated by commas; USER_IMAGE and HUB_NETWORK, for DockerSpawner; HUB_FOLDER, where
the hub keeps its data.
"""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821

folder = Path(os.environ.get("HUB_FOLDER", "/srv/hub"))
instructors = [name.strip() for name in os.environ["INSTRUCTORS"].split(",")]

c.JupyterHub.bind_url = os.environ.get("HUB_ADDRESS", "http://:8000")
c.JupyterHub.db_url = f"sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")

# Put your institution's authenticator here: oauthenticator, ltiauthenticator, PAM. This one takes any name with the
# password of HUB_PASSWORD, and is for a first try on your own machine.
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ.get("HUB_PASSWORD", "")
c.Authenticator.allow_all = True
c.Authenticator.admin_users = set(instructors)

# ngshare keeps assignments, submissions and feedback, and asks the hub who someone is.
c.JupyterHub.services = [
    {
        "name": "ngshare",
        "url": os.environ.get("NGSHARE_ADDRESS", "http://127.0.0.1:10101"),
        "command": [sys.executable, "-m", "ngshare", "--admins", ",".join(instructors)]
        + ["--database", f"sqlite:///{folder}/ngshare.db", "--storage", f"{folder}/ngshare-files/"],
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": ["inherit"],
    }
]
# nbgrader's commands run in a user's server, with the server's token: it must be let in to ngshare.
to_ngshare = "access:services!service=ngshare"
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", to_ngshare]},
    {"name": "server", "scopes": ["users:activity!user", "access:servers!server", to_ngshare]},
]

if image := os.environ.get("USER_IMAGE"):
    c.JupyterHub.spawner_class = "docker"
    c.JupyterHub.hub_ip, c.JupyterHub.hub_connect_ip = "0.0.0.0", "hub"
    c.DockerSpawner.image = image
    c.DockerSpawner.network_name = os.environ["HUB_NETWORK"]
    c.DockerSpawner.volumes = {"gpu-kernel-lab-{username}": "/home/lab"}
    c.DockerSpawner.environment = {"NGSHARE_URL": "http://hub:8000/services/ngshare"}
    c.DockerSpawner.mem_limit = "4G"
    c.DockerSpawner.remove = True
else:  # every user as a process of this one, to try the rest
    c.JupyterHub.spawner_class = "simple"
    c.SimpleLocalProcessSpawner.home_dir_template = f"{folder}/homes/{{username}}"
    hub = c.JupyterHub.bind_url.rstrip("/")
    c.Spawner.environment = {"NGSHARE_URL": f"{hub}/services/ngshare", "JUPYTER_CONFIG_DIR": f"{folder}/jupyter"}
