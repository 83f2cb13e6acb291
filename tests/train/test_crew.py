"""The crew of processes: Ctrl-C belongs to the parent and is never lost, and a lost process costs only its task."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children, get_context, resource_tracker

import pytest

from executed import alive
from walkback.train import crew
from walkback.train.crew import Crew, Lost, start_worker


def doubles(tell, *_):
    """Doubles numbers, dies of a 3, and tells of a 9 that it is odd."""

    def double(task: int) -> tuple[int, int]:
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if task == 9:
            tell("odd")
        return os.getpid(), 2 * task

    return double


def dies_at_once(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(params=["first worker", "later worker"])
def start(request) -> None:
    """The first start of all also starts the resource tracker of multiprocessing, which changes the signal mask."""
    if request.param == "first worker":
        resource_tracker._resource_tracker._stop()


@pytest.mark.usefixtures("start")
def test_ctrl_c_while_a_worker_starts_is_kept_and_the_worker_never_gets_one(monkeypatch) -> None:
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
        for pause in (0, 0.02, 0.1):
            time.sleep(pause)
            os.kill(process.pid, signal.SIGINT)
        assert pipe.recv() == (True, None), "it is ready, and does not hear of it"
        os.kill(process.pid, signal.SIGINT)
        pipe.send(4)
        assert pipe.recv() == (True, (process.pid, 8))
        pipe.close()
        process.join(60)
        assert process.exitcode == 0
    with pytest.raises(KeyboardInterrupt):
        start_worker(doubles)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_lost_process_costs_only_its_task_and_the_others_are_there_for_more() -> None:
    with Crew(doubles, jobs=2) as workers:
        found = [*workers.do(range(6))]
        lost = {task: message for task, message in found if isinstance(message, Lost)}
        assert sorted(message[1] for _, message in found if not isinstance(message, Lost)) == [0, 2, 4, 8, 10]
        assert list(lost) == [3]
        assert lost[3].begun
        assert "SIGKILL" in lost[3].how
        first, again = (dict(workers.do([7, 8])) for _ in range(2))
        assert sorted(message[1] for message in first.values()) == [14, 16]
        pids = {message[0] for each in (first, again) for message in each.values()}
        assert len(pids) <= 2
        assert [message == "odd" for _, message in workers.do([9])] == [True, False]
        for process in active_children():  # while they wait
            process.kill()
            process.join()
        assert sorted(message[1] for _, message in workers.do([7, 8])) == [14, 16]
    assert not any(map(alive, pids))


def test_where_no_process_can_begin_every_task_is_lost_before_it_was_begun() -> None:
    with Crew(dies_at_once, jobs=2) as workers:
        found = [*workers.do(range(3))]
    assert [task for task, _ in found] == [0, 1, 2]
    assert not any(message.begun for _, message in found)
    assert all("SIGKILL" in message.how for _, message in found)


def test_no_process_is_left_after_an_error_in_the_middle() -> None:
    pids = []
    with pytest.raises(ZeroDivisionError), Crew(doubles, jobs=2) as workers:  # noqa: PT012
        for _, message in workers.do([1, 2, 4, 5]):
            pids.append(message[0])
            _ = 1 / 0
    assert not any(map(alive, pids))


@pytest.mark.parametrize("room", [0, 1])
def test_no_room_for_as_many_processes(room, monkeypatch) -> None:
    """Those that could be started do all of it; without any the system's word stands."""
    started = []

    def start(*given):
        if len(started) == room:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(start_worker(*given))
        return started[-1]

    monkeypatch.setattr(crew, "start_worker", start)
    with Crew(doubles, jobs=4) as workers:
        if room:
            assert [message[1] for _, message in workers.do([1, 2])] == [2, 4]  # by one, in their order
        else:
            with pytest.raises(BlockingIOError):
                list(workers.do([1, 2]))


def test_the_crew_needs_no_torch() -> None:
    words = "import sys, walkback.train.crew; assert not {'torch', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", words], check=True, timeout=60)
