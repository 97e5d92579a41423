"""A program that confines itself and then becomes another program, such as LibreOffice.

Usage: `python -P -m truespan.parsing.sandbox.confined MEMORY CPU FILE_SIZE FOLDER PROGRAM ARG...`

The program can read what is installed, read and write `FOLDER`, and see no other file; it can open
no network connection. Limits hold for each of its processes. If the kernel cannot enforce all of
this, the program is not started.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from collections.abc import Sequence

UNCONFINED = 70
"""Exit code if the kernel cannot confine the program."""

_INSTALLED = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/snap"),
    *("/etc/fonts", "/etc/libreoffice", "/etc/ld.so.cache", "/etc/localtime"),
    *("/var/cache/fontconfig", "/var/lib/libreoffice", "/var/spool/libreoffice"),
)
"""Paths that the program may read, where they exist."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED_CALLS = {
    "x86_64": {"socket": 41, "io_uring_setup": 425},
    "aarch64": {"socket": 198, "io_uring_setup": 425},
}
_UNIX_SOCKET = 1
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
_X32_CALLS = 0x40000000
"""Smallest number of a call in the x32 convention, which the filter does not tell apart."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
_READ_FILE, _READ_FOLDER, _EXECUTE, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 0, 1 << 1
_MAKE_SOCKET = 1 << 9
_FIRST_RIGHTS, _MOVE, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_SOCKETS = "/tmp"  # noqa: S108 -- fixed by LibreOffice
"""Folder in which LibreOffice makes its local socket; it reads nothing there."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        *(("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte)),
        *(("if_false", ctypes.c_ubyte), ("value", ctypes.c_uint)),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.POINTER(_Instruction)))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("path", ctypes.c_int))


def can_confine() -> bool:
    """Return whether this system can confine a program."""
    if sys.platform != "linux" or platform.machine() not in _REFUSED_CALLS:
        return False
    return ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1) >= 1


def main(arguments: Sequence[str]) -> int:
    """Confine this process and become the program; return an exit code if that fails."""
    memory, cpu, file_size = (int(value) for value in arguments[:3])
    folder, *command = arguments[3:]
    try:
        _limit(memory, cpu, file_size)
        _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _confine_files(folder)
        _refuse_network()
    except OSError:
        return UNCONFINED
    os.chdir(folder)
    return os.execv(command[0], command)  # noqa: S606 -- no shell is wanted


def _limit(memory: int, cpu: int, file_size: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _confine_files(folder: str) -> None:
    """Hide all files but those that are installed and those in a folder (Landlock)."""
    version = _call("syscall", _CREATE_RULESET, None, 0, 1)
    rights = _FIRST_RIGHTS | (_MOVE if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    handled = ctypes.c_uint64(rights)
    rules = _call("syscall", _CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    for path in _INSTALLED:
        _allow(rules, path, _READ_FILE | _READ_FOLDER | _EXECUTE)
    for path in _DEVICES:
        _allow(rules, path, _READ_FILE | _WRITE_FILE)
    _allow(rules, _SOCKETS, _MAKE_SOCKET)
    _allow(rules, folder, rights)
    _call("syscall", _RESTRICT, rules, 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= _READ_FILE | _EXECUTE | _WRITE_FILE
    rule = _PathRule(rights, opened)
    _call("syscall", _ADD_RULE, rules, 1, ctypes.byref(rule), 0)
    os.close(opened)


def _refuse_network() -> None:
    """Refuse every socket but local ones (seccomp); their files are confined as others are."""
    machine = platform.machine()
    architecture, calls = _AUDIT_ARCHITECTURES[machine], _REFUSED_CALLS[machine]
    code = [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),
        (_JUMP_AT_LEAST, 4, 0, _X32_CALLS),
        (_JUMP_EQUAL, 3, 0, calls["io_uring_setup"]),
        (_JUMP_EQUAL, 0, 3, calls["socket"]),
        (_LOAD, 0, 0, 16),
        (_JUMP_EQUAL, 1, 0, _UNIX_SOCKET),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    instructions = (_Instruction * len(code))(*(_Instruction(*each) for each in code))
    program = _Program(len(code), instructions)
    _call("prctl", _SECCOMP, _FILTER, ctypes.byref(program), 0, 0)


def _call(function: str, *arguments: object) -> int:
    """Call a function of the C library; raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    result: int = getattr(library, function)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), function)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
