# Nothing but one static shell: what is delivered here has to bring all that it needs. For tests.
ARG BASE=debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends busybox-static
RUN mkdir /status && for package in busybox-static; do dpkg-query --status $package > /status/$package; done

FROM scratch
COPY --from=build /bin/busybox /bin/sh
COPY --from=build /status/ /var/lib/dpkg/status.d/
