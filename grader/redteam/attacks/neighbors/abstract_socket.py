# tries: asks another copy of itself for the answer over an abstract socket
# stopped by: each job has a network namespace of its own
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# beside: itself

import contextlib
import socket
import time

NAME = "\0classmates"


def serve(n, block):
    """Answer whoever asks within some seconds; this copy earns nothing."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(NAME)
        s.listen()
        s.settimeout(8)
        with contextlib.suppress(OSError):
            while True:
                peer, _ = s.accept()
                n, block = map(int, peer.recv(100).split())
                peer.sendall(b"%d" % -(-n // block))
                peer.close()
    return -1


def number_of_programs(n, block):
    try:
        return serve(n, block)
    except OSError:
        pass
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(NAME)
        s.sendall(b"%d %d" % (n, block))
        return int(s.recv(100))
