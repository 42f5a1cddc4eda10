"""The delivery command: copies the tools, waits for the workers, writes the hosts file.

It takes kubectl-delivery's place in the launcher pod's init container: no argument is needed, and its flags are taken.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from delivery import hostfile, hostsfile, klog, target, tools
from delivery.exits import READY, USAGE, DeliveryError, StoppedBySignal
from delivery.progress import Progress
from delivery.settings import Options, settings, termination_log
from sshd_bootstrap import lastwords

if TYPE_CHECKING:
    from delivery.settings import Settings
    from delivery.sshd.files import Files
    from delivery.sshd.waiting import Waiting
    from delivery.watching import Watching

_EPILOG = "All settings, what is waited for and every exit code: docs/delivery.md."


def main() -> None:
    """Run as a command, and end the process."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        sys.exit(command.main(args=klog.translate(sys.argv[1:]), prog_name="mpi-delivery", standalone_mode=False))
    except click.ClickException as error:
        sys.stderr.write(f"mpi-delivery: {error.format_message()} (mpi-delivery --help lists the options)\n")
        sys.exit(USAGE)


@click.command(epilog=_EPILOG)
@click.argument("tool", nargs=-1)
@click.option("--target", metavar="FOLDER", help="Where tools and hosts go (TARGET_DIR, else /opt/kube).")
@click.option("--namespace", metavar="NS", help="The workers' namespace (NAMESPACE, else this pod's own).")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, e.g. 30m. Default: never.")
@click.option("--grace", metavar="DURATION", help="How long trouble that may heal may last. Default: 10m.")
@click.option("--replacement", metavar="DURATION", help="How long a lost worker may be missing. Default: 60s.")
@click.option("--kubeconfig", metavar="FILE", help="A kubeconfig in JSON form; KUBECONFIG wins.")
@click.option("--master", hidden=True)
@click.version_option(package_name="mpi-agents", prog_name="mpi-delivery")
def command(tool: tuple[str, ...], master: str | None, **given: str | None) -> int:
    """Copy TOOLs into the target folder, wait until all workers of the hostfile are Ready, and write `hosts`.

    TOOL is `client` (the default), `direct`, `kubectl-exec` (the default, too, where kubexec.sh calls kubectl),
    `kubectl` or another file of the tools folder, or PATH[:NAME].
    """
    options = Options(tools=tool, **given)
    progress = Progress(sys.stderr)
    if master:
        progress.line("-master has no effect: the kubeconfig or the pod's environment names the API server")
    return _Delivery(progress).run(options)


class _Delivery:
    """One delivery, and what is told of its end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._waiting: Watching | Waiting | None = None

    def run(self, options: Options) -> int:
        """Return the exit code."""
        try:
            asked = settings(options, os.environ)
            if asked.stays:
                self._stay(asked)
            self._deliver(asked)
        except DeliveryError as error:
            self._end(str(error))
            return error.exit_code
        except StoppedBySignal as stopped:
            standing = f" while waiting: {self._waiting.standing}" if self._waiting else ""
            self._end(f"stopped by {signal.Signals(stopped.number).name}{standing}")
            raise
        return READY

    def _stay(self, asked: Settings) -> NoReturn:
        """Tell the launcher's container how the wait ended, and stay until the pod's end: that is no failure of ours.

        Wait again for a container that is started again. Keys that change meanwhile are taken.
        """
        from delivery.sshd.files import Files  # noqa: PLC0415
        from delivery.sshd.staying import Keys, Word  # noqa: PLC0415

        files = Files(asked.environ)
        word, keys = Word(files.run_folder), Keys(files, self._progress.line)
        try:
            word.until_prepared(self._progress.line)
            while True:
                try:
                    if word.is_taken:
                        self._progress.line("the launcher's command has begun already: nobody is waited for")
                    else:
                        self._deliver(asked, files)
                        keys.look()  # the workers have taken what came meanwhile
                        word.ready()
                    keys.follow(word.is_asked_for)
                    self._progress.line("the launcher's container was started again: its workers are waited for again")
                except DeliveryError as error:
                    self._progress.line(f"mpi-delivery: {error}")
                    word.failed(error.exit_code, str(error))
                    word.until_taken()
        except StoppedBySignal:
            sys.exit(READY)

    def _deliver(self, asked: Settings, files: Files | None = None) -> None:
        self._waiting = None  # each has one use
        # What the other transport needs is not imported: it may cost more than the wait.
        if asked.is_ssh:
            from delivery.sshd.files import Files  # noqa: PLC0415

            files = files or Files(asked.environ)
            if not asked.stays or files.are_missing or files.have_new_keys:
                files.prepare()
        workers = hostfile.workers(hostfile.read(asked.hostfile), asked.own_names)
        for tool in asked.tools:
            line = tools.copy(tool, asked.tools_folder, asked.target)
            if line:
                self._progress.line(line)
        if not asked.waits:
            self._progress.line("MPI_AGENT_WAIT is false: nobody is waited for")
        elif not workers:
            self._progress.line(f"{asked.hostfile} names no worker: nothing to wait for")
        elif files is not None:
            from delivery.sshd.waiting import waiting  # noqa: PLC0415

            self._waiting = waiting(workers, files, asked, self._progress)
        else:
            from delivery.watching import watching  # noqa: PLC0415

            self._waiting = watching(workers, asked, self._progress)
        addresses = self._waiting.run() if self._waiting else []
        if asked.target:
            target.write_file(os.path.join(asked.target, "hosts"), hostsfile.content(asked.own_line, addresses))

    def _end(self, text: str) -> None:
        """Say why, on stderr and where Kubernetes looks."""
        self._progress.line(f"mpi-delivery: {text}")
        lastwords.leave(text, termination_log(os.environ))


def _stop(number: int, _frame: object) -> None:
    raise StoppedBySignal(number)
