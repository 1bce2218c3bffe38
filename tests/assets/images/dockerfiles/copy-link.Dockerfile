FROM debian:12
COPY --link a /a
