# Nothing but one static shell: what is delivered here has to bring all that it needs. For tests.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends busybox-static

FROM scratch
COPY --from=build /bin/busybox /bin/sh
