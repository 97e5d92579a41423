"""A certificate for the loopback, made on the spot."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> Path:
    """Return a file with a key and its certificate; the certificate alone is beside it, `.crt`."""
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("LOUD: no openssl on this machine; https was not tried")
    path = folder / "certificate.pem"
    command = [
        *(tool, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "2", "-subj", "/CN=loopback", "-keyout", str(path)),
        *("-out", str(path) + ".crt", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with path.open("a") as both:
        both.write(Path(str(path) + ".crt").read_text())
    return path
