RUN true
FROM debian:12
