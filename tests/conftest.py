"""What every test relies on, whoever runs them.

A loaded machine is no failure: hypothesis has no deadline for an example, and pytest-timeout ends what hangs. And the
signals that a launcher's agent gets are what they are in a pod, also under nohup or a service that ignores some.
"""

import signal

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
