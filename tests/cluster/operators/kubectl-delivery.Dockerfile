# What kubeflow's own kubectl-delivery image of the training-operator does (build/images/kubectl-delivery there): it
# copies kubectl, and ends. Theirs is alpine with kubectl 1.30.
ARG BASE=debian:bookworm-slim
ARG KUBECTL
FROM ${KUBECTL} AS kubectl

FROM ${BASE}
COPY --from=kubectl /usr/local/lib/mpi-agents/kubectl /bin/kubectl
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["cp /bin/kubectl /opt/kube/kubectl"]
