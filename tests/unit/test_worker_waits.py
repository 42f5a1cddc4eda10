"""What a process waits for, by the kernel's files about it."""

from __future__ import annotations

import subprocess

import pytest

from agents.worker.waits import parse_call, parse_stack, waits
from tests.waiting import until

ADDRESSES = "0x7ffd 0x1 0x0 0x0 0x0 0x0 0x7ffe 0x7fff"


@pytest.mark.parametrize(
    ("text", "machine", "call"),
    [
        (f"0 0x3 {ADDRESSES}", "x86_64", ("read", 3)),
        (f"63 0x3 {ADDRESSES}", "aarch64", ("read", 3)),
        (f"7 0x55 {ADDRESSES}", "x86_64", ("poll", None)),
        (f"7 0x55 {ADDRESSES}", "aarch64", ("syscall 7", None)),
        (f"7 0x55 {ADDRESSES}", "riscv64", ("syscall 7", None)),
        ("running", "x86_64", ("running", None)),
        ("-1 0x7ffe 0x7fff", "x86_64", ("", None)),
        ("0", "x86_64", ("read", None)),
        ("", "x86_64", ("", None)),
    ],
)
def test_calls(text: str, machine: str, call: tuple[str, int | None]) -> None:
    assert parse_call(text, machine) == call


def test_stacks() -> None:
    text = "[<0>] futex_wait_queue+0x63/0x90\n[<0>] do_futex+0x105/0x240\nnot a frame\n"
    assert parse_stack(text) == ("futex_wait_queue", "do_futex")
    assert len(parse_stack("[<0>] again+0x1/0x2\n" * 100)) == 32


def test_a_real_process_and_one_that_is_gone() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        until(lambda: waits(process.pid)[:2] == ("read", "pipe"), "it reads")
    assert waits(process.pid) == ("", "", "", ())
