ARG X=uv
FROM debian:12
COPY --from=$X /uv /uv
