"""The crew of processes: Ctrl-C belongs to the parent and is never lost, and a lost process costs only its task."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection

import pytest

from walkback.train.crew import READY, Crew, Lost, start_worker


def doubles(pipe: Connection) -> None:
    """Doubles numbers, and dies of a 3."""
    pipe.send(READY)
    while (task := pipe.recv()) is not None:
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        pipe.send(2 * task)


@pytest.fixture(params=["first worker", "later worker"])
def start(request) -> None:
    """The first start of all also starts the resource tracker of multiprocessing, which changes the signal mask."""
    if request.param == "first worker":
        resource_tracker._resource_tracker._stop()


@pytest.mark.usefixtures("start")
def test_ctrl_c_while_a_worker_starts_is_kept(monkeypatch) -> None:
    from walkback.train import interrupts  # here: a worker imports this file, and needs no torch

    kind = get_context("spawn").Process
    usual = kind.start

    def pressed(process: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        usual(process)

    monkeypatch.setattr(kind, "start", pressed)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with interrupts() as asked:
        pipe, process = start_worker(doubles)
        assert asked()
        assert pipe.recv() == READY, "the worker does not hear of it"
        process.kill()
    with pytest.raises(KeyboardInterrupt):
        start_worker(doubles)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("start")
def test_a_worker_ignores_ctrl_c_from_its_first_moment_on() -> None:
    pipe, process = start_worker(doubles)
    for pause in (0, 0.02, 0.1):
        time.sleep(pause)
        os.kill(process.pid, signal.SIGINT)
    assert pipe.recv() == READY
    os.kill(process.pid, signal.SIGINT)
    pipe.send(4)
    assert pipe.recv() == 8
    pipe.send(None)
    process.join(60)
    assert process.exitcode == 0


def test_a_lost_process_costs_only_its_task() -> None:
    crew = Crew(lambda: start_worker(doubles), range(6), interrupted=lambda: False)
    found, lost = [], []
    for pipe, message in crew.messages(2):
        if isinstance(message, Lost):
            lost.append(message)
        else:
            found.append(message)
            crew.give(pipe)
    assert sorted(found) == [0, 2, 4, 8, 10]
    assert [each.task for each in lost if each.task is not None] == [3]
    assert "SIGKILL" in lost[0].how or "SIGKILL" in lost[-1].how


@pytest.mark.parametrize("room", [0, 1])
def test_no_room_for_as_many_processes(room) -> None:
    """Those that could be started do all of it; without any the system's word stands."""
    started = []

    def start() -> tuple[Connection, object]:
        if len(started) == room:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(start_worker(doubles))
        return started[-1]

    crew, found = Crew(start, [1, 2], interrupted=lambda: False), []

    def work() -> None:
        for pipe, message in crew.messages(4):
            if not isinstance(message, Lost):
                found.append(message)
                crew.give(pipe)

    if room:
        work()
        assert found == [2, 4]
    else:
        with pytest.raises(BlockingIOError):
            work()


def test_the_crew_needs_no_torch() -> None:
    words = "import sys, walkback.train.crew; assert not {'torch', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", words], check=True, timeout=60)
