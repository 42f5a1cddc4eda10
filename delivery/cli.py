"""The delivery command: copies the tools, waits for the workers, writes the hosts file.

It takes kubectl-delivery's place in the launcher pod's init container: no argument is needed, and its flags are taken.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from agents.common import termination
from agents.common.text import printable
from delivery import hostfile, target, tools
from delivery.command import Command, set_up
from delivery.exits import READY, USAGE, DeliveryError, StoppedBySignal
from delivery.settings import Options, Settings, settings, translate_go_flags
from delivery.sshd.launcher import Files, StartGate
from delivery.sshd.wait import SshdWait, sshd_wait

if TYPE_CHECKING:
    from delivery.pod_wait import PodWait

_EPILOG = "All settings, conditions and exit codes: docs/delivery.md."


def main() -> None:
    """Run as a command, and end the process."""
    set_up()
    try:
        arguments = translate_go_flags(sys.argv[1:])
        sys.exit(command.main(args=arguments, prog_name="mpi-delivery", standalone_mode=False))
    except click.ClickException as error:
        sys.stderr.write(f"mpi-delivery: {printable(error.format_message())} (mpi-delivery --help lists the options)\n")
        sys.exit(USAGE)


@click.command(epilog=_EPILOG)
@click.argument("tool", nargs=-1)
@click.option(
    "--target", metavar="FOLDER", help="Folder for the tools and the hosts file (TARGET_DIR, else /opt/kube)."
)
@click.option("--namespace", metavar="NS", help="The workers' namespace (NAMESPACE, else this pod's own).")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, e.g. 30m. Default: never.")
@click.option("--grace", metavar="DURATION", help="How long to tolerate recoverable worker failures. Default: 10m.")
@click.option(
    "--replacement", metavar="DURATION", help="How long to wait for the replacement of a lost worker. Default: 60s."
)
@click.option("--kubeconfig", metavar="FILE", help="A kubeconfig in JSON form; KUBECONFIG wins.")
@click.option("--master", hidden=True)
@click.version_option(package_name="mpi-agents", prog_name="mpi-delivery")
def command(tool: tuple[str, ...], master: str | None, **given: str | None) -> int:
    """Copy TOOLs into the target folder, wait until all workers of the hostfile are Ready, and write `hosts`.

    TOOL is `client` (the default), `direct`, `kubectl-exec` (the default, too, where kubexec.sh calls kubectl),
    `kubectl` or another file of the tools folder, or PATH[:NAME]. `none` alone copies nothing.
    """
    delivery, options = _Delivery("mpi-delivery"), Options(tools=tool, **given)
    if master:
        delivery.progress.line("-master has no effect: the kubeconfig or the pod's environment names the API server")
    return delivery.run(lambda: delivery.start(options))


class _Delivery(Command):
    """One delivery."""

    def start(self, options: Options) -> None:
        """Deliver; a sidecar stays. Raises DeliveryError."""
        asked = settings(options, os.environ)
        if asked.stays:
            self._stay(asked)
        self._deliver(asked)

    def _stay(self, asked: Settings) -> NoReturn:
        """Let the launcher's container start or fail, and stay until the pod's end, which is no failure of ours.

        Wait again for a container that is restarted. Take new keys meanwhile. Report at the end if nobody used them.
        """
        files = Files(asked.environ, self.progress.line)
        gate = StartGate(files.run_folder)
        try:
            gate.until_prepared(self.progress.line)
            while True:
                try:
                    if gate.is_taken:
                        self.progress.line("the launcher's command has already started: nothing to wait for")
                    else:
                        self._deliver(asked, files)
                        files.take_new_keys()  # that came meanwhile: the workers have them
                        files.follow_use()
                        if not gate.ready():
                            files.forget_use()
                    gate.until_asked_again(files.take_new_keys)
                    self.progress.line("the launcher's container was restarted: waiting for its workers again")
                except DeliveryError as error:
                    self.progress.line(f"mpi-delivery: {error}")
                    gate.failed(error.exit_code, str(error))
                    gate.until_taken()
        except StoppedBySignal:
            if files.are_unused:
                termination.leave(termination.UNUSED, os.environ)
            sys.exit(READY)

    def _deliver(self, asked: Settings, files: Files | None = None) -> None:
        waiting: PodWait | SshdWait | None = None
        if asked.is_ssh:
            files = files or Files(asked.environ, self.progress.line)
            if not asked.stays or files.are_missing or files.have_new_keys:
                files.prepare()
        workers = hostfile.workers(hostfile.read(asked.hostfile), asked.own_names)
        for tool in asked.tools:
            line = tools.copy(tool, asked.tools_folder, asked.target)
            if line:
                self.progress.line(line)
        if not asked.waits:
            self.progress.line("MPI_AGENT_WAIT is false: not waiting for workers")
        elif not workers:
            self.progress.line(f"{asked.hostfile} names no worker: nothing to wait for")
        elif files is not None:
            waiting = sshd_wait(workers, files, asked, self.progress)
        else:
            from delivery.pod_wait import PodWait  # noqa: PLC0415 (4 MiB that an ssh job's sidecar does without)

            waiting = PodWait(workers, asked, self.progress)
        self.waiting = waiting.wait_loop if waiting else None
        addresses = waiting.run() if waiting else []
        if asked.target:
            target.write_file(os.path.join(asked.target, "hosts"), hostfile.hosts_content(asked.own_line, addresses))
