"""TLS for a Dask cluster that leaves this machine.

Jobs carry submissions and their secret seeds, and anyone who may talk to a Dask scheduler or worker runs code there as
the user who started it. So a cluster that is started here gets a certificate of its own, and one that is joined must
have one.
"""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from pathlib import Path

from distributed.comm.addressing import parse_address, parse_host_port
from distributed.security import Security

from grader.engines import NoEngine

DAYS = 30
"""Days for which a certificate is valid; a run takes hours."""


def own_security(folder: Path) -> Security:
    """A new key and its certificate in `folder`, which only this user can read: who has them is of the cluster."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=grader", "-days", str(DAYS)]
    try:
        done = subprocess.run([*line, "-keyout", key, "-out", certificate], capture_output=True, text=True)
    except FileNotFoundError:
        raise NoEngine("TLS needs the openssl command, which was not found; --no-tls does without.") from None
    if done.returncode != 0:
        raise NoEngine(f"openssl could not make a certificate: {done.stderr.strip()[-200:]}")
    key.chmod(0o600)
    roles = {
        f"tls_{role}_{what}": str(path)
        for role in ("client", "scheduler", "worker")
        for what, path in (("key", key), ("cert", certificate))
    }
    return Security(require_encryption=True, tls_ca_file=str(certificate), **roles)


def require(address: str) -> None:
    """Raises NoEngine for a scheduler on another machine to which everything would go in plain text."""
    try:
        scheme, rest = parse_address(address)
        host = parse_host_port(rest, 0)[0]
    except ValueError as problem:
        raise NoEngine(f"{address} is no address of a Dask scheduler: {problem}") from None
    if scheme == "tcp" and not _is_here(host):
        raise NoEngine(
            f"Submissions and their secret seeds would go to {address} in plain text: start that scheduler with TLS "
            "(tls://…), or accept this with --no-tls."
        )


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
