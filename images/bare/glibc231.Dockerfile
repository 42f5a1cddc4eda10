# A C library older than ours: Debian 11's glibc 2.31, its loader and its shell. For tests.
ARG BASE=debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241

FROM ${BASE} AS build
RUN mirror=$(grep -Erho 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list* | head -n 1) \
    && echo "deb $mirror bullseye main" > /etc/apt/sources.list.d/bullseye.list && apt-get update
RUN apt-get download libc6/bullseye dash/bullseye && for deb in *.deb; do dpkg-deb --extract $deb /image; done \
    && rm -rf /image/usr/share
RUN mkdir /status && for deb in *.deb; do dpkg-deb --field $deb > /status/${deb%%_*}; done

FROM scratch
COPY --from=build /image/ /
COPY --from=build /status/ /var/lib/dpkg/status.d/
