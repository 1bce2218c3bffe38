FROM debian:12
COPY --chmod=755 a /a
