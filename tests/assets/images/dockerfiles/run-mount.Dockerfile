FROM debian:12
RUN --mount=type=cache,target=/root/.cache true
