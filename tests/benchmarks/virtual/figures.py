"""The figures, and their table. All ways take turns within a round; a figure is the median of its rounds."""

from __future__ import annotations

import contextlib
import copy
import statistics
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import report
from tests.benchmarks.clusters import KUBEXEC
from tests.benchmarks.measure import BenchmarkError
from tests.benchmarks.report import AS_FRACTION, Figure, Target
from tests.cluster.images import BENCH_MEM
from tests.cluster.kube import WaitError

from .programs import INPUT
from .stage import login
from .ways import PLAIN, SIBLING, WAYS, Layout, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.command import Say
    from tests.cluster.kube import Api

    from .programs import Application, Experiment, Read
    from .stage import Login
    from .ways import Way

    Samples = dict[str, dict[str, list[float]]]  # by what is measured, and by way

_HEAD = ("figure", "way", "takes", "beside", "takes", "ratio", "in single runs", "goal", "reached")
_JOBS, _JOBS_RUNS, _JOBS_LAYOUT = 50, 2, Layout(5, 1)
_DVM_SIZES, _DVM_RUNS = (2, 16, 64), 3
_KUBEXEC = f"cat >/tmp/kubexec.sh <<'END' && chmod +x /tmp/kubexec.sh\n{KUBEXEC}END"
_KUBECTL, _AGENT, _PRUN = "mpirun, kubectl's kubexec.sh", "mpirun, our agent", "prun"
_DVM = "head -n {} /etc/mpi/hostfile >/tmp/hosts; prte --daemonize --report-uri /tmp/uri --hostfile /tmp/hosts"
_END_DVM = "pterm; while grep -qsx prte /proc/[0-9]*/comm; do sleep 0.1; done"


class Bench:
    """What is measured, on a cluster with our operator. `left_out` says what could not be, and why."""

    def __init__(self, api: Api, runs: int | None, say: Say) -> None:
        """`runs`: of everything, instead of each figure's own number."""
        self._api, self._runs, self._say = api, runs, say
        self.left_out: list[str] = []

    def compare(self, application: Application) -> list[Figure]:
        """An application's experiments by all ways that there are here. Raises BenchmarkError, WaitError."""
        if application.needs and not application.needs.exists():
            self._leave_out(application.image, f"there is no {application.needs}")
            return []
        with contextlib.ExitStack() as stack:
            there: dict[Way, Login] = {}
            for way in WAYS:
                self._say(f"{application.image}, {way.name}: {application.layout.nodes} nodes")
                with self._left_out_if_it_fails(application, way):
                    one = stack.enter_context(login(self._api, way.cluster(application.image, application.layout)))
                    if application.needs == BENCH_MEM:
                        _copy_input(one)
                    if line := way.prepare(application.image):
                        one.time(line)
                    _run(application, application.experiments[0], way, one)  # also warms up
                    there[way] = one
            return [figure for one in application.experiments for figure in self._experiment(application, one, there)]

    def _experiment(self, application: Application, experiment: Experiment, there: dict[Way, Login]) -> list[Figure]:
        samples: Samples = {}
        same = set()
        for _ in self._rounds(experiment.name, experiment.runs):
            for way, one in there.items():
                wall_s, read = _run(application, experiment, way, one)
                same.add(read.same)
                launch = {"whole command": wall_s} if experiment.with_launch else {}
                for what, seconds in {**read.seconds, **launch}.items():
                    samples.setdefault(what, {}).setdefault(way.name, []).append(seconds)
        if len(same) > 1:
            raise BenchmarkError(f"{experiment.name}: energies differ between runs")
        return [
            Figure(f"{experiment.name}: {what}", *_scaled(found), _target(experiment, way.name, what))
            for what, found in samples.items()
            for way in there
            if way.name != PLAIN
        ]

    def jobs(self) -> list[Figure]:
        """Many short jobs, one after the other. Raises BenchmarkError, WaitError."""
        made = cluster("mpi-runtime", _JOBS_LAYOUT, tools=["kubectl"])
        template = copy.deepcopy(made.spec["nodes"]["template"])
        template["spec"]["automountServiceAccountToken"] = True  # kubectl needs it where it runs, which ours does not
        made.spec["login"] = {"template": template}
        starts = {_KUBECTL: "PRTE_MCA_plm_ssh_agent=/tmp/kubexec.sh mpirun", _AGENT: "mpirun", _PRUN: "prun"}
        samples: dict[str, list[float]] = {name: [] for name in starts}
        self._say(f"short jobs: {_JOBS_LAYOUT.nodes} nodes")
        with login(self._api, made) as one:
            one.time(_KUBEXEC)
            one.time("prte --daemonize")
            for _ in self._rounds(f"{_JOBS} short jobs", _JOBS_RUNS):
                for name, start in starts.items():
                    job = f"{start} --map-by ppr:1:node init_finalize >/dev/null"
                    samples[name].append(one.time(f"for job in {{1..{_JOBS}}}; do {job} || exit; done")[0])
        targets = (Target(_PRUN, 1 / 4, 1 / 4, peer=_KUBECTL), Target(_AGENT, peer=_KUBECTL))
        figure = f"{_JOBS} short jobs on {_JOBS_LAYOUT.nodes} nodes"
        return [Figure(figure, "s", samples, target, AS_FRACTION) for target in targets]

    def dvm(self) -> list[Figure]:
        """A DVM's start until all its daemons have reported. Raises BenchmarkError, WaitError."""
        samples: dict[int, dict[str, list[float]]] = {size: {} for size in _DVM_SIZES}
        for transport in ("exec", "ssh"):
            self._say(f"DVM by {transport}: {max(_DVM_SIZES)} nodes")
            with login(self._api, cluster("runtime", Layout(max(_DVM_SIZES), 1), transport=transport)) as one:
                _start_dvm(one, max(_DVM_SIZES))  # warms up
                for _ in self._rounds(f"DVM by {transport}", _DVM_RUNS):
                    for size in _DVM_SIZES:
                        samples[size].setdefault(transport, []).append(_start_dvm(one, size))
        return [
            Figure(f"DVM start, {size} nodes", "s", found, Target("ssh", peer="exec"))
            for size, found in samples.items()
        ]

    def _rounds(self, what: str, runs: int) -> Iterator[int]:
        for number in range(self._runs or runs):
            self._say(f"{what}: round {number + 1} of {self._runs or runs}")
            yield number

    @contextlib.contextmanager
    def _left_out_if_it_fails(self, application: Application, way: Way) -> Iterator[None]:
        try:
            yield
        except (BenchmarkError, WaitError) as error:
            if way.name == PLAIN:
                raise
            self._leave_out(f"{application.image} by {way.name}", str(error).splitlines()[0])

    def _leave_out(self, what: str, why: str) -> None:
        self.left_out.append(f"{what} ({why})")
        self._say(f"left out: {self.left_out[-1]}")


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *map(_row, figures)]


def _row(figure: Figure) -> tuple[str, ...]:
    ours, ratio, spread, goal, _, reached = report.cells(figure)
    peer, is_reached = figure.target.peer, "yes" if reached == "aim" else reached
    return figure.name, figure.target.mode, ours, peer, report.median(figure, peer), ratio, spread, goal, is_reached


def _run(application: Application, experiment: Experiment, way: Way, one: Login) -> tuple[float, Read]:
    """Its wall time in seconds, and what it said. Raises BenchmarkError, WaitError."""
    wall_s, text = one.time(way.command(application.image, application.layout, experiment.command), way.container)
    return wall_s, experiment.read(text)


def _scaled(samples: dict[str, list[float]]) -> tuple[str, dict[str, list[float]]]:
    """Seconds with their unit, or milliseconds if plain takes less than one."""
    if statistics.median(samples[PLAIN]) >= 1:
        return "s", samples
    return "ms", {way: [second * 1000 for second in taken] for way, taken in samples.items()}


def _target(experiment: Experiment, way: str, what: str) -> Target:
    goal = experiment.goal if way == SIBLING and what == experiment.held else None
    return Target(way, goal, goal, peer=PLAIN)


def _start_dvm(one: Login, nodes: int) -> float:
    """Seconds of a DVM's start; it is seen to have all nodes, and ended. Raises BenchmarkError, WaitError."""
    took = one.time(_DVM.format(nodes))[0]
    hosts = one.time("prun --map-by ppr:1:node sh -c 'hostname; sleep 1'")[1].split()
    one.time(_END_DVM)
    if len(set(hosts)) != nodes:
        raise BenchmarkError(f"a DVM of {nodes} nodes has {len(set(hosts))}")
    return took


def _copy_input(one: Login) -> None:
    """Put GROMACS' input into all nodes: all ranks look for it. Raises BenchmarkError."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(BENCH_MEM) as archive:
        one.copy(Path(archive.extract("benchMEM.tpr", folder)), INPUT)
