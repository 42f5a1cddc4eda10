# musl's loader and C library where another's might be expected, and a program that is preloaded into all others. For tests.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends busybox-static musl musl-tools
RUN mkdir -p /root/bin /root/lib /root/etc && cp /bin/busybox /root/bin/busybox && ln -s busybox /root/bin/sh \
    && cp -L /lib/ld-musl-*.so.1 /root/lib/ && ln -s ld-musl-*.so.1 /root/lib/libc.so \
    && echo 'int preloaded(void) { return 1; }' > preloaded.c && musl-gcc -shared -fPIC -o /root/lib/preloaded.so preloaded.c \
    && echo 'int main(void) { extern int preloaded(void) __attribute__((weak)); return !preloaded; }' > is-preloaded.c \
    && musl-gcc -o /root/bin/is-preloaded is-preloaded.c

FROM scratch
COPY --from=build /root/ /
ENV LD_PRELOAD=/lib/preloaded.so
