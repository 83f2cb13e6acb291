"""ray: one Ray Core task per run, on a cluster started here or on an existing one.

Tasks get only their config. Progress is read from the run folders, which every node must see; a request to stop is a
file next to the plan. So nothing is lost if this process dies: what it leaves unfinished can be resumed anywhere.
"""

import contextlib
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from walkback.errors import BadValue, WalkbackError
from walkback.records import RunConfig
from walkback.records.plan_file import ask_to_stop, runs_of
from walkback.train.crew import cores, handlers, restore
from walkback.train.executors.base import EXECUTORS, Executor, Note, bring, brought, sending
from walkback.train.task import Event, Settings
from walkback.train.work import Folders, go_to, hand_over, host, outcome_of, set_aside, wish_to_stop, work_on

LOST_PATIENCE = 120.0  # seconds that a run of a lost worker may stay locked
SPARE = 2  # tasks beyond one per core, so that no core waits for us
START_ONE = "start one with `ray start --head`, or leave out --executor-option address"


class Ray(Executor):
    """Ray Core tasks of one CPU each.

    address            of a running cluster: auto, or host:port; without it one is started here and stopped at the end
    retries            how often a run is restarted elsewhere when its worker or node is lost
    object_store_mb    memory for Ray's object store, if a cluster is started here: runs need almost none
    """

    here = False

    def __init__(
        self,
        jobs: int | None = None,
        *,
        address: str | None = None,
        retries: Annotated[int, Meta(ge=0)] = 3,
        object_store_mb: Annotated[int, Meta(ge=80)] = 100,
    ):
        super().__init__(jobs)
        self.address, self.retries, self.object_store_mb = address, retries, object_store_mb

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs as tasks; a lost one is restarted from its last checkpoint."""
        if not configs:
            return
        try:
            import ray
        except ImportError as error:
            words = f"executor ray needs the package ray, which is not installed here ({error})"
            raise BadValue(words, "pip install 'walkback[ray]'") from error
        settings = replace(set_aside(configs, settings), out=settings.out.absolute())
        with sending(""):
            sent = ray.cloudpickle.dumps((brought(), settings))
        with self._connected(ray):
            plan = hand_over("ray", configs, settings)
            try:
                self._drive(ray, configs, plan, sent, note, interrupted)
            except BaseException:  # a second Ctrl-C: tasks on a cluster that is not ours must not continue
                ask_to_stop(plan)
                raise

    def _drive(
        self, ray: Any, configs: Sequence[RunConfig], plan: Path, sent: bytes, note: Note,
        interrupted: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Send tasks and collect their results, until nothing is left or it must stop."""
        shared = ray.put(sent)
        # Ray itself does not retry: a lost run may still be locked, and the task must wait for it.
        task = ray.remote(num_cpus=1, max_retries=0)(_task)
        waiting = [*range(len(configs))][::-1]
        flying: dict[Any, int] = {}
        lost: Counter[int] = Counter()
        folders = Folders(configs, runs_of(plan))
        stopping = False
        while flying or (waiting and not stopping):
            if interrupted() and not stopping:
                stopping = True
                ask_to_stop(plan)
            cpus = int(ray.cluster_resources().get("CPU", 0))  # the cluster may have grown or shrunk
            while waiting and not stopping and len(flying) < max(1, self.jobs or cpus + SPARE):
                index = waiting.pop()
                patience = LOST_PATIENCE if lost[index] else 0.0
                words = (str(plan), index, configs[index], [*sys.path], str(Path.cwd()), patience)
                flying[task.remote(shared, *words)] = index
            if not flying:
                continue
            done, _ = ray.wait(list(flying), num_returns=1, timeout=0.25)
            for event in folders.look(flying.values()):
                note(event)
            for reference in done:
                index = flying.pop(reference)
                outcome = outcome_of(plan, index)
                try:
                    end: Event | None = ray.get(reference)  # None: it had not started when it was asked to stop
                except ray.exceptions.RayTaskError as error:  # it raised, and would again
                    why = " ".join(str(error).split())[-400:]
                    end = Event(index, "failed", says=f"Ray could not run it: {why}")
                except ray.exceptions.RayError as error:
                    lost[index] += 1
                    if not stopping and lost[index] <= self.retries:
                        waiting.append(index)
                        continue
                    times = f"{lost[index]} times{f' (last on {outcome.host})' if outcome is not None else ''}"
                    says = f"its worker was lost {times}: {type(error).__name__}; the same command resumes the run"
                    end = Event(index, "failed", says=says)
                    if stopping:
                        end = Event(index, "stopped", says="its worker was lost; the same command resumes it")
                else:
                    if end is not None and outcome is not None and outcome.note:  # what a snapshot does not show
                        for event in Folders(configs, runs_of(plan)).look([index]):
                            assert event.progress is not None
                            note(replace(event, progress=replace(event.progress, note=outcome.note)))
                if end is not None:
                    note(end)

    @contextlib.contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        """Join a cluster, or start one here that ends with this process. An existing connection is kept."""
        if ray.is_initialized():
            yield
            return
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        local = {
            "num_cpus": self.jobs or cores(), "num_gpus": 0, "include_dashboard": False,
            "object_store_memory": self.object_store_mb << 20, "_node_ip_address": "127.0.0.1",
        }  # fmt: skip
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # otherwise 15: they would hardly run next to anything else
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        _refuse_deaf(ray, self.address)
        before = handlers()  # Ray sets its own for SIGTERM; ours, which stops the runs, must stay
        try:
            # "local": never one that happens to run here, which RAY_ADDRESS or a file in /tmp would name.
            ray.init(address=self.address or "local", **quiet, **(local if self.address is None else {}))
        except (ConnectionError, RuntimeError, ValueError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            doing = "started here" if self.address is None else f"joined at {self.address}"
            raise BadValue(f"no Ray cluster could be {doing}: {why}", START_ONE) from error
        finally:
            restore(before)
        try:
            yield
        finally:
            before = handlers()
            try:
                ray.shutdown()
            finally:
                restore(before)


def _refuse_deaf(ray: Any, address: str | None) -> None:
    """Refuse a host:port that does not answer: Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return  # auto, or an address of another kind
    # Ray takes this machine's outer address for 127.0.0.1.
    hosts = {host, ray.util.get_node_ip_address()} if host in ("127.0.0.1", "localhost") else {host}
    for each in hosts:
        with contextlib.suppress(OSError, OverflowError), socket.create_connection((each, int(port)), timeout=10):
            return
    raise BadValue(f"no Ray cluster could be joined at {address}: it does not answer", START_ONE)


_UNPACKED: dict[str, Settings] = {}  # by plan, in a worker


def _task(
    sent: bytes, plan: str, index: int, config: RunConfig, path: list[str], folder: str, patience: float
) -> Event | None:
    """One task, in a process of Ray that may have run others before."""
    from ray import cloudpickle

    stop = wish_to_stop(Path(plan))
    if stop():
        return None
    sys.path.extend(place for place in path if place not in sys.path)  # modules beside the user's script
    try:
        go_to(folder, [config])
        if plan not in _UNPACKED:  # once: unpacking again would give another object of the same name
            things, settings = cloudpickle.loads(sent)
            bring(things)
            _UNPACKED[plan] = settings
    except WalkbackError as error:
        return Event(index, "failed", says=f"on {host()}: {error}")
    except Exception as error:  # such as a module of the user's that this node does not have
        return Event(index, "failed", says=f"on {host()}: {type(error).__name__}: {error}")
    return work_on(Path(plan), index, config, _UNPACKED[plan], stop, patience=patience)


EXECUTORS.add("ray", Ray)
