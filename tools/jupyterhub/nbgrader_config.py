# Of every user's container, as /etc/jupyter/nbgrader_config.py: nbgrader's exchange is ngshare. The course's own
# configuration is in the folder of the course (`python -m grader course init`).
import os

from ngshare_exchange import configureExchange

configureExchange(get_config(), os.environ["NGSHARE_URL"])  # noqa: F821
