# musl's loader and C library where another's might be expected, and a program that is preloaded into all others. For tests.
ARG BASE=debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends busybox-static musl musl-tools
RUN mkdir -p /root/bin /root/lib /root/etc && cp /bin/busybox /root/bin/busybox && ln -s busybox /root/bin/sh \
    && cp -L /lib/ld-musl-*.so.1 /root/lib/ && ln -s ld-musl-*.so.1 /root/lib/libc.so \
    && echo 'int preloaded(void) { return 1; }' > preloaded.c && musl-gcc -shared -fPIC -o /root/lib/preloaded.so preloaded.c \
    && echo 'int main(void) { extern int preloaded(void) __attribute__((weak)); return !preloaded; }' > is-preloaded.c \
    && musl-gcc -o /root/bin/is-preloaded is-preloaded.c
RUN mkdir /status && for package in busybox-static musl; do dpkg-query --status $package > /status/$package; done

FROM scratch
COPY --from=build /root/ /
COPY --from=build /status/ /var/lib/dpkg/status.d/
ENV LD_PRELOAD=/lib/preloaded.so
