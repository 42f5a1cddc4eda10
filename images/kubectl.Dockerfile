# mpi-agents with kubectl in its tools folder, for delivery to copy. images/build.py puts kubectl beside this file.
ARG AGENTS=mpi-agents
FROM ${AGENTS}
COPY kubectl /usr/local/lib/mpi-agents/kubectl
