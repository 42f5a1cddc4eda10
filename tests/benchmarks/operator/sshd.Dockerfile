# What mpi-operator's workers and launchers need besides: sshd, and waiting for the names in DNS, as its images do it.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends openssh-server && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /run/sshd \
    && printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' >/etc/ssh/ssh_config.d/mpi.conf \
    && printf 'StrictModes no\n' >/etc/ssh/sshd_config.d/mpi.conf
COPY wait-for-names /usr/local/bin/
