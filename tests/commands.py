"""The command line, in a process of its own that starts in a moment: it is forked from one that imported walkback.

What a command imports, and how it starts, is not tested this way; test_cli.py and test_survival.py start Python anew.
"""

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


def walkback(*words: str, cwd: Path | None = None, timeout: float = 600, **changes: str) -> subprocess.CompletedProcess:
    """A command with what it said and how it ended. `changes` are to the environment."""
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / name for name in ("out", "err")]
        order = {"words": words, "cwd": str(cwd or Path.cwd()), "environment": {**os.environ, **changes}}
        status = _carried_out(order | {"said": [*map(str, said)]}, timeout)
        out, err = (path.read_text() for path in said)
        return subprocess.CompletedProcess(["walkback", *words], status, out, err)


_servers: dict[int, subprocess.Popen] = {}  # by the process that started it


def _carried_out(order: dict[str, object], timeout: float) -> int:
    server = _servers.get(os.getpid())
    if server is None or server.poll() is not None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        server = _servers[os.getpid()] = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(order).encode() + b"\n")
    server.stdin.flush()
    pid = int(server.stdout.readline())
    if not select.select([server.stdout], [], [], timeout)[0]:
        os.kill(pid, signal.SIGKILL)
        server.stdout.readline()
        raise subprocess.TimeoutExpired(str(order["words"]), timeout)
    return int(server.stdout.readline())


def _serve() -> None:
    """Carry out the orders on the standard input, each in a fork: tell its process, then how it ended."""
    import torch.fx.experimental.symbolic_shapes  # noqa: F401 — half a second, which each command that trains would pay

    import walkback_paper  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _be_command(**json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _be_command(words: list[str], cwd: str, environment: dict[str, str], said: list[str]) -> None:
    """What Python does with `-c "from walkback.cli import main; main()" …`; never returns."""
    from walkback.cli import main

    status = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        for number, name in enumerate((os.devnull, *said)):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        sys.argv = ["-c", *words]
        sys.path[0] = ""
        del sys.modules["__main__"].__file__  # so that workers do not import it
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
