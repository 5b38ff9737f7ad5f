"""Starts a program behind a seccomp filter that answers system calls as another kernel would.

Usage: python3 seccomp.py RULE... -- PROGRAM ARG...
RULE: `unshare=1` fails unshare(2) with errno 1; `landlock=38` fails landlock_create_ruleset(2) with errno 38;
`abi=2` answers that Landlock has ABI 2.
"""
import array, ctypes, fcntl, os, platform, select, socket, struct, sys

LIBC = ctypes.CDLL(None, use_errno=True)
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
UNSHARE = {"x86_64": 272, "aarch64": 97}[platform.machine()]
LANDLOCK_CREATE_RULESET = 444
PR_SET_NO_NEW_PRIVS, SET_MODE_FILTER, NEW_LISTENER = 38, 1, 8
ALLOW, ERRNO, USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, THIRD_ARGUMENT = 0, 32
ASKS_VERSION = 1
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101


def statement(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


def build_filter(rules):
    program = []
    for name, value in rules.items():
        program.append(statement(LOAD, NUMBER))
        if name == "abi":
            program += [statement(JUMP_IF_EQUAL, LANDLOCK_CREATE_RULESET, 0, 3), statement(LOAD, THIRD_ARGUMENT),
                        statement(JUMP_IF_EQUAL, ASKS_VERSION, 0, 1), statement(RETURN, USER_NOTIF)]
        else:
            number = UNSHARE if name == "unshare" else LANDLOCK_CREATE_RULESET
            program += [statement(JUMP_IF_EQUAL, number, 0, 1), statement(RETURN, ERRNO | value)]
    return program + [statement(RETURN, ALLOW)]


def install(program, flags):
    code = ctypes.create_string_buffer(b"".join(program))
    fprog = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    assert LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    result = LIBC.syscall(SECCOMP, SET_MODE_FILTER, flags, fprog)
    assert result >= 0, os.strerror(ctypes.get_errno())
    return result


def answer_calls(listener, value):
    """Answers every call that the filter passes on, until no process is behind the filter any more."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not poll.poll()[0][1] & select.POLLHUP:
        call = bytearray(80)
        try:
            fcntl.ioctl(listener, NOTIF_RECV, call)
            fcntl.ioctl(listener, NOTIF_SEND, struct.pack("QqiI", struct.unpack_from("Q", call)[0], value, 0, 0))
        except FileNotFoundError:
            pass  # The caller was killed meanwhile.


rules, command = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
rules = {name: int(value) for name, value in (rule.split("=") for rule in rules)}
if "abi" not in rules:
    install(build_filter(rules), 0)
    os.execvp(command[0], command)
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    ours.close()
    listener = install(build_filter(rules), NEW_LISTENER)
    socket.send_fds(theirs, [b"x"], [listener])
    os.close(listener)
    os.execvp(command[0], command)
theirs.close()
_, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
answer_calls(listener, rules["abi"])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
