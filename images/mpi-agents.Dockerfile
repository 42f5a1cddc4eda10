# One image for all roles. Its last stage begins with nothing: what runs in it is in it by name, and there is no shell.
ARG BASE=debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
        ca-certificates gcc libc6-dev musl-tools python3 python3-venv
# What the base image trusts, such as a company's own authority, pip does too.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_INDEX_URL
WORKDIR /src
COPY images/python.lock images/python-build.lock images/
RUN python3 -m venv /tools \
    && /tools/bin/pip install --require-hashes --only-binary :all: --requirement images/python-build.lock \
    && /tools/bin/pip install --require-hashes --only-binary :all: --no-compile --target /packages \
        --requirement images/python.lock
COPY pyproject.toml README.md LICENSE ./
COPY images/__init__.py images/relocatable.py images/
COPY agents/__init__.py agents/
COPY agents/common agents/common
COPY agents/job agents/job
COPY agents/kube agents/kube
COPY agents/operator agents/operator
COPY agents/worker agents/worker
COPY delivery delivery
COPY rshagent rshagent
COPY sshd_bootstrap sshd_bootstrap
ARG TOOLS=/image/usr/local/lib/mpi-agents
RUN /tools/bin/pip install --no-compile --no-deps --no-index --no-build-isolation --target /packages . \
    && mkdir -p ${TOOLS} \
    && python3 -m rshagent.native.client_build ${TOOLS}/rshagent \
    && python3 -m rshagent.native.client_build --direct-start ${TOOLS}/rshagent-direct \
    && python3 -m rshagent.native.client_build --pause ${TOOLS}/pause \
    && python3 -m rshagent.native.client_build --k8s-launch ${TOOLS}/k8s-launch \
    && python3 -m rshagent.native.client_build --wrap ${TOOLS}/mpi-wrap \
    && python3 -m rshagent.native.client_build --runner ${TOOLS}/mpi-runner \
    && python3 -m sshd_bootstrap.start_build ${TOOLS}/sshd-start \
    && python3 -m images.relocatable tree ${TOOLS}/python /packages \
    && python3 -m images.relocatable root /image /packages \
        k8s-wait-for-pods.sh mpi-delivery mpi-operator mpi-worker rshagent-hub sshd-bootstrap \
    && python3 -m images.relocatable share /image \
    && mkdir -p /image/opt/kube \
    && cp ${TOOLS}/rshagent /image/opt/kube/ && ln -s rshagent /image/opt/kube/kubectl \
    && ln -s /run/mpi-agents/hosts /image/opt/kube/ && ln -s /run/mpi-agents/hosts ${TOOLS}/ \
    && ln -s ../lib/mpi-agents/rshagent ../lib/mpi-agents/rshagent-direct /image/usr/local/bin/ \
    && mkdir -m 1777 /image/tmp && mkdir /image/etc && echo 'hosts: files dns' > /image/etc/nsswitch.conf

FROM scratch
COPY --from=build /image/ /
# /opt/kube and /usr/local/lib/mpi-agents can be mounted as image volumes at /opt/kube in a launcher.
ENV PATH=/usr/local/bin
USER 65532:65532
CMD ["mpi-delivery"]
