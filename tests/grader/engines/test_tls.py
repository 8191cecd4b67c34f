"""What leaves the machine is encrypted, and who has no certificate is not let in."""

import shutil
import socket
import ssl
import stat
import threading

import pytest

from grader.engines import NoEngine, slurm, tls

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """What the client and the server agree on."""
    ours, theirs = socket.socketpair()

    def serve():
        try:
            server.wrap_socket(theirs, server_side=True).recv(1)
        except OSError:
            theirs.close()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with client.wrap_socket(ours) as connection:
            agreed = connection.version()  # it is None once the server has closed
            connection.sendall(b"x")
            connection.recv(1)  # in TLS 1.3 the server rejects a client's certificate after the handshake
            return agreed
    finally:
        serving.join()
        theirs.close()


@needs_openssl
def test_a_clusters_members_are_those_who_have_its_certificate(tmp_path):
    one, other = tls.own_security(tmp_path / "one"), tls.own_security(tmp_path / "other")
    listening = one.get_listen_args("scheduler")["ssl_context"]
    assert handshake(listening, one.get_connection_args("worker")["ssl_context"]).startswith("TLS")
    with pytest.raises(OSError):
        handshake(listening, other.get_connection_args("worker")["ssl_context"])
    assert one.require_encryption
    assert stat.S_IMODE((tmp_path / "one" / "key.pem").stat().st_mode) == 0o600


def test_without_openssl_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngine, match="openssl.*--no-tls"):
        tls.own_security(tmp_path / "tls")


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "10.1.2.3:8786", "node7:8786"])
def test_a_scheduler_elsewhere_must_encrypt(address):
    with pytest.raises(NoEngine, match="plain text"):
        tls.require(address)


@pytest.mark.parametrize(
    "address", ["tls://10.1.2.3:8786", "tcp://127.0.0.1:8786", "localhost:8786", "tcp://[::1]:8786"]
)
def test_what_stays_here_or_encrypts_may_be_joined(address):
    tls.require(address)


@pytest.mark.parametrize("encrypted", [True, False])
def test_slurms_workers_connect_by_tls(encrypted, tmp_path, monkeypatch):
    asked = {}

    class Stop(OSError):
        pass

    def cluster(**options):
        asked.update(options)
        raise Stop

    monkeypatch.setattr(slurm, "SLURMCluster", cluster)
    monkeypatch.setattr(tls, "own_security", lambda folder: f"certificate in {folder.relative_to(tmp_path)}")
    with pytest.raises(NoEngine):
        slurm.open_engine(2, tmp_path, encrypted=encrypted)
    assert asked["security"] == ("certificate in slurm/tls" if encrypted else None)
