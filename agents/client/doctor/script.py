"""What runs in a job's pods to look at them, and how its output is read. Pure.

A POSIX shell is all that it needs; of a program that is not there it says nothing. Its lines are NAME=VALUE.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from agents.common.text import printable
from agents.job.model import Job

PROGRAMS = ("mpirun", "mpiexec", "orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "ssh")
VARIABLES = (
    *("OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile"),
    *("PRTE_MCA_plm_ssh_agent", "PRTE_MCA_prte_default_hostfile"),
    *("HYDRA_LAUNCHER_EXEC", "HYDRA_HOST_FILE", "HYDRA_IFACE"),
    *("I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_IFACE"),
)
END = "end"  # the last line's name: without it some are missing
_HOSTFILES = tuple(name for name in VARIABLES if name.lower().endswith(("hostfile", "host_file")))
MOST = 65536  # bytes of its output
_VALUE_MAX = 256  # bytes
_HOSTS = 8  # workers that the launcher looks up, and of them these it logs in to:
_LOGINS = 4
_LAUNCHER, _SSH = "launcher", "ssh"

_SCRIPT = f"""
role=$1 transport=$2 keys=$3 sshd=$4 launcher=$5
set -f
say() {{ name=$1; shift; printf '%s=%s\\n' "$name" "$*"; }}
has() {{ command -v "$1" >/dev/null 2>&1; }}
mpi=$(command -v mpirun || command -v mpiexec) 2>/dev/null
for one in {" ".join(PROGRAMS)}; do
  if has "$one"; then say "path.$one" "$(command -v "$one")"
  elif [ -n "$mpi" ] && [ -x "${{mpi%/*}}/$one" ]; then say "path.$one" "${{mpi%/*}}/$one"; fi
done
[ -z "$mpi" ] || "$mpi" --version 2>&1 </dev/null | {{
  count=0; while [ $count -lt 8 ] && IFS= read -r line; do say version "$line"; count=$((count + 1)); done; }}
for one in {" ".join(VARIABLES)}; do eval "value=\\${{$one-}}"; [ -z "$value" ] || say "env.$one" "$value"; done
say memlock "$(ulimit -l 2>/dev/null)"
df -kP /dev/shm 2>/dev/null | while read -r _ size _ _ _ where; do say shm "$size $where"; done
resolve() {{  # glibc gives up after 2 s at each server and search domain, not 10
  if has getent; then RES_OPTIONS="timeout:2 attempts:1" getent hosts "$1"; elif has nslookup; then nslookup "$1"
  elif has python3; then python3 -c 'import socket, sys; socket.gethostbyname(sys.argv[1])' "$1"; else return 99; fi
}} >/dev/null 2>&1 </dev/null
hosts=$launcher
file={"".join(f"${{{name}:-" for name in _HOSTFILES)}/etc/mpi/hostfile{"}" * len(_HOSTFILES)}
if [ "$role" = {_LAUNCHER} ] && [ -r "$file" ]; then
  count=0
  while [ $count -lt {_HOSTS} ] && read -r host _; do
    case $host in ""|"#"*) ;; *) hosts="$hosts ${{host%%:*}}"; count=$((count + 1));; esac
  done <"$file"
fi
for host in $hosts; do (resolve "$host"; say "dns.$host" $?) & done
if [ "$transport" = {_SSH} ]; then
  say uid "$(id -u 2>/dev/null)"
  for path in "$HOME" "$keys" "$keys/id_rsa" "$keys/authorized_keys"; do
    ls -ldnL "$path" 2>/dev/null | {{ read -r mode _ uid _ && say mode "$mode $uid $path"; }}
  done
  if [ "$role" = {_LAUNCHER} ]; then
    options="-o BatchMode=yes -o ConnectTimeout=5"
    [ ! -r /run/mpi-agents/ssh/ssh_config ] || options="$options -F /run/mpi-agents/ssh/ssh_config"
    count=0
    for host in ${{hosts#"$launcher"}}; do
      [ $count -lt {_LOGINS} ] && has ssh || break
      case $host in "$launcher".*) continue;; esac
      count=$((count + 1))
      (text=$(ssh $options "$host" true 2>&1 </dev/null); say "login.$host" $? $text) &
    done
  else
    [ -x "$sshd" ] || sshd=$(command -v sshd)
    [ -z "$sshd" ] || say sshd "$sshd"
    for file in /run/mpi-agents/ssh/sshd_config "$HOME/.sshd_config" /etc/ssh/sshd_config; do
      [ -r "$file" ] || continue
      while read -r key value _; do case $key in
        [Pp]ort) say port "$value";; [Ss]trict[Mm]odes) say strict "$value";; esac; done <"$file"
      break
    done
    for file in /proc/net/tcp /proc/net/tcp6; do
      [ ! -r "$file" ] || while read -r _ local _ state _; do
        [ "$state" != 0A ] || say listen "${{local##*:}}"; done <"$file"
    done
  fi
fi
wait
say {END} 1
"""

SHELL = ("/bin/sh", "-c")


def argv(job: Job, role: str, launcher: str) -> Sequence[str]:
    """Return the command that looks at a pod of a role; `launcher`: the launcher's host name."""
    return (*SHELL, _SCRIPT, "doctor", role, str(job.transport), job.ssh.mount_path, job.ssh.sshd_path, launcher)


def parse(output: bytes) -> Mapping[str, Sequence[str]]:
    """Return the values of each name in a script's output, in their order. What is no such line is left out."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in output[:MOST].decode("utf-8", "replace").splitlines():
        name, is_pair, value = line.partition("=")
        if is_pair and (text := printable(value, _VALUE_MAX)):
            found[printable(name, _VALUE_MAX)].append(text)
    return found
