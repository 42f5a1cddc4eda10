"""Batch scripts of Slurm become valid jobs that run mpirun where they ran srun, and name what is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.client.convert import Target, from_sbatch
from agents.client.convert.slurm.options import SBATCH, SRUN, devices, elements, mebibytes, parse, seconds
from agents.client.convert.slurm.request import ELEMENTS_MAX
from agents.client.errors import ManifestError
from agents.client.shell import commands
from agents.job.model import Implementation, Job
from agents.job.read import read
from agents.playground.definitions import problems, schemas, unknown

Object = dict[str, Any]
OPEN_MPI, MPICH, INTEL = Implementation.OPEN_MPI, Implementation.MPICH, Implementation.INTEL
FILES = "the cluster's shared folders"  # what every script loses


def script(options: str, *body: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {one}" for one in options.splitlines()), *body])


def jobs(text: str, mpi: Implementation = OPEN_MPI, to: Target = Target.V1) -> tuple[list[Object], list[str]]:
    found = from_sbatch(text, "dir/my_job.sh", "my/image", mpi, to)
    for body in found.manifests:
        schema = schemas()[(*body["apiVersion"].split("/"), "MPIJob")]
        assert (unknown(schema, body), problems(schema, body)) == ([], [])
        metadata = {"uid": "0", "namespace": "default", **body["metadata"]}
        assert isinstance(read({**body, "metadata": metadata}), Job)
    return list(found.manifests), [line for line in found.lost if FILES not in line]


def container(body: Object, role: str) -> Object:
    [found] = body["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return dict(found)


def launched(body: Object) -> str:
    return str(container(body, "Launcher")["command"][-1])


def size(body: Object) -> tuple[Any, ...]:
    """Workers, slots, and what a worker asks for."""
    limits = container(body, "Worker").get("resources", {}).get("limits", {})
    spec = body["spec"]
    asked = (limits.get(name) for name in ("cpu", "memory", "nvidia.com/gpu"))
    return (spec["mpiReplicaSpecs"]["Worker"]["replicas"], spec["slotsPerWorker"], *asked)


@pytest.mark.parametrize(
    ("options", "expected", "lost"),
    [
        ("", (1, 1, "1", None, None), 0),
        ("-N 2", (2, 1, "1", None, None), 0),
        ("-N2 -n7", (2, 4, "4", None, None), 0),
        ("--nodes=2-4 --ntasks-per-node=8", (2, 8, "8", None, None), 0),
        ("-n 16 --ntasks-per-node=8 -c 4", (2, 8, "32", None, None), 0),
        ("-n 16", (1, 16, "16", None, None), 1),
        ("-N 4 -n 2", (2, 1, "1", None, None), 1),
        ("-N 2\n-N 3 # the last one counts", (3, 1, "1", None, None), 0),
        ("--nodes 2 --mem 64G", (2, 1, "1", "64Gi", None), 0),
        ("-N 1 -n 4 --mem-per-cpu=1000 -c 2", (1, 4, "8", "8000Mi", None), 0),
        ("-N 1 --mem=0", (1, 1, "1", None, None), 1),
        ("-N 2 --gres=gpu:4 --mem-per-gpu=10G", (2, 1, "1", "40Gi", "4"), 0),
        ("-N 2 --gres=gpu:a100:4", (2, 1, "1", None, "4"), 1),
        ("-N 2 --gpus-per-node=v100:2 --ntasks-per-node 2", (2, 2, "2", None, "2"), 1),
        ("-N 2 -G 8", (2, 1, "1", None, "4"), 0),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", (2, 4, "4", None, "4"), 0),
        ("--gpus=4 --ntasks-per-gpu=2 -N 2", (2, 4, "4", None, "2"), 0),
        ("-N 2 --exclusive", (2, 1, None, None, None), 1),
        ("-N 2 --exclusive=user -c 3", (2, 1, "3", None, None), 1),
    ],
)
def test_the_size(options: str, expected: tuple[Any, ...], lost: int) -> None:
    [body], told = jobs(script(options, "srun a"))
    assert size(body) == expected
    assert len(told) == lost, told


def test_what_is_no_size() -> None:
    options = "-J My_Job.1\n-t 1-02:00:00 -p big,small -D /work/run --hold --export=ALL,A='x y',HOME"
    [body], lost = jobs(script(options, "srun a"))
    assert body["metadata"]["name"] == "my-job-1"
    assert body["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "big"}
    assert body["spec"]["runPolicy"] | {"activeDeadlineSeconds": 93600, "suspend": True} == body["spec"]["runPolicy"]
    for role in ("Launcher", "Worker"):
        assert container(body, role)["workingDir"] == "/work/run"
        assert {"name": "A", "value": "x y"} in container(body, role)["env"]
    assert [line.partition(":")[0] for line in lost] == ["the partition big", "--export of HOME"]


def test_each_option_that_is_lost_is_named_once_with_its_line() -> None:
    options = "--mail-type=END\n-A acct -o out\n-o out --made-up=1 word\n--no-requeue -Q"
    _, lost = jobs(script(options, "srun a", "#SBATCH -N 3", "scontrol show job", "scontrol show job"))
    assert [line.rpartition(": ")[0] for line in lost] == [
        "line 4: word",
        "line 7: #SBATCH -N 3",
        "line 2: --mail-type=END",
        "line 3: --account=acct",
        "line 3: --output=out",
        "line 4: --output=out",
        "line 4: --made-up=1",
        "line 8: scontrol",
    ]


STEPS = [
    ("srun ./a -n 9", "mpirun -n 8 ./a -n 9"),
    ("srun -n4 --mpi=pmix ./a", "mpirun -n 4 ./a"),
    ("srun --nodes=1 ./a", "mpirun -n 4 ./a"),
    ("srun -N2 -n2 ./a", "mpirun -n 2 --map-by ppr:1:node ./a"),
    ("srun --ntasks-per-node=2 -l ./a", "mpirun -n 4 --map-by ppr:2:node --tag-output ./a"),
    ("srun -c 4 ./a", "mpirun -n 8 --bind-to none ./a"),
    ("srun -c4 --cpu-bind=verbose,cores ./a", "mpirun -n 8 --map-by slot:PE=4 ./a"),
    ("srun --cpu-bind=sockets ./a", "mpirun -n 8 --bind-to socket ./a"),
    ("srun -n $N ./a", 'mpirun -n "$N" ./a'),
    ("srun -n \\\n  2 \\\n  ./a > out 2>&1", "mpirun -n 2 ./a > out 2>&1"),
    ("srun --chdir='/my dir' ./a", 'mpirun -n 8 -wdir "/my dir" ./a'),
    ("export A=1 B; C=2 srun -n 1 ./a", "export A=1 B; C=2 mpirun -n 1 -x A -x B ./a"),
    ("srun --export=ALL,D=1 ./a", "mpirun -n 8 -x D=1 ./a"),
    ("if srun -n 1 a; then time srun -n 2 b; fi", "if mpirun -n 1 a; then time mpirun -n 2 b; fi"),
    ("x=$(srun -n 1 a) && ! (srun -n 2 b | tee c)", "x=$(mpirun -n 1 a) && ! (mpirun -n 2 b | tee c)"),
    ("timeout 5m /usr/bin/srun -n 1 a", "timeout 5m mpirun -n 1 a"),
    ("echo srun; echo 'srun -n 1 a' # srun a", "echo srun; echo 'srun -n 1 a' # srun a"),
    ("cat <<EOF\nsrun a\nEOF\nsrun -n 1 b", "cat <<EOF\nsrun a\nEOF\nmpirun -n 1 b"),
    ("cat <<-'E' <<F\nsrun a\n\tE\nsrun b\nF\nsrun -n 1 c", "cat <<-'E' <<F\nsrun a\n\tE\nsrun b\nF\nmpirun -n 1 c"),
    (
        "cat <<EOF\nisn't\nEOF\nsrun -n 1 b # isn't\nsrun -n 1 c",
        "cat <<EOF\nisn't\nEOF\nmpirun -n 1 b # isn't\nmpirun -n 1 c",
    ),
    ("srun -n 2 a &\nsrun -n 2 b", "mpirun -n 2 a &\nmpirun -n 2 b"),
    ("mpirun ./a", "mpirun -n 8 ./a"),
    ("export A=1\nmpirun -np 2 ./a", "export A=1\nmpirun -x A -np 2 ./a"),
    ("export A\nmpirun -x A -hostfile h --mca a b ./a", "export A\nmpirun -n 8 -x A --mca a b ./a"),
    ("mpirun --what 3 ./a", "mpirun --what 3 ./a"),
    ("mpirun --version", "mpirun --version"),
    ("srun --pty bash", "srun --pty bash"),
    ("srun a : -n 2 b", "srun a : -n 2 b"),
    ("srun --multi-prog conf", "srun --multi-prog conf"),
]


@pytest.mark.parametrize(("given_", "expected"), STEPS)
def test_steps(given_: str, expected: str) -> None:
    [body], _ = jobs(script("-N 2 --ntasks-per-node=4", ":", given_))
    assert launched(body) == f":\n{expected}\n"


@pytest.mark.parametrize(
    ("mpi", "expected"),
    [
        (MPICH, "mpiexec -n 2 -ppn 1 -bind-to core -l -genv A 1 ./a"),
        (INTEL, "mpiexec -n 2 -ppn 1 -l -genv A 1 ./a"),
    ],
)
def test_steps_of_hydra(mpi: Implementation, expected: str) -> None:
    line = "srun -N 2 -n 2 --cpu-bind=cores -l --export=A=1 ./a"
    [body], lost = jobs(script("-N 2 --ntasks-per-node=4", "export B", line), mpi)
    assert launched(body) == f"export B\n{expected}\n"
    assert bool(lost) is (mpi is INTEL)


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("srun --mpi=pmix -o out a", ["srun --mpi=pmix: mpirun starts", "srun --output=out: use the shell's"]),
        ("srun --exact --made-up a", ["srun --exact: has no meaning", "srun --made-up: is no option of srun"]),
        ("srun --cpu-bind=map_cpu:0 a", ["srun --cpu-bind=map_cpu:0: mpirun has"]),
        ("srun --pty bash", ["srun --pty: the line is as it was"]),
        ("srun -n 2", ["srun without a program"]),
        ("srun a : -n 2 b", ["srun with a colon: the line is as it was"]),
        (
            "srun -n $N --ntasks-per-node=2 a",
            ["srun --ntasks-per-node=2: ranks are placed by numbers only, not variables"],
        ),
        ("mpirun --what 3 ./a", ["mpirun: has options that are not known"]),
        ("mpirun --hostfile h ./a", ["mpirun --hostfile h: the operator makes"]),
        ("srun a & wait", ["parallel steps (&)"]),
        ("module load gcc; ml x", ["module load gcc: the image", "ml x: the image"]),
        ("H=$(scontrol show hostnames)", ["scontrol: there is no Slurm"]),
        ('RUN="srun -n 2"; $RUN a', ["srun in a variable"]),
    ],
)
def test_what_steps_lose(line: str, lost: list[str]) -> None:
    _, told = jobs(script("", "", line))
    assert [one.removeprefix("line 3: ")[: len(some)] for one, some in zip(told, lost, strict=True)] == lost


def test_slurms_variables_are_the_scripts_and_not_the_environments() -> None:
    body = 'echo $SLURM_NTASKS ${SLURM_CPUS_PER_TASK} "$SLURM_JOB_ID" $SLURM_PROCID ${SLURM_GPUS_ON_NODE:-0}'
    [made], lost = jobs(script("-N 2 --ntasks-per-node=4 -c 2", body, "cd $SLURM_SUBMIT_DIR", "module load x"))
    assert launched(made).splitlines()[:5] == [
        "SLURM_NTASKS=8",
        "SLURM_CPUS_PER_TASK=2",
        "SLURM_JOB_ID=my-job",
        "SLURM_SUBMIT_DIR=$PWD",
        "type module >/dev/null 2>&1 || { module() { :; }; ml() { :; }; }",
    ]
    assert [line.partition(":")[0] for line in lost] == ["line 5", "$SLURM_PROCID"]
    assert "SLURM" not in str(container(made, "Launcher")["env"])


def test_an_array_is_a_job_per_element() -> None:
    made, lost = jobs(script("-a 1-5:2,9%2", "srun a $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MAX > $SLURM_JOB_ID"))
    assert [one["metadata"]["name"] for one in made] == ["my-job-1", "my-job-3", "my-job-5", "my-job-9"]
    assert {"name": "SLURM_ARRAY_TASK_ID", "value": "5"} in container(made[2], "Worker")["env"]
    assert {"name": "SLURM_ARRAY_TASK_MAX", "value": "9"} in container(made[2], "Launcher")["env"]
    assert "-x SLURM_ARRAY_TASK_ID" in launched(made[0])
    assert launched(made[0]).startswith('SLURM_JOB_ID="my-job-$SLURM_ARRAY_TASK_ID"\n')
    assert lost == ["the limit %2 of the array: all its jobs are created together"]


def test_the_shell_is_the_scripts_but_for_a_login() -> None:
    [body], lost = jobs("#!/usr/bin/env bash\n#SBATCH -n 1\n\nsrun a\n")
    assert container(body, "Launcher")["command"] == ["/bin/bash", "-c", "mpirun -n 1 a\n"]
    assert not lost
    [body], lost = jobs("#! /bin/sh -l -e\r\nsrun a\r\n")
    assert container(body, "Launcher")["command"] == ["/bin/sh", "-e", "-c", "mpirun -n 1 a\n"]
    assert lost == ["line 1: -l: the script gets the image's environment, not a login shell's"]


@pytest.mark.parametrize("to", [Target.V1, Target.V2BETA1, Target.T9K])
def test_each_target(to: Target) -> None:
    found = from_sbatch(script("-N 2", "srun a"), "x.sh", "img", OPEN_MPI, to)
    assert found.manifests[0]["apiVersion"].rpartition("/")[2] == {"t9k": "v1beta1"}.get(to, to)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no batch script"),
        ("srun a", "is no batch script"),
        ("#!/usr/bin/env python3\n", "is for /bin/python3"),
        ("#!/bin/tcsh\n", "is for /bin/tcsh"),
        (script("-N x"), "line 2: --nodes=x: must be a number"),
        (script("-n 0"), "line 2: --ntasks=0: must be a number"),
        (script("-t soon"), "line 2: --time=soon: must be a time"),
        (script("--mem=lots"), "line 2: --mem=lots: must be an amount"),
        (script("--gres=fpga:1"), "only gpu is known"),
        (script("-a 0-1000"), f"at most {ELEMENTS_MAX}"),
        (script("--comment='x"), "line 2: No closing quotation"),
        (script("") + "\n" + "x" * (256 << 10), "is larger than 256 KiB"),
        (script("-a 0-999") + "\n" + "x" * (17 << 10), "1000 jobs with this script are too large"),
    ],
)
def test_what_can_not_be_converted(text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        jobs(text)


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        ("-n4 -N 2 a", "--ntasks=4 --nodes=2", "a"),
        ("-ln 4 -K0 -K a", "--label --ntasks=4 --kill-on-bad-exit=0 --kill-on-bad-exit", "a"),
        ("--ntasks-per-n 4 --cpu-bind=cores -- -a", "--ntasks-per-node=4 --cpu-bind=cores", "-a"),
        ("--tasks-per-node=2 --exclusive a", "--ntasks-per-node=2 --exclusive", "a"),
        ("-n", "--ntasks", ""),
        ("", "", ""),
    ],
)
def test_options_are_read_as_srun_reads_them(words: str, options: str, rest: str) -> None:
    found, behind = parse(words.split(), SRUN)
    assert " ".join(map(str, found)) == options
    assert " ".join(words.split()[behind:]) == rest


def test_amounts() -> None:
    times = ("30", "10:30", "2:00:00", "1-12", "1-0:30", "2-1:2:3", "unlimited", "0")
    assert [seconds(one) for one in times] == [1800, 630, 7200, 129600, 88200, 176523, None, None]
    assert [mebibytes(one) for one in ("4000", "4G", "1T", "1500K", "2GB")] == [4000, 4096, 1 << 20, 2, 2048]
    assert [devices(one) for one in ("4", "a100:4", "a100")] == [(4, ""), (4, "a100"), (1, "a100")]
    assert elements("1,3,5-9:2%4", 9) == [1, 3, 5, 7, 9]


@given(st.text(alphabet="srun -n1=:;&|()<>'\"\\$`{}#\n\tEOFax", max_size=200))
def test_any_text(text: str) -> None:
    """Places are those of the words, and options end."""
    for command in commands(text):
        assert all(0 <= word.start < word.end <= len(text) for word in command.words)
        assert 1 <= command.line <= text.count("\n") + 1
    parse(text.split(), SBATCH)
    jobs(script("", ":", text))
